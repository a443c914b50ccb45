"""State that all sessions of one stand-in share."""

import socket
import threading
from dataclasses import dataclass, field

from syncd.sandbox.redshift.backend import PostgresConnection, quote_literal
from syncd.sandbox.redshift.cluster import PostgresCluster
from syncd.sandbox.redshift.copy.load_log import CopyLog
from syncd.sandbox.redshift.copy.s3_files import CopyStorage
from syncd.sandbox.redshift.faults import FaultInjector
from syncd.sandbox.redshift.sql.tokens import LongNames
from syncd.sandbox.redshift.sql.translate import TypeNumbers
from syncd.sandbox.redshift.wire import MessageStream


@dataclass(slots=True, kw_only=True)
class StandInContext:
    """The PostgreSQL cluster, the users, the S3 storage and the injected faults of one stand-in."""

    cluster: PostgresCluster
    database: str
    users: dict[str, str]
    lake: CopyStorage
    log: CopyLog
    names: LongNames
    types: TypeNumbers
    faults: FaultInjector
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def cancel(self, request: bytes) -> None:
        """Forward a cancel request; PostgreSQL knows the process and its secret."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(str(self.cluster.socket))
            MessageStream(sock).send((len(request) + 4).to_bytes(4, "big") + request)

    def write_new_names(self) -> None:
        """Store new long names before PostgreSQL sees the short ones."""
        with self._lock:
            while self.names.unwritten:
                self.log.remember_name(*self.names.unwritten.pop())


def read_type_numbers(backend: PostgresConnection) -> TypeNumbers:
    def number(name: str) -> int:
        return int(backend.fetch_value(f"SELECT oid FROM pg_type WHERE typname = {quote_literal(name)}") or 0)

    return TypeNumbers(super=number("super"), varbyte=number("varbyte"))


def read_long_names(backend: PostgresConnection) -> LongNames:
    names = LongNames()
    for short, long in backend.run("SELECT short, long FROM pg_catalog.redshift_names"):
        names.remember(short or "", long or "")
    return names
