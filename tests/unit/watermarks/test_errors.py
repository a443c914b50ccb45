import pytest

from watermarks import errors
from watermarks.errors import DataInDoubt, HintedError, Misuse, Stale, StateUnreadable, Transient

GROUPS = {"Misuse", "Transient", "Stale", "OutcomeUnknown", "NotOwner", "StateUnreadable", "DataInDoubt"}


def test_an_error_says_what_happened_and_what_to_do() -> None:
    error = HintedError("batch 1-3 does not follow 1-1", hint="See: syncd watermark history", batch="1-3")

    assert str(error) == error.message == "batch 1-3 does not follow 1-1"
    assert (error.hint, error.facts) == ("See: syncd watermark history", {"batch": "1-3"})


def test_a_hint_is_no_part_of_the_message() -> None:
    assert "hint" not in str(HintedError("no", hint="a hint"))
    assert HintedError("no").hint == ""


def test_every_error_says_by_its_group_what_to_do_about_it() -> None:
    found = {
        name: error for name, error in vars(errors).items() if isinstance(error, type) and error is not HintedError
    }

    assert {name for name, error in found.items() if error.__base__ is HintedError} == GROUPS
    assert all(issubclass(error, HintedError) for error in found.values())


@pytest.mark.parametrize("group", [Misuse, DataInDoubt, StateUnreadable])
def test_what_a_person_must_mend_is_never_tried_again(group: type[HintedError]) -> None:
    assert not issubclass(group, Transient | Stale)
