"""What `syncd run` says beside its table."""

import pytest

from syncd.cli.passes import Passed, show
from syncd.stages.run import Outcome
from watermarks.names import StreamName

ORDERS = StreamName(source="mysql", database="shop", table="orders")


@pytest.mark.parametrize(
    ("windows", "sealed", "said"),
    [
        (0, False, "shop.orders: the next batch would be of kind snapshot, read whole; how many rows: syncd plan\n"),
        (
            1,
            False,
            "shop.orders: the next batch would be of kind snapshot, read in 1 window; how many rows: syncd plan\n",
        ),
        (
            3,
            True,
            "shop.orders: the next batch, planned by an earlier run, would be of kind snapshot, read in 3 windows;",
        ),
    ],
)
def test_a_dry_run_says_what_would_be_read(
    capsys: pytest.CaptureFixture[str], *, windows: int, sealed: bool, said: str
) -> None:
    planned = {"sealed": sealed, "kind": "snapshot", "windows": [[[], []]] * windows}
    outcome = Outcome(stream=ORDERS, planned=planned)

    show(
        [Passed(database="shop", table="orders", source="mysql", extract=outcome, load=None)],
        as_json=False,
        dry_run=True,
    )

    assert capsys.readouterr().err.startswith(said)
