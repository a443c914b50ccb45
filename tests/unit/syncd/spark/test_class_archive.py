import os
import subprocess
import time
from pathlib import Path

from syncd.spark.class_archive import find_archive


def test_an_archive_is_made_by_the_first_run_and_used_by_the_next(tmp_path: Path) -> None:
    java, jar = tmp_path / "java", tmp_path / "spark.jar"
    java.touch()
    jar.touch()
    first = find_archive(tmp_path / "cache", java=str(java), class_path=[jar])
    assert first is not None
    draft = next(each for each in first.java_options if "ArchiveClassesAtExit" in each).partition("=")[2]

    subprocess.run(first.wrap_command(["sh", "-c", f"echo classes > {draft}"]), check=True)

    second = find_archive(tmp_path / "cache", java=str(java), class_path=[jar])
    assert second is not None
    assert f"-XX:SharedArchiveFile={second.path}" in second.java_options
    assert second.wrap_command(["java"]) == ["java"]
    assert [each.name for each in second.path.parent.iterdir()] == [second.path.name]


def test_a_run_that_fails_leaves_no_archive(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.touch()
    archive = find_archive(tmp_path / "cache", java=str(java), class_path=[])
    assert archive is not None
    draft = next(each for each in archive.java_options if "ArchiveClassesAtExit" in each).partition("=")[2]

    ended = subprocess.run(archive.wrap_command(["sh", "-c", f"echo half > {draft}; kill -9 $$"]), check=False)

    assert ended.returncode != 0
    assert list(archive.path.parent.iterdir()) == []


def test_another_class_path_has_another_archive(tmp_path: Path) -> None:
    java, jar = tmp_path / "java", tmp_path / "spark.jar"
    java.touch()
    jar.touch()
    one = find_archive(tmp_path / "cache", java=str(java), class_path=[jar])
    jar.write_text("newer")

    other = find_archive(tmp_path / "cache", java=str(java), class_path=[jar])

    assert one is not None
    assert other is not None
    assert one.path != other.path


def test_a_cache_that_cannot_be_written_costs_time_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file stands here")

    assert find_archive(tmp_path / "cache", java=str(tmp_path), class_path=[]) is None


def test_what_a_killed_java_left_is_gone_the_next_day(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.touch()
    folder = tmp_path / "cache" / "classes"
    folder.mkdir(parents=True)
    for name, hours in {"draft-1-a.jsa": 25, "draft-2-a.jsa": 1, "a.jsa": 1_000}.items():
        (folder / name).touch()
        at = time.time() - hours * 3_600
        os.utime(folder / name, (at, at))

    find_archive(tmp_path / "cache", java=str(java), class_path=[])

    assert sorted(each.name for each in folder.iterdir()) == ["a.jsa", "draft-2-a.jsa"]
