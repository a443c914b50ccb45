import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from syncd.host.jar_download import ARTIFACTS, MARIADB_DRIVER

ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("SYNCD_")}


def syncd(cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "syncd", "jars", *words],
        env={**ENVIRON, "SYNCD_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def test_a_list_names_every_archive_and_fetches_none(tmp_path: Path) -> None:
    told = syncd(tmp_path, "list")

    assert told.returncode == 0
    for artifact in ARTIFACTS:
        assert re.search(rf"^{re.escape(artifact.file_name)} +missing ", told.stdout, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


def test_the_fields_of_its_json(tmp_path: Path) -> None:
    told = json.loads(syncd(tmp_path, "list", "--json").stdout)

    assert told["directory"] == str(tmp_path / "jars")
    assert set(told["jars"][0]) == {"name", "version", "file", "bytes", "sha256", "state", "purpose"}


def test_an_archive_of_another_name_is_a_mistake(tmp_path: Path) -> None:
    told = syncd(tmp_path, "fetch", "nothing")

    assert told.returncode == 2
    assert "no archive is called nothing" in told.stderr


@pytest.mark.services
def test_a_fetched_archive_is_whole_and_fetched_once(tmp_path: Path) -> None:
    """Through the real repository, which every test with a server needs: where it fails, no skip may hide why."""
    first = syncd(tmp_path, "fetch", MARIADB_DRIVER.module)
    again = syncd(tmp_path, "fetch", MARIADB_DRIVER.module)

    assert first.returncode == 0, first.stderr
    assert first.stderr == "fetching mariadb-java-client-3.5.6.jar, 0.8 MB\n"
    assert again.stderr == ""
    assert re.search(r"^mariadb-java-client-3\.5\.6\.jar +present ", again.stdout, re.MULTILINE)
    assert sorted(path.name for path in (tmp_path / "jars").iterdir()) == ["lock", MARIADB_DRIVER.file_name]


def test_a_damaged_archive_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / MARIADB_DRIVER.file_name).write_bytes(b"half")

    told = syncd(tmp_path, "list")

    assert re.search(r"^mariadb-java-client-3\.5\.6\.jar +damaged ", told.stdout, re.MULTILINE)
