"""Faults of a stand-in that runs in another process: a loopback port that takes one JSON object a line."""

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from syncd.sandbox.redshift.faults import (
    COMMIT_PATTERN,
    COPY_PATTERN,
    FaultAction,
    FaultInjector,
    FaultTiming,
    StatementFault,
)
from syncd.sandbox.redshift.refusal import INTERNAL

if TYPE_CHECKING:
    from collections.abc import Callable

HOST: Final = "127.0.0.1"
REPLY_MARGIN_SECONDS: Final = 5.0


class ControlPort:
    """Serves the faults of this process to others on this machine."""

    def __init__(self, faults: FaultInjector, port: int = 0) -> None:
        self._faults = faults
        self._injected: list[StatementFault] = []
        owner = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    self.wfile.write(json.dumps(owner.handle_line(line)).encode() + b"\n")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server((HOST, port), Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="redshift-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def handle_line(self, line: bytes) -> dict[str, Any]:
        """Do what a line asks; what goes wrong is part of the answer."""
        try:
            words = json.loads(line)
            return {"ok": True, **self._run_request(words.pop("do"), words)}
        except (ValueError, KeyError, TypeError, IndexError, TimeoutError) as error:
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}

    def _run_request(self, what: str, words: dict[str, Any]) -> dict[str, Any]:
        plain: dict[str, Callable[[], None]] = {
            "freeze": self._faults.freeze,
            "thaw": self._faults.thaw,
            "refuse_connections": self._faults.refuse_connections,
            "accept_connections": self._faults.accept_connections,
            "clear": self._faults.clear,
        }
        if what in plain:
            plain[what]()
        elif what == "ask":
            fault = StatementFault(
                FaultAction(words.pop("deed")), words.pop("statement"), FaultTiming(words.pop("when")), **words
            )
            self._injected.append(self._faults.inject(fault))
            return {"id": len(self._injected) - 1}
        elif what == "wait_reached":
            self._injected[words["id"]].wait_reached(words["timeout"])
        elif what == "release":
            self._injected[words["id"]].release()
        else:
            raise ValueError(f"{what!r} is no fault")
        return {}


@dataclass(frozen=True, slots=True)
class RemoteFault:
    """A fault asked for through the port."""

    _faults: "RemoteFaultInjector"
    _id: int

    def wait_reached(self, timeout: float = 60.0) -> None:
        self._faults.send("wait_reached", timeout + REPLY_MARGIN_SECONDS, id=self._id, timeout=timeout)

    def release(self) -> None:
        self._faults.send("release", id=self._id)


class RemoteFaultInjector:
    """The words of `Faults`, spoken to another process."""

    def __init__(self, port: int, host: str = HOST) -> None:
        self._address = (host, port)

    def drop(
        self, statement: str = COMMIT_PATTERN, *, when: FaultTiming = FaultTiming.BEFORE, nth: int = 1
    ) -> RemoteFault:
        return self._inject(FaultAction.DROP, statement, when, nth=nth)

    def delay(
        self, statement: str, seconds: float, *, when: FaultTiming = FaultTiming.BEFORE, nth: int = 1
    ) -> RemoteFault:
        return self._inject(FaultAction.DELAY, statement, when, nth=nth, seconds=seconds)

    def hold(self, statement: str, *, when: FaultTiming = FaultTiming.BEFORE, nth: int = 1) -> RemoteFault:
        return self._inject(FaultAction.HOLD, statement, when, nth=nth)

    def fail(
        self, statement: str, message: str, *, code: str = INTERNAL, detail: str = "", nth: int = 1
    ) -> RemoteFault:
        return self._inject(
            FaultAction.FAIL, statement, FaultTiming.BEFORE, nth=nth, code=code, message=message, detail=detail
        )

    def fail_copy(self, message: str, *, nth: int = 1, code: str = INTERNAL, detail: str = "") -> RemoteFault:
        return self.fail(COPY_PATTERN, message, code=code, detail=detail, nth=nth)

    def conflict(self, statement: str = COMMIT_PATTERN, *, nth: int = 1) -> RemoteFault:
        detail = "Serializable isolation violation on table in Redshift"
        return self.fail(statement, "1023", detail=detail, nth=nth)

    def freeze(self) -> None:
        self.send("freeze")

    def thaw(self) -> None:
        self.send("thaw")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        with contextlib.ExitStack() as stack:
            stack.callback(self.thaw)
            yield

    def refuse_connections(self) -> None:
        self.send("refuse_connections")

    def accept_connections(self) -> None:
        self.send("accept_connections")

    def clear(self) -> None:
        self.send("clear")

    def _inject(self, deed: FaultAction, statement: str, when: FaultTiming, **words: str | float) -> RemoteFault:
        told = self.send("ask", REPLY_MARGIN_SECONDS, deed=deed, statement=statement, when=when, **words)
        return RemoteFault(self, int(told["id"]))

    def send(self, do: str, timeout_seconds: float = REPLY_MARGIN_SECONDS, /, **words: str | float) -> dict[str, Any]:
        """One request and its answer.

        Raises:
            TimeoutError: a fault that was waited for did not happen.
            RuntimeError: the request was not understood.
        """
        with socket.create_connection(self._address, timeout=timeout_seconds) as sock, sock.makefile("rwb") as stream:
            stream.write(json.dumps({"do": do, **words}).encode() + b"\n")
            stream.flush()
            answer: dict[str, Any] = json.loads(stream.readline())
        if not answer["ok"]:
            problem = str(answer["error"])
            raise TimeoutError(problem) if problem.startswith("TimeoutError") else RuntimeError(problem)
        return answer
