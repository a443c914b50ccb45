"""What `syncd run` says beside its table."""

import re

import pytest

from syncd.cli.views.run_view import StreamRunOutcome, show
from syncd.extract.extract_pass import ExtractOutcome
from syncd.load.load_pass import LoadOutcome
from watermarks.names import StreamName

ORDERS = StreamName(source="mysql", database="shop", table="orders")


NEXT = "shop.orders: the next batch"


@pytest.mark.parametrize(
    ("windows", "sealed", "said"),
    [
        (
            0,
            False,
            f"{NEXT} would be of kind snapshot, read as a whole; to estimate its rows: syncd plan\n",
        ),
        (
            1,
            False,
            f"{NEXT} would be of kind snapshot, read in 1 window; to estimate its rows: syncd plan\n",
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
    planned = {"already_planned": sealed, "kind": "snapshot", "windows": [[[], []]] * windows}
    outcome = ExtractOutcome(stream=ORDERS, preview=planned)

    show(
        [StreamRunOutcome(database="shop", table="orders", source="mysql", extract=outcome, load=None)],
        as_json=False,
        dry_run=True,
    )

    assert capsys.readouterr().err.startswith(said)


def passed(*, refused: int, extracts: bool) -> StreamRunOutcome:
    extract = ExtractOutcome(stream=ORDERS, batches=1, rows=5) if extracts else None
    load = LoadOutcome(stream=ORDERS, batches=1, rows=5 - refused, files=2, quarantined=refused)
    return StreamRunOutcome(database="shop", table="orders", source="mysql", extract=extract, load=load)


def shown(capsys: pytest.CaptureFixture[str], *rows: StreamRunOutcome) -> list[list[str]]:
    show(rows, as_json=False, dry_run=False)
    return [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("extracts", [True, False])
def test_rows_that_a_load_put_aside_have_a_column(capsys: pytest.CaptureFixture[str], *, extracts: bool) -> None:
    heads, first, second = shown(capsys, passed(refused=2, extracts=extracts), passed(refused=0, extracts=extracts))

    place = heads.index("pending") - 1
    assert (heads[place], first[place], second[place]) == ("quarantined", "2", "0")


def test_on_a_narrow_terminal_it_stays_where_the_extraction_put_none_aside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "72")

    for extracts in (True, False):
        heads, first = shown(capsys, passed(refused=2, extracts=extracts))

        assert heads.count("quarantined") == 1
        assert first[heads.index("quarantined")] == "2"


def test_where_no_load_put_rows_aside_there_is_no_column_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    heads, _ = shown(capsys, passed(refused=0, extracts=True))

    assert heads == ["table", "extract", "rows", "files", "size", "quarantined", "proven", "load", "rows", "pending",
                     "mark", "seconds"]  # fmt: skip
