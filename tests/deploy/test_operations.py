"""Every command of docs/how-to/operations.md exists: `syncd` accepts its words, others name existing programs."""

import re
import shlex
from pathlib import Path

import pytest

from tests.deploy.commands import PAGE, ROOT, commands, require_command

KNOWN = {
    "docker",
    "install",
    "journalctl",
    "kubectl",
    "mysql",
    "pip",
    "psql",
    "python3",
    "syncd",
    "systemctl",
    "useradd",
}


def words_of(command: str) -> list[str]:
    words = shlex.split(command)
    words = words[1:] if words[0] == "sudo" else words
    return [Path(words[0]).name, *words[1:]]


@pytest.mark.parametrize("command", commands())
def test_a_command_names_a_program_that_there_is_with_files_that_there_are(command: str) -> None:
    program, *words = words_of(command)

    assert program in KNOWN
    for word in words:
        if (name := word.partition("=")[2] or word).startswith("deploy/"):
            assert (ROOT / name).exists()
    if program == "syncd":
        require_command(words)


def test_every_alert_leads_to_a_section_of_the_page() -> None:
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text()
    sections = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    }

    led = set(re.findall(r"docs/how-to/operations\.md#([a-z0-9-]+)", alerts))
    assert led
    assert led <= sections


def test_every_file_of_deploy_is_named_by_the_page_or_by_its_own() -> None:
    named = PAGE + (ROOT / "deploy" / "README.md").read_text()

    for path in (ROOT / "deploy").rglob("*"):
        if path.is_file() and path.name != "README.md":
            assert path.name in named or f"{path.parent.name}/" in named, path
