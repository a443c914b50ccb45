"""Tables fit the terminal of whoever reads: what can be spared is left out, and said; in a file nothing is."""

import pytest

from syncd.cli.output import show_table

COLUMNS = ("table", "state", "mark", "lag")
ROWS = [("shop.orders", "current", "2026-01-01 00:00:00.000000", "3s"), ("shop.lines", "", None, 0)]


def shown(capsys: pytest.CaptureFixture[str], *spare: str) -> tuple[list[str], str]:
    show_table(COLUMNS, ROWS, optional=spare)
    told = capsys.readouterr()
    return told.out.splitlines(), told.err


def test_columns_are_as_wide_as_their_widest_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys) == (
        [
            "table        state    mark                        lag",
            "shop.orders  current  2026-01-01 00:00:00.000000  3s",
            "shop.lines   -        -                           0",
        ],
        "",
    )


@pytest.mark.parametrize(
    ("width", "head", "left"),
    [
        (53, "table        state    mark                        lag", ""),
        (52, "table        state    lag", "mark"),
        (24, "table        state", "mark, lag"),
        (5, "table        state", "mark, lag"),
    ],
)
def test_a_narrow_terminal_is_spared_columns_and_told_which(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, head: str, left: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    lines, told = shown(capsys, "mark", "lag")

    assert lines[0] == head
    assert told == (f"(too narrow for: {left}; --json shows all)\n" if left else "")


def test_in_a_file_nothing_is_left_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)

    lines, _ = shown(capsys, "mark", "lag")

    assert lines[0].split() == list(COLUMNS)
