"""How one command speaks to the daemons of its configuration on this machine: a question, and an answer to it.

Every daemon listens under names made of its file's path and its process: on Linux such
as stand in no directory, so that read-only and private ones are no hindrance.
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
from types import TracebackType
from typing import Any, Final, Self

from syncd.daemon.config_reload import reload_pending
from syncd.errors import ConfigError

ANSWERED_WITHIN: Final = 30.0
LISTENER_JOIN_SECONDS: Final = 1.0
AGAIN_AFTER: Final = 1.0
"""Seconds, where a caller cannot be let in: no file may be opened just now, say."""
MAX_ANSWER_BYTES: Final = 1 << 20
_HAS_ABSTRACT_SOCKETS: Final = sys.platform == "linux"
_UNIX_SOCKET_LIST: Final = Path("/proc/net/unix")

CommandHandler = Callable[[str], dict[str, Any]]
"""What a daemon says to a word."""


class ControlServer:
    """Answers, from a thread of its own, whoever may ask: the same user, or root."""

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sockets.close()

    @contextmanager
    def _listen_under(self, name: str) -> Generator[None]:
        """Listen under one name; when this is over the name is free again, but for an answer that takes longer."""
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
                    line.shutdown(socket.SHUT_RDWR)  # or whoever waits for a caller would wait on
                listener.join(LISTENER_JOIN_SECONDS)  # as long as it waits, it holds the name
        if not _HAS_ABSTRACT_SOCKETS:
            Path(name).unlink(missing_ok=True)

    def _accept_callers(self, line: socket.socket) -> None:
        while not self._over.is_set():
            try:
                caller, _ = line.accept()
            except OSError:  # closed; or nobody can be let in for now, and whoever calls stays in line
                self._over.wait(AGAIN_AFTER)
                continue
            with caller, suppress(OSError):  # a caller that has gone needs no answer
                caller.settimeout(ANSWERED_WITHIN)
                if _is_authorized(caller):
                    word = caller.recv(64).decode(errors="replace").strip()
                    caller.sendall(json.dumps(self._handle_command(word)).encode())


def send_command(config: Path, command: str) -> list[dict[str, Any]]:
    """What every daemon of a configuration answers.

    Raises:
        ConfigError: none runs here.
    """
    answers = [answer for name in _find_daemon_sockets(config) if (answer := _send_to(name, command)) is not None]
    if not answers:
        raise ConfigError(
            f"no daemon of {config} answers on this machine",
            hint="Start one: syncd daemon. Is it another file, another user's, or in a container of its own?",
        )
    return answers


def _send_to(name: str, command: str) -> dict[str, Any] | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(ANSWERED_WITHIN)
        try:
            line.connect(name)
            line.sendall(command.encode())
            line.shutdown(socket.SHUT_WR)
            said = b"".join(iter(lambda: line.recv(65_536), b""))
        except TimeoutError:  # it lives, and what was sent is read as soon as it can
            return {"process": int(name.rpartition("-")[2]), **reload_pending(waited_seconds=ANSWERED_WITHIN).to_json()}
        except OSError:
            return None  # it has ended meanwhile
    answer: dict[str, Any] | None = json.loads(said) if 0 < len(said) <= MAX_ANSWER_BYTES else None
    return answer


def _is_authorized(caller: socket.socket) -> bool:
    """Only who could end the daemon too."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # its directory is the user's own
    _, user, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return user in {0, os.getuid()}


def _socket_prefixes(config: Path) -> Iterator[str]:
    """What names of a file's daemons begin with: of its path as it is written, and of where its links lead.

    Either may be another one by the time that somebody asks: a ConfigMap is renewed by a link that is put in its place.
    """
    for path in dict.fromkeys((str(config.absolute()), str(config.resolve()))):
        name = f"syncd-{hashlib.sha256(path.encode()).hexdigest()[:16]}-"
        yield f"\0{name}" if _HAS_ABSTRACT_SOCKETS else str(_socket_directory() / name)


def _socket_directory() -> Path:
    place = Path(tempfile.gettempdir()) / f"syncd-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def _find_daemon_sockets(config: Path) -> Iterable[str]:
    """The names under which daemons of a configuration listen, one of each process."""
    names = (name for prefix in _socket_prefixes(config) for name in _sockets_with_prefix(prefix))
    return {name.rpartition("-")[2]: name for name in names}.values()


def _sockets_with_prefix(prefix: str) -> Iterator[str]:
    if not _HAS_ABSTRACT_SOCKETS:
        yield from map(str, _socket_directory().glob(f"{Path(prefix).name}*"))
        return
    shown = "@" + prefix[1:]  # so the kernel writes a zero byte
    words = (line.split()[-1] for line in _UNIX_SOCKET_LIST.read_text().splitlines()[1:])
    yield from sorted({"\0" + word[1:] for word in words if word.startswith(shown)})
