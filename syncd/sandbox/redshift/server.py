"""The stand-in as a server: one port, one thread for each client."""

import contextlib
import shutil
import socket
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from syncd.sandbox.redshift.backend import PostgresConnection
from syncd.sandbox.redshift.cluster import CannotStart, PostgresCluster
from syncd.sandbox.redshift.copy.load_log import CopyLog
from syncd.sandbox.redshift.copy.s3_files import CopyStorage
from syncd.sandbox.redshift.faults import FaultInjector
from syncd.sandbox.redshift.greeting import log_in
from syncd.sandbox.redshift.objects import Isolation, make_database, make_user
from syncd.sandbox.redshift.session import ConnectionDropped
from syncd.sandbox.redshift.shared_state import StandInContext, read_long_names, read_type_numbers
from syncd.sandbox.redshift.wire import MessageStream, PeerGone

HOST: Final = "127.0.0.1"
BACKLOG: Final = 128
ACCEPT_POLL_SECONDS: Final = 0.05
SESSION_END_TIMEOUT_SECONDS: Final = 5.0


class RedshiftStandIn:
    """A loopback server that `redshift_connector` takes for Redshift (`ssl=False`).

    Without a directory, its data lives in a temporary one that is removed at the end.
    Tests inject faults through `faults`.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        port: int = 0,
        database: str = "dev",
        user: str = "loader",
        password: str = "Sandbox1",  # noqa: S107  # of a loopback server, and no secret
        other_users: Mapping[str, str] | None = None,
        superuser: bool = False,
        lake: CopyStorage | None = None,
        isolation: Isolation = Isolation.SNAPSHOT,
    ) -> None:
        self.host = HOST
        self.port = port
        self.database = database
        self.user = user
        self.password = password
        self.faults = FaultInjector()
        self.lake = lake or CopyStorage()
        self._users = {user: password, **(other_users or {})}
        self._superuser = superuser
        self._isolation = isolation
        self._directory = directory
        self._own_directory: Path | None = None
        self._context: StandInContext | None = None
        self._admin_connection: PostgresConnection | None = None
        self._listener: socket.socket | None = None
        self._clients: dict[threading.Thread, socket.socket] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._accept_thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and return when clients can connect.

        Raises:
            CannotStart: it did not start, and none of its processes is left running.
        """
        self._stopping.clear()
        if self._directory is None:
            self._own_directory = Path(tempfile.mkdtemp(prefix="syncd-redshift-"))
            self._own_directory.chmod(0o711)
        cluster = PostgresCluster(self._directory or self._own_directory or Path())
        try:
            self._listen()
            cluster.start()
            self._prepare_database(cluster)
        except BaseException:
            self._close(cluster)
            raise
        self._accept_thread = threading.Thread(target=self._accept, name="redshift-accept", daemon=True)
        self._accept_thread.start()

    def stop(self) -> None:
        """End every session, then PostgreSQL; a second call does nothing."""
        if self._context is None:
            return
        self._stopping.set()
        self.faults.clear()
        if self._accept_thread is not None:
            self._accept_thread.join()
        clients = self._end_clients()
        self._close(self._context.cluster)
        for thread in clients:
            thread.join(SESSION_END_TIMEOUT_SECONDS)

    @property
    def home(self) -> Path:
        """Directory of PostgreSQL's files."""
        return self._started_cluster().home

    def connect_postgres(self, user: str = "postgres") -> PostgresConnection:
        """Connect to PostgreSQL directly, past the rules of the stand-in (for tests)."""
        return self._started_cluster().connect(user, self.database)

    def _started_cluster(self) -> PostgresCluster:
        if self._context is None:
            raise CannotStart("the stand-in is not started", hint="Start it first.")
        return self._context.cluster

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
        listener.settimeout(ACCEPT_POLL_SECONDS)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self.faults.closed.clear()
        self.faults.listening.set()

    def _prepare_database(self, cluster: PostgresCluster) -> None:
        make_database(cluster, self.database, self._isolation)
        for user in self._users:
            make_user(cluster, self.database, user, superuser=self._superuser and user == self.user)
        self._admin_connection = cluster.connect(database=self.database)
        self._context = StandInContext(
            cluster=cluster,
            database=self.database,
            users=self._users,
            lake=self.lake,
            log=CopyLog(self._admin_connection),
            names=read_long_names(self._admin_connection),
            types=read_type_numbers(self._admin_connection),
            faults=self.faults,
        )

    def _accept(self) -> None:
        while not self._stopping.is_set():
            if not self.faults.is_accepting:
                self._refuse_connections()
            with contextlib.suppress(TimeoutError):
                assert self._listener is not None
                sock, _ = self._listener.accept()
                self._start_session(sock)

    def _refuse_connections(self) -> None:
        """Close the port until the fault is over, so that new clients are refused."""
        assert self._listener is not None
        self._listener.close()
        self.faults.listening.clear()
        self.faults.closed.set()
        while not (self.faults.is_accepting or self._stopping.is_set()):
            self.faults.wait_accepting(ACCEPT_POLL_SECONDS)
        self._listen()

    def _start_session(self, sock: socket.socket) -> None:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        thread = threading.Thread(target=self._serve, args=(sock,), name="redshift-session", daemon=True)
        with self._lock:
            self._clients[thread] = sock
        thread.start()

    def _serve(self, sock: socket.socket) -> None:
        assert self._context is not None
        client = MessageStream(sock)
        session = None
        try:
            session = log_in(client, self._context)
            if session is not None:
                session.serve()
        except PeerGone:
            with contextlib.suppress(PeerGone):
                client.flush()  # the last answer of a session that was ended
        except ConnectionDropped:
            pass
        finally:
            if session is not None:
                session.backend.close()
            client.close()
            with self._lock:
                self._clients.pop(threading.current_thread(), None)

    def _end_clients(self) -> list[threading.Thread]:
        """Disconnect every client; sessions that wait for PostgreSQL end with it."""
        with self._lock:
            clients = dict(self._clients)
        for sock in clients.values():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        return list(clients)

    def _close(self, cluster: PostgresCluster) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._admin_connection is not None:
            self._admin_connection.close()
        cluster.stop()
        self._context = self._admin_connection = self._listener = None
        if self._own_directory is not None:
            shutil.rmtree(self._own_directory, ignore_errors=True)
            if cluster.home != self._own_directory:
                shutil.rmtree(cluster.home, ignore_errors=True)
            self._own_directory = None
