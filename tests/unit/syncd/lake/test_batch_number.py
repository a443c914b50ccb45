import pytest

from syncd.lake.batch_number import batch_from_number, batch_to_number
from watermarks.batch import BatchId
from watermarks.errors import Misuse


def test_numbers_compare_as_batches_do_and_can_be_read() -> None:
    batches = [BatchId(1, 1), BatchId(1, 42), BatchId(1, 999_999_999_999), BatchId(2, 1), BatchId(9_000_000, 0)]

    numbers = [batch_to_number(batch) for batch in batches]

    assert numbers == sorted(numbers)
    assert numbers[1] == 1_000000000042
    assert [batch_from_number(number) for number in numbers] == batches
    assert max(numbers) < 2**63


@pytest.mark.parametrize("batch", [BatchId(1, 10**12), BatchId(9_000_001, 1)])
def test_a_batch_that_no_number_can_tell_from_another_is_refused(batch: BatchId) -> None:
    with pytest.raises(Misuse):
        batch_to_number(batch)
