"""The stand-in as a server: a port, a thread for each client, a clean start and a clean end."""

import contextlib
import shutil
import socket
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from syncd.sandbox.redshift.backend import Backend
from syncd.sandbox.redshift.cluster import Cluster
from syncd.sandbox.redshift.copy.load_log import LoadLog
from syncd.sandbox.redshift.copy.s3_files import Lake
from syncd.sandbox.redshift.faults import Faults
from syncd.sandbox.redshift.greeting import greet
from syncd.sandbox.redshift.objects import Isolation, make_database, make_user
from syncd.sandbox.redshift.session import Dropped
from syncd.sandbox.redshift.shared_state import House, names_of, types_of
from syncd.sandbox.redshift.start_errors import CannotStart
from syncd.sandbox.redshift.wire import PeerGone, Stream

HOST: Final = "127.0.0.1"
BACKLOG: Final = 128
TICK: Final = 0.05
PATIENCE: Final = 5.0


class RedshiftStandIn:
    """A server that `redshift_connector` takes for Redshift; on loopback, `ssl=False`.

    Without a directory its data lives in one of its own and goes with it. `faults` is what tests ask of it.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        port: int = 0,
        database: str = "dev",
        user: str = "loader",
        password: str = "Sandbox1",  # noqa: S107  # a loopback server's, told to whoever asks
        other_users: Mapping[str, str] | None = None,
        superuser: bool = False,
        lake: Lake | None = None,
        isolation: Isolation = Isolation.SNAPSHOT,
    ) -> None:
        self.host = HOST
        self.port = port
        self.database = database
        self.user = user
        self.password = password
        self.faults = Faults()
        self.lake = lake or Lake()
        self._users = {user: password, **(other_users or {})}
        self._superuser = superuser
        self._isolation = isolation
        self._directory = directory
        self._own_directory: Path | None = None
        self._house: House | None = None
        self._own: Backend | None = None
        self._listener: socket.socket | None = None
        self._clients: dict[threading.Thread, socket.socket] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._accepting: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and return when clients can come.

        Raises:
            CannotStart: it did not start, and nothing of it is left running.
        """
        self._ending.clear()
        if self._directory is None:
            self._own_directory = Path(tempfile.mkdtemp(prefix="syncd-redshift-"))
            self._own_directory.chmod(0o711)
        cluster = Cluster(self._directory or self._own_directory or Path())
        try:
            self._listen()
            cluster.start()
            self._furnish(cluster)
        except BaseException:
            self._close(cluster)
            raise
        self._accepting = threading.Thread(target=self._accept, name="redshift-accept", daemon=True)
        self._accepting.start()

    def stop(self) -> None:
        """End every session, then the server behind; twice is once."""
        if self._house is None:
            return
        self._ending.set()
        self.faults.clear()
        if self._accepting is not None:
            self._accepting.join()
        clients = self._end_clients()
        self._close(self._house.cluster)
        for thread in clients:
            thread.join(PATIENCE)

    @property
    def home(self) -> Path:
        """Where the files of the server behind are."""
        if self._house is None:
            raise CannotStart("the stand-in is not started", hint="Start it first.")
        return self._house.cluster.home

    def connect_behind(self, user: str = "postgres") -> Backend:
        """A connection to the PostgreSQL behind, past everything of the stand-in: for tests to look."""
        if self._house is None:
            raise CannotStart("the stand-in is not started", hint="Start it first.")
        return self._house.cluster.connect(user, self.database)

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
        except OSError as error:
            listener.close()
            raise CannotStart(
                f"port {self.port} on {self.host} is taken: {error.strerror}",
                hint="Choose another port, or 0 for a free one.",
            ) from error
        listener.listen(BACKLOG)
        listener.settimeout(TICK)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self.faults.closed.clear()
        self.faults.listening.set()

    def _furnish(self, cluster: Cluster) -> None:
        make_database(cluster, self.database, self._isolation)
        for user in self._users:
            make_user(cluster, self.database, user, superuser=self._superuser and user == self.user)
        self._own = cluster.connect(database=self.database)
        self._house = House(
            cluster=cluster,
            database=self.database,
            users=self._users,
            lake=self.lake,
            log=LoadLog(self._own),
            names=names_of(self._own),
            types=types_of(self._own),
            faults=self.faults,
        )

    def _accept(self) -> None:
        while not self._ending.is_set():
            if not self.faults.accepting:
                self._pause()
            with contextlib.suppress(TimeoutError):
                assert self._listener is not None
                sock, _ = self._listener.accept()
                self._welcome(sock)

    def _pause(self) -> None:
        """Close the port, so that whoever comes is refused, and open it again when the fault is over."""
        assert self._listener is not None
        self._listener.close()
        self.faults.listening.clear()
        self.faults.closed.set()
        while not (self.faults.accepting or self._ending.is_set()):
            self.faults.wait_accepting(TICK)
        self._listen()

    def _welcome(self, sock: socket.socket) -> None:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        thread = threading.Thread(target=self._serve, args=(sock,), name="redshift-session", daemon=True)
        with self._lock:
            self._clients[thread] = sock
        thread.start()

    def _serve(self, sock: socket.socket) -> None:
        assert self._house is not None
        client = Stream(sock)
        session = None
        try:
            session = greet(client, self._house)
            if session is not None:
                session.serve()
        except PeerGone:
            with contextlib.suppress(PeerGone):
                client.flush()  # the last word of a session that was ended
        except Dropped:
            pass
        finally:
            if session is not None:
                session.backend.close()
            client.close()
            with self._lock:
                self._clients.pop(threading.current_thread(), None)

    def _end_clients(self) -> list[threading.Thread]:
        """Cut every client off; sessions that wait for PostgreSQL end with it."""
        with self._lock:
            clients = dict(self._clients)
        for sock in clients.values():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        return list(clients)

    def _close(self, cluster: Cluster) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._own is not None:
            self._own.close()
        cluster.stop()
        self._house = self._own = self._listener = None
        if self._own_directory is not None:
            shutil.rmtree(self._own_directory, ignore_errors=True)
            if cluster.home != self._own_directory:
                shutil.rmtree(cluster.home, ignore_errors=True)
            self._own_directory = None
