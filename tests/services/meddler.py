"""An HTTP server between a client and a real one, that spoils one exchange after another as a test says."""

import base64
import http.client
import threading
import zlib
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

PATIENCE = 10.0


class Spoil(StrEnum):
    """What happens to an exchange."""

    NOTHING = "it passes"
    REQUEST_LOST = "the connection ends before the server is asked"
    ANSWER_LOST = "the server does it, and the connection ends without an answer"
    ANSWER_WITHHELD = "the server does it, and its answer waits until the test is over"
    BODY_CUT = "half of the body arrives"
    BODY_DAMAGED = "a byte of the body is another one, beside the checksum of the right one"
    BODY_EMPTY = "an answer of success arrives without its body"


class Meddler(ThreadingHTTPServer):
    """Passes requests on to a server; the next exchanges meet what `spoil` was given, in turn."""

    daemon_threads = True

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behind = urlsplit(behind).netloc
        self.seen: list[tuple[str, Spoil]] = []
        self.over = threading.Event()
        self._coming: deque[Spoil] = deque()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def spoil(self, *exchanges: Spoil) -> None:
        self.seen.clear()
        self._coming = deque(exchanges)

    def next(self, method: str) -> Spoil:
        spoil = self._coming.popleft() if self._coming else Spoil.NOTHING
        self.seen.append((method, spoil))
        return spoil


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Meddler

    def handle_any(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        spoil = self.server.next(self.command)
        if spoil is Spoil.REQUEST_LOST:
            return
        answer, content = self._ask(body)
        if spoil is Spoil.ANSWER_WITHHELD:
            self.server.over.wait(PATIENCE)
        if spoil not in {Spoil.ANSWER_LOST, Spoil.ANSWER_WITHHELD}:
            self._answer(answer, content, spoil)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815 - http.server names them

    def log_message(self, *args: object) -> None:
        """Say nothing: what happened stands in `seen`."""

    def _ask(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(self.server.behind, timeout=PATIENCE)
        try:
            connection.request(self.command, self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def _answer(self, answer: http.client.HTTPResponse, content: bytes, spoil: Spoil) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"content-length", "connection", "transfer-encoding"}:
                self.send_header(name, value)
        if spoil is Spoil.BODY_DAMAGED:
            checksum = base64.b64encode(zlib.crc32(content).to_bytes(4)).decode()
            self.send_header("x-amz-checksum-crc32", checksum)
            content = bytes([content[0] ^ 1]) + content[1:]
        if spoil is Spoil.BODY_EMPTY:
            content = b""
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if spoil is Spoil.BODY_CUT else content)


@contextmanager
def meddler(behind: str) -> Generator[Meddler]:
    with Meddler(behind) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
