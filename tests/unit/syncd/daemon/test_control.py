"""Which daemons a command finds: by the file, however it was reached when either of them began."""

import os
from pathlib import Path
from typing import Any

import pytest

from syncd.core.errors import ConfigError
from syncd.daemon.control import Listening, ask


def told(word: str) -> dict[str, Any]:
    return {"process": os.getpid(), "word": word}


def test_a_daemon_answers_by_its_file_and_by_no_other(tmp_path: Path) -> None:
    with Listening(tmp_path / "syncd.yaml", told):
        assert ask(tmp_path / "syncd.yaml", "reload") == [{"process": os.getpid(), "word": "reload"}]
        with pytest.raises(ConfigError, match="no daemon of"):
            ask(tmp_path / "other.yaml", "reload")

    with pytest.raises(ConfigError, match="no daemon of"):
        ask(tmp_path / "syncd.yaml", "reload")


def test_a_daemon_is_found_after_links_on_the_way_to_its_file_lead_elsewhere(tmp_path: Path) -> None:
    """So Kubernetes puts another ConfigMap in the place of one, and many a tool another release."""
    for number in "12":
        (tmp_path / number).mkdir()
        (tmp_path / number / "syncd.yaml").touch()
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "syncd.yaml").symlink_to("..data/syncd.yaml")
    with Listening(tmp_path / "syncd.yaml", told):
        (tmp_path / "..data").unlink()
        (tmp_path / "..data").symlink_to("2")

        assert len(ask(tmp_path / "syncd.yaml", "reload")) == 1


def test_a_daemon_is_found_by_another_way_to_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "etc").symlink_to("real")

    with Listening(tmp_path / "etc" / "syncd.yaml", told):
        assert len(ask(tmp_path / "real" / "syncd.yaml", "reload")) == 1
        assert len(ask(tmp_path / "etc" / "syncd.yaml", "reload")) == 1
    with Listening(tmp_path / "real" / "syncd.yaml", told):
        assert len(ask(tmp_path / "etc" / "syncd.yaml", "reload")) == 1


def test_a_name_is_free_again_at_once(tmp_path: Path) -> None:
    for _ in range(200):
        with Listening(tmp_path / "syncd.yaml", told):
            pass
