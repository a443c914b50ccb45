"""Faults of a stand-in that runs in another process: a loopback port that takes one JSON object a line."""

import json
import socket
import socketserver
import threading
from dataclasses import dataclass
from typing import Any, Final

from syncd.sandbox.redshift.faults import FaultAction, FaultControl, FaultInjector, FaultTiming, StatementFault

HOST: Final = "127.0.0.1"
REPLY_MARGIN_SECONDS: Final = 5.0
PLAIN_REQUESTS: Final = frozenset({"freeze", "thaw", "refuse_connections", "accept_connections", "clear"})


class ControlPort:
    """Server of the port: it lets other processes of this machine inject faults into this one."""

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
        """Run the request of one line; the answer carries its error."""
        try:
            fields = json.loads(line)
            return {"ok": True, **self._run_request(fields.pop("do"), fields)}
        except (ValueError, KeyError, TypeError, IndexError, TimeoutError) as error:
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}

    def _run_request(self, request: str, fields: dict[str, Any]) -> dict[str, Any]:
        if request in PLAIN_REQUESTS:
            getattr(self._faults, request)()
        elif request == "ask":
            action, timing = FaultAction(fields.pop("deed")), FaultTiming(fields.pop("when"))
            fault = StatementFault(action, fields.pop("statement"), timing, **fields)
            self._injected.append(self._faults.inject(fault))
            return {"id": len(self._injected) - 1}
        elif request == "wait_reached":
            self._injected[fields["id"]].wait_reached(fields["timeout"])
        elif request == "release":
            self._injected[fields["id"]].release()
        else:
            raise ValueError(f"unknown request {request!r}")
        return {}


@dataclass(frozen=True, slots=True)
class RemoteFault:
    """A fault that was injected through the port."""

    _faults: "RemoteFaultInjector"
    _id: int

    def wait_reached(self, timeout: float = 60.0) -> None:
        self._faults.send("wait_reached", timeout + REPLY_MARGIN_SECONDS, id=self._id, timeout=timeout)

    def release(self) -> None:
        self._faults.send("release", id=self._id)


class RemoteFaultInjector(FaultControl[RemoteFault]):
    """Client of the port."""

    def __init__(self, port: int, host: str = HOST) -> None:
        self._address = (host, port)

    def inject(self, fault: StatementFault) -> RemoteFault:
        names = ("deed", "statement", "when", "nth", "seconds", "code", "message", "detail")
        return RemoteFault(self, int(self.send("ask", **{name: getattr(fault, name) for name in names})["id"]))

    def freeze(self) -> None:
        self.send("freeze")

    def thaw(self) -> None:
        self.send("thaw")

    def refuse_connections(self) -> None:
        self.send("refuse_connections")

    def accept_connections(self) -> None:
        self.send("accept_connections")

    def clear(self) -> None:
        self.send("clear")

    def send(self, do: str, timeout_seconds: float = REPLY_MARGIN_SECONDS, /, **fields: str | float) -> dict[str, Any]:
        """Send one request and return its answer.

        Raises:
            TimeoutError: a fault did not happen in the time that the request waits for it.
            RuntimeError: the server refused the request.
        """
        with socket.create_connection(self._address, timeout=timeout_seconds) as sock, sock.makefile("rwb") as stream:
            stream.write(json.dumps({"do": do, **fields}).encode() + b"\n")
            stream.flush()
            answer: dict[str, Any] = json.loads(stream.readline())
        if not answer["ok"]:
            problem = str(answer["error"])
            raise TimeoutError(problem) if problem.startswith("TimeoutError") else RuntimeError(problem)
        return answer
