"""What holds for every command of the tree: helped, documented, told by the environment, completed, in the manual."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from docs.generate.manual import render_manual
from syncd.cli.main import COMMANDS, syncd

ROOT = Path(__file__).parents[2]
PAGES = "\n".join(page.read_text() for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
HELPERS = {"help", "version"}


def walk(group: click.Group, context: click.Context) -> Iterator[click.Context]:
    """The context of every command, and of every group on the way."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield inner
        if isinstance(command, click.Group):
            yield from walk(command, inner)


ALL = list(walk(syncd, click.Context(syncd, info_name="syncd", auto_envvar_prefix="SYNCD")))


def path_of(context: click.Context) -> str:
    return context.command_path.removeprefix("syncd ")


def test_the_sentence_that_a_list_shows_is_the_first_of_the_commands_help() -> None:
    for context in ALL:
        if path_of(context) in COMMANDS:
            assert (context.command.help or "").partition("\n\n")[0].replace("\n", " ") == COMMANDS[path_of(context)][1]


@pytest.mark.parametrize("context", ALL, ids=path_of)
def test_every_command_is_helped_examples_first_and_documented(context: click.Context) -> None:
    done = CliRunner().invoke(syncd, [*path_of(context).split(), "--help"])

    assert done.exit_code == 0
    examples, options = done.stdout.find("Examples:"), done.stdout.find("Options:")
    assert 0 < examples < options
    assert re.search(r"^ +syncd " + path_of(context), done.stdout, re.MULTILINE)
    assert path_of(context).partition(" ")[0] in PAGES
    assert all(param.help for param in context.command.params if isinstance(param, click.Option))
    if not isinstance(context.command, click.Group):
        assert any("--json" in param.opts for param in context.command.params) or path_of(context) in WITHOUT_JSON


def test_examples_leave_the_rest_of_a_help_where_it_was() -> None:
    done = CliRunner().invoke(syncd, ["watermark", "set", "--help"])

    assert re.search(r"^  Whole batches are loaded", done.stdout, re.MULTILINE)
    assert re.search(r"^    syncd watermark set -t events --id 4711", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("context", ALL, ids=path_of)
def test_the_paragraphs_of_a_help_stand_in_one_line_below_each_other(context: click.Context) -> None:
    shown = CliRunner().invoke(syncd, [*path_of(context).split(), "--help"]).stdout.partition("Options:")[0]

    lines = [line for line in shown.splitlines()[2:] if line.strip()]
    assert not [line for line in lines if re.match(" {5}", line) or re.search(r"\S {2,}(?!#)\S", line)]


WITHOUT_JSON = {"daemon", "watermark export"}
"""One runs until it is ended and logs in JSON; what the other prints is JSON."""


@pytest.mark.parametrize("context", ALL, ids=path_of)
def test_every_option_is_told_by_the_environment(context: click.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "_".join(["SYNCD", *path_of(context).upper().split()])
    for param in context.command.params:
        if isinstance(param, click.Option) and param.name and param.name not in HELPERS:
            monkeypatch.setenv(f"{words}_{param.name.upper()}", "told")
            assert param.resolve_envvar_value(context) == "told", param.opts


def test_one_variable_names_the_file_for_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNCD_CONFIG", "/etc/some.yaml")
    files = [(c, p) for c in ALL for p in c.command.params if isinstance(p, click.Option) and "--config" in p.opts]

    assert len(files) > 10
    assert {param.resolve_envvar_value(context) for context, param in files} == {"/etc/some.yaml"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_completion(shell: str) -> None:
    done = CliRunner().invoke(syncd, ["completion", shell])

    assert "_SYNCD_COMPLETE" in done.stdout
    assert json.loads(CliRunner().invoke(syncd, ["completion", shell, "--json"]).stdout)["shell"] == shell


def test_a_shell_completes_tables_from_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "syncd.yaml").write_text(
        'source: {url: "mysql://s:${UNSET}@db"}\ntables: {shop.orders: , shop.lines: }\n'
    )
    program = "from syncd.cli.main import entry; import sys; sys.argv[0] = 'syncd'; entry()"

    def completed(words: str) -> list[str]:
        environ = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_SYNCD_COMPLETE": "bash_complete"}
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, cwd=tmp_path, check=False, env={**environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completed("syncd run -t o") == ["shop.orders"]
    assert completed("syncd watermark get -t shop.") == ["shop.orders", "shop.lines"]
    assert completed("syncd wa") == ["watermark"]


def test_the_manual_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "man" / "syncd.1").read_text() == render_manual(), "make man"
