"""What every session of one stand-in shares."""

import socket
import threading
from dataclasses import dataclass, field

from syncd.sandbox.redshift.backend import Backend, literal
from syncd.sandbox.redshift.cluster import Cluster
from syncd.sandbox.redshift.copy.load_log import LoadLog
from syncd.sandbox.redshift.copy.s3_files import Lake
from syncd.sandbox.redshift.faults import Faults
from syncd.sandbox.redshift.sql.identifiers import LongNames
from syncd.sandbox.redshift.sql.translate import Types
from syncd.sandbox.redshift.wire import Stream


@dataclass(slots=True, kw_only=True)
class House:
    """The cluster behind, who may come in, where S3 is, and the faults asked for."""

    cluster: Cluster
    database: str
    users: dict[str, str]
    lake: Lake
    log: LoadLog
    names: LongNames
    types: Types
    faults: Faults
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def connect(self, user: str, application: str) -> Backend:
        return self.cluster.connect(user, self.database, application_name=application)

    def cancel(self, request: bytes) -> None:
        """Pass a cancel request on; PostgreSQL knows the process and its secret."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(str(self.cluster.socket))
            Stream(sock).send((len(request) + 4).to_bytes(4, "big") + request)

    def write_new_names(self) -> None:
        """Keep the long names met since, before PostgreSQL sees the short ones."""
        with self._lock:
            while self.names.unwritten:
                self.log.remember_name(*self.names.unwritten.pop())


def types_of(backend: Backend) -> Types:
    def number(name: str) -> int:
        return int(backend.value(f"SELECT oid FROM pg_type WHERE typname = {literal(name)}") or 0)

    return Types(super=number("super"), varbyte=number("varbyte"))


def names_of(backend: Backend) -> LongNames:
    names = LongNames()
    for short, long in backend.run("SELECT short, long FROM pg_catalog.redshift_names"):
        names.remember(short or "", long or "")
    return names
