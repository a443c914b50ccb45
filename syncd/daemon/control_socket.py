"""Control socket: commands such as `syncd reload` reach the daemons of their configuration on this machine.

A daemon listens under names made of its file's path and its process id. On Linux these are abstract names, which
need no writable or shared directory.
"""

import hashlib
import json
import os
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from syncd.daemon.config_reload import reload_pending
from syncd.errors import ConfigError

ANSWER_TIMEOUT_SECONDS: Final = 30.0
LISTENER_JOIN_SECONDS: Final = 1.0
ACCEPT_RETRY_SECONDS: Final = 1.0
"""Pause after a failed accept, for example without a free file descriptor."""
MAX_ANSWER_BYTES: Final = 1 << 20
_HAS_ABSTRACT_SOCKETS: Final = sys.platform == "linux"
_UNIX_SOCKET_LIST: Final = Path("/proc/net/unix")

CommandHandler = Callable[[str], dict[str, Any]]
"""Returns the answer to a command."""


class ControlServer:
    """Answers commands of the same user, or of root, from a thread of its own."""

    def __init__(self, config: Path, handle_command: CommandHandler) -> None:
        self._handle_command = handle_command
        self._names = tuple(f"{prefix}{os.getpid()}" for prefix in _socket_prefixes(config))
        self._sockets = ExitStack()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            for name in self._names:
                opening.enter_context(self._listen_under(name))
            self._sockets = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._sockets.close()

    @contextmanager
    def _listen_under(self, name: str) -> Generator[None]:
        """Listen under one name; the name is free again at the end, unless an answer takes longer."""
        if not _HAS_ABSTRACT_SOCKETS:
            Path(name).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.bind(name)
            line.listen()
            listener = threading.Thread(target=self._accept_callers, args=(line,), name="control", daemon=True)
            listener.start()
            try:
                yield
            finally:
                self._over.set()
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a caller
                listener.join(LISTENER_JOIN_SECONDS)  # the thread holds the name while it waits
        if not _HAS_ABSTRACT_SOCKETS:
            Path(name).unlink(missing_ok=True)

    def _accept_callers(self, line: socket.socket) -> None:
        while not self._over.is_set():
            try:
                caller, _ = line.accept()
            except OSError:  # closed, or out of descriptors: callers stay queued
                self._over.wait(ACCEPT_RETRY_SECONDS)
                continue
            with caller, suppress(OSError):  # a caller that is gone needs no answer
                caller.settimeout(ANSWER_TIMEOUT_SECONDS)
                if _is_authorized(caller):
                    command = caller.recv(64).decode(errors="replace").strip()
                    caller.sendall(json.dumps(self._handle_command(command)).encode())


def send_command(config: Path, command: str) -> list[dict[str, Any]]:
    """Send a command to every daemon of a configuration and return the answers.

    Raises:
        ConfigError: no daemon of this file runs here.
    """
    answers = [answer for name in _find_daemon_sockets(config) if (answer := _send_to(name, command)) is not None]
    if not answers:
        raise ConfigError(
            f"no daemon of {config} answers on this machine",
            hint="Start one: syncd daemon. One that runs with another file, as another user or in a container"
            " is not found.",
        )
    return answers


def _send_to(name: str, command: str) -> dict[str, Any] | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(ANSWER_TIMEOUT_SECONDS)
        try:
            line.connect(name)
            line.sendall(command.encode())
            line.shutdown(socket.SHUT_WR)
            reply = b"".join(iter(lambda: line.recv(65_536), b""))
        except TimeoutError:  # it is busy, and will read the command later
            return {
                "process": int(name.rpartition("-")[2]),
                **reload_pending(waited_seconds=ANSWER_TIMEOUT_SECONDS).to_json(),
            }
        except OSError:
            return None  # it has ended
    answer: dict[str, Any] | None = json.loads(reply) if 0 < len(reply) <= MAX_ANSWER_BYTES else None
    return answer


def _is_authorized(caller: socket.socket) -> bool:
    """Return whether the caller could also kill the daemon."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the socket directory belongs to the user
    _, user, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return user in {0, os.getuid()}


def _socket_prefixes(config: Path) -> Iterator[str]:
    """Yield the prefixes of a file's daemons: of its path as written, and of the path its links lead to.

    Either may change while the daemon runs: a ConfigMap is renewed by replacing a link.
    """
    for path in dict.fromkeys((str(config.absolute()), str(config.resolve()))):
        name = f"syncd-{hashlib.sha256(path.encode()).hexdigest()[:16]}-"
        yield f"\0{name}" if _HAS_ABSTRACT_SOCKETS else str(_socket_directory() / name)


def _socket_directory() -> Path:
    directory = Path(tempfile.gettempdir()) / f"syncd-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def _find_daemon_sockets(config: Path) -> Iterable[str]:
    """Return one socket name of each daemon of a configuration."""
    names = (name for prefix in _socket_prefixes(config) for name in _sockets_with_prefix(prefix))
    return {name.rpartition("-")[2]: name for name in names}.values()


def _sockets_with_prefix(prefix: str) -> Iterator[str]:
    if not _HAS_ABSTRACT_SOCKETS:
        yield from map(str, _socket_directory().glob(f"{Path(prefix).name}*"))
        return
    listed = "@" + prefix[1:]  # the kernel lists a zero byte as @
    names = (line.split()[-1] for line in _UNIX_SOCKET_LIST.read_text().splitlines()[1:])
    yield from sorted({"\0" + name[1:] for name in names if name.startswith(listed)})
