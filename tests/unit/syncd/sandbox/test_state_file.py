from pathlib import Path

import pytest

from syncd.sandbox.process import ProcessId
from syncd.sandbox.sandbox_dirs import STATE_FILE, ServiceRecord, read_state, write_state

RECORDS = {
    "mysql": ServiceRecord(
        name="mysql",
        port=3306,
        url="mysql://u:p@127.0.0.1:3306/shop",
        log="/l",
        about="MariaDB 11.4.5",
        process=ProcessId(boot="b", pid=7, started="8"),
    ),
    "s3": ServiceRecord(name="s3", port=9000, url="http://127.0.0.1:9000", log="/m"),
}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_state(tmp_path, RECORDS)

    assert read_state(tmp_path) == RECORDS


def test_a_new_directory_has_no_records(tmp_path: Path) -> None:
    assert read_state(tmp_path) == {}


def test_passwords_in_it_are_its_owners_alone(tmp_path: Path) -> None:
    write_state(tmp_path, RECORDS)

    assert (tmp_path / STATE_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", "null", '{"format": "other"}', '{"format": "syncd.sandbox", "format_version": 9}', "\0"]
)
def test_a_torn_file_counts_as_none(tmp_path: Path, damage: str) -> None:
    (tmp_path / STATE_FILE).write_text(damage)

    assert read_state(tmp_path) == {}
