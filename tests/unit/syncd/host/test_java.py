import os
from pathlib import Path

import pytest

from syncd.errors import JavaTooOld, NoJava
from syncd.host.java import find_java


def program(folder: Path, script: str) -> str:
    """A `java` of our own: an old one is hard to come by."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return str(java)


def test_the_java_of_this_machine_is_new_enough() -> None:
    assert Path(find_java(os.environ)).name == "java"


def test_java_home_is_asked_before_path(tmp_path: Path) -> None:
    java = program(tmp_path, "echo 'openjdk version \"21.0.2\" 2024-01-16' >&2")

    assert find_java({**os.environ, "JAVA_HOME": str(tmp_path)}) == java


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.21", 11)])
def test_an_old_java_is_refused_by_its_number(tmp_path: Path, version: str, major: int) -> None:
    program(tmp_path, f"echo 'openjdk version \"{version}\"' >&2")

    with pytest.raises(JavaTooOld, match=f"is Java {major}, and 17 or newer is needed"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


def test_a_java_that_tells_its_version_in_a_file_is_not_started(tmp_path: Path) -> None:
    java = program(tmp_path, "exit 1")
    (tmp_path / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="17.0.15"\n')

    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]}) == java


def test_no_java_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match="no java on PATH"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match=f"no java in JAVA_HOME={tmp_path}"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


@pytest.mark.parametrize("script", ["exit 1", "echo hello >&2"])
def test_a_java_that_does_not_name_itself_is_no_java(tmp_path: Path, script: str) -> None:
    program(tmp_path, script)

    with pytest.raises(NoJava, match="shows no version"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})
