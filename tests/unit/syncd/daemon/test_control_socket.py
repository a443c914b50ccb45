"""Which daemons a command finds: by the file, however it was reached when either of them began."""

import errno
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from syncd.daemon import control_socket
from syncd.daemon.control_socket import ControlServer, send_command
from syncd.errors import ConfigError


def told(word: str) -> dict[str, Any]:
    return {"process": os.getpid(), "word": word}


def test_a_daemon_answers_by_its_file_and_by_no_other(tmp_path: Path) -> None:
    with ControlServer(tmp_path / "syncd.yaml", told):
        assert send_command(tmp_path / "syncd.yaml", "reload") == [{"process": os.getpid(), "word": "reload"}]
        with pytest.raises(ConfigError, match="no daemon of"):
            send_command(tmp_path / "other.yaml", "reload")

    with pytest.raises(ConfigError, match="no daemon of"):
        send_command(tmp_path / "syncd.yaml", "reload")


def test_a_daemon_is_found_after_links_on_the_way_to_its_file_lead_elsewhere(tmp_path: Path) -> None:
    """So Kubernetes puts another ConfigMap in the place of one, and many a tool another release."""
    for number in "12":
        (tmp_path / number).mkdir()
        (tmp_path / number / "syncd.yaml").touch()
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "syncd.yaml").symlink_to("..data/syncd.yaml")
    with ControlServer(tmp_path / "syncd.yaml", told):
        (tmp_path / "..data").unlink()
        (tmp_path / "..data").symlink_to("2")

        assert len(send_command(tmp_path / "syncd.yaml", "reload")) == 1


def test_a_daemon_is_found_by_another_way_to_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "etc").symlink_to("real")

    with ControlServer(tmp_path / "etc" / "syncd.yaml", told):
        assert len(send_command(tmp_path / "real" / "syncd.yaml", "reload")) == 1
        assert len(send_command(tmp_path / "etc" / "syncd.yaml", "reload")) == 1
    with ControlServer(tmp_path / "real" / "syncd.yaml", told):
        assert len(send_command(tmp_path / "etc" / "syncd.yaml", "reload")) == 1


def test_a_name_is_free_again_at_once(tmp_path: Path) -> None:
    for _ in range(200):
        with ControlServer(tmp_path / "syncd.yaml", told):
            pass


def test_a_daemon_that_may_open_no_file_for_a_moment_answers_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, refused = socket.socket.accept, list[float]()

    def accepted(line: socket.socket) -> Any:
        if len(refused) < 3:
            refused.append(1)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return accept(line)

    monkeypatch.setattr(control_socket, "ACCEPT_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(socket.socket, "accept", accepted)

    with ControlServer(tmp_path / "syncd.yaml", told):
        assert len(send_command(tmp_path / "syncd.yaml", "reload")) == 1
        threads = [one for one in threading.enumerate() if one.name == "control"]

    assert len(refused) == 3
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive(), "what has ended lets nobody in any more"


def test_a_daemon_that_lives_and_does_not_answer_is_told_from_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def busy(word: str) -> dict[str, Any]:
        over.wait(10)
        return told(word)

    monkeypatch.setattr(control_socket, "ANSWER_TIMEOUT_SECONDS", 0.2)
    with ControlServer(tmp_path / "syncd.yaml", busy):
        [answer] = send_command(tmp_path / "syncd.yaml", "reload")
        over.set()

    assert (answer["process"], answer["pending"]) == (os.getpid(), True)
    assert "has not read the file yet" in answer["error"]
