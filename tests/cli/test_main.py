"""What every command has in common: help, version, two lines on failure, exit codes."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version

import click
import pytest

from syncd.cli import main
from syncd.error_classes import ExitCode, exit_code_for
from syncd.errors import (
    CommitUnknown,
    FileRefused,
    InternalError,
    RowRefused,
    TransactionConflict,
    WarehouseDown,
    WarehouseUnfit,
)
from watermarks.errors import HintedError, Misuse


def every_error(root: type[HintedError] = HintedError) -> Iterator[type[HintedError]]:
    """Every error of ours; tests define more."""
    for error in root.__subclasses__():
        if error.__module__.partition(".")[0] in {"syncd", "watermarks"}:
            yield error
        yield from every_error(error)


def ends_with(monkeypatch: pytest.MonkeyPatch, raised: BaseException | None, *words: str) -> int:
    """The exit code of a command that ends like this."""
    if raised is not None:

        @click.command()
        def failing() -> None:
            raise raised

        monkeypatch.setitem(main.syncd.commands, "failing", failing)
    monkeypatch.setattr(sys, "argv", ["syncd", *(words or ("failing",))])
    try:
        main.entry()
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        return ended.code
    return 0


def test_help_and_version_say_what_this_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert ends_with(monkeypatch, None, "--version") == 0
    assert capsys.readouterr().out == f"syncd, version {version('syncd')}\n"
    assert ends_with(monkeypatch, None, "--help") == 0
    assert "Keep Amazon Redshift equal to MySQL" in capsys.readouterr().out


def test_a_wrong_word_is_a_mistake_of_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends_with(monkeypatch, None, "dance") == ExitCode.USAGE
    assert "dance" in capsys.readouterr().err
    assert ends_with(monkeypatch, None, "statsu") == ExitCode.USAGE
    assert "No such command 'statsu': do you mean status?" in capsys.readouterr().err


def test_a_failure_is_two_lines_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = ends_with(monkeypatch, Misuse("there is no table x", hint="Did you mean y?"))

    said = capsys.readouterr()
    assert code == ExitCode.USAGE
    assert (said.out, said.err) == ("", "error: there is no table x\nhint: Did you mean y?\n")


def test_a_failure_without_a_hint_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends_with(monkeypatch, Misuse("there is no table x"))

    assert capsys.readouterr().err == "error: there is no table x\n"


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupted_command_says_so_with_its_code(monkeypatch: pytest.MonkeyPatch, raised: BaseException) -> None:
    assert ends_with(monkeypatch, raised) == ExitCode.INTERRUPTED


def test_every_error_has_an_exit_code_of_its_group() -> None:
    unmapped = [error.__name__ for error in every_error() if exit_code_for(error("x")) is ExitCode.BUG]

    assert unmapped == [InternalError.__name__]
    assert exit_code_for(ValueError("x")) is ExitCode.BUG


def test_the_command_is_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from syncd.cli.main import entry; entry()", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith("syncd, version")


@pytest.mark.parametrize("kind", [WarehouseDown, WarehouseUnfit, TransactionConflict, CommitUnknown])
def test_whatever_is_wrong_with_the_warehouse_ends_with_its_code(kind: type[HintedError]) -> None:
    assert exit_code_for(kind("x")) is ExitCode.WAREHOUSE


@pytest.mark.parametrize("kind", [FileRefused, RowRefused])
def test_files_and_rows_that_do_not_land_leave_data_in_doubt(kind: type[HintedError]) -> None:
    assert exit_code_for(kind("x")) is ExitCode.DOUBT
