"""Landings in processes of their own that come to a stop at a named point: killed there, or paused.

python -m tests.services.load_victim     reads one job a line, as JSON, and carries each out in a fork of its own

A point is `before N` of the N-th statement; `sent N`: it is on its way, and no answer has come; `before words N WORDS`:
before the N-th that begins with these; one of the store, as in `tests.services.victim`; or `before put` and `after put`
of the list of files that COPY reads.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

from syncd.concurrency.stage_claim import ClaimKeeper
from syncd.concurrency.stage_pass import StagePass
from syncd.load.load_pass import LoadPass
from syncd.ports.source import CopyLake
from syncd.redshift.amendments import Amendments
from syncd.redshift.batch_target import RedshiftTarget
from syncd.redshift.connection import connect
from syncd.redshift.control_tables import ControlTables
from syncd.redshift.driver import DriverSocket
from syncd.redshift.quoting import TableRef
from syncd.redshift.refused_row_finder import RefusedRowFinder
from syncd.redshift.scratch_tables import role_clause
from syncd.redshift.session import WarehouseSession
from syncd.redshift.session_pool import ReusableSession, SessionOpener
from syncd.redshift.target_resolver import LoadTarget
from syncd.s3.lake_client import S3Lake
from syncd.settings import Deletes, LakeSettings, MetadataColumn, Mode, Secret, TargetSettings, Tls, WarehouseSettings
from tests.builders import RUN
from tests.services.victim import Point, StoppingStore
from watermarks.clock import SystemClock
from watermarks.document import Stage, Watermark
from watermarks.history import Journal, new_nonce
from watermarks.lease import ProcessLease
from watermarks.names import StreamName
from watermarks.stores.s3 import S3Store

ROLE: Final = "arn:aws:iam::123456789012:role/load"
MOST_ROWS: Final = 10_000_000
BEFORE_WORDS: Final = "before words "
SENDINGS: Final = 2
"""The driver prepares a statement with the first and carries it out with the second."""


@dataclass
class Stopping:
    """Counts the statements of this process, and stops it at the one that is asked for."""

    point: Point
    statements: list[str] = field(default_factory=list)
    sendings: int = 0
    met: int = 0

    def install(self) -> None:
        """Look at everything that is said to a warehouse from here on."""
        execute, read, flush = WarehouseSession._execute, DriverSocket.read, DriverSocket.flush

        def stopped(session: WarehouseSession, sql: str, *rest: Any, **words: Any) -> Any:
            self.statements.append(sql)
            self.sendings = 0
            self.point.reached(f"before {len(self.statements)}")
            self._met(sql)
            return execute(session, sql, *rest, **words)

        def flushed(wire: DriverSocket) -> None:
            self.sendings += 1
            flush(wire)

        def answered(wire: DriverSocket, size: int) -> bytes:
            if self.sendings == SENDINGS:
                self.point.reached(f"sent {len(self.statements)}")
            return read(wire, size)

        for owner, name, made in (
            (WarehouseSession, "_execute", stopped),
            (DriverSocket, "flush", flushed),
            (DriverSocket, "read", answered),
        ):
            setattr(owner, name, made)

    def _met(self, sql: str) -> None:
        if self.point.text.startswith(BEFORE_WORDS):
            number, _, words = self.point.text.removeprefix(BEFORE_WORDS).partition(" ")
            if re.match(words, sql):
                self.met += 1
                if self.met == int(number):
                    self.point.reached(self.point.text)


@dataclass(frozen=True)
class StoppingLists:
    """A lake that is real, and stops the process around the list that COPY reads."""

    inner: S3Lake
    point: Point

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def put(self, key: str, body: bytes) -> None:
        self.point.reached("before put")
        self.inner.put(key, body)
        self.point.reached("after put")


def job_of(
    lake: S3Lake, warehouse: WarehouseSettings, stream: StreamName, mode: Mode, target: TargetSettings, **more: Any
) -> dict[str, Any]:
    """What a victim needs to know."""
    assert warehouse.password
    return {
        "lake": {name: getattr(lake.settings, name) for name in ("bucket", "prefix", "region", "endpoint")},
        "warehouse": {name: getattr(warehouse, name) for name in ("host", "port", "database", "user")},
        "password": warehouse.password.value,
        "stem": stream.stem,
        "mode": mode,
        "table": target.table,
        "notes": list(target.notes),
        "deletes": target.deletes,
        "point": "",
        "signal": 0,
        "ttl": 30.0,
        **more,
    }


def load_run(
    job: Mapping[str, Any],
    *,
    lake: S3Lake,
    lists: CopyLake,
    journal: Journal[Watermark],
    owner: Callable[[], ProcessLease],
    pause: Callable[[float], None],
) -> tuple[LoadPass, ClaimKeeper, ReusableSession]:
    """The load stage of the job's stream, as it is wired."""
    warehouse = WarehouseSettings(
        name="redshift", password=Secret(job["password"]), tls=Tls.DISABLE, iam_role=ROLE, **job["warehouse"]
    )
    stream = StreamName.from_stem(job["stem"])
    place = LoadTarget(
        control_tables=ControlTables(
            lake=lake.settings.address, stream=stream, schema=warehouse.schema, has_own_ledger=False
        ),
        table=TableRef(schema="public", name=job["table"]),
        mode=Mode(job["mode"]),
        settings=TargetSettings(
            warehouse="redshift",
            schema="public",
            table=job["table"],
            notes=tuple(map(MetadataColumn, job["notes"])),
            deletes=Deletes(job["deletes"]),
        ),
        copy_credentials=lambda: role_clause(ROLE),
        statement_timeout=timedelta(seconds=job.get("longest", 30)),
        max_rows=job.get("most_rows", MOST_ROWS),
    )
    sessions = ReusableSession(SessionOpener(lambda: connect(warehouse, session_name="victim")))
    amendments = Amendments(journal.store)
    clock, patience = SystemClock(), timedelta(seconds=job.get("patience", 0))
    claiming = ClaimKeeper(stream, Stage.LOAD, journal, clock=clock, max_wait=patience, pause=pause)
    stage = StagePass(stream=stream, get_process=owner, claim_keeper=claiming, clock=clock, emit=lambda _event: None)
    target = RedshiftTarget(
        place,
        sessions=sessions,
        lake_files=lists,
        amendments=amendments,
        make_finder=lambda: RefusedRowFinder(place, lake=lake, amendments=amendments, nonce=new_nonce),
        nonce=new_nonce,
    )
    run = LoadPass(stage, journal=journal, get_target=lambda: target, rows_per_transaction=MOST_ROWS, pause=pause)
    return run, claiming, sessions


def carry_out(job: Mapping[str, Any]) -> dict[str, Any]:
    """Load what is due; how it went."""
    point = Point(job["point"], job["signal"])
    stopping = Stopping(point)
    stopping.install()
    lake = S3Lake.from_settings(LakeSettings(**job["lake"]))
    store = StoppingStore(S3Store(lake.client, bucket=lake.settings.bucket, prefix=lake.settings.prefix), point)
    journal = Journal(store, Watermark, clock=SystemClock())

    def owner() -> ProcessLease:
        process = ProcessLease(store, ttl_seconds=job["ttl"])
        process.renew()
        return process

    lists = StoppingLists(lake, point)
    run, claiming, sessions = load_run(
        job, lake=lake, lists=lists, journal=journal, owner=owner, pause=lambda _seconds: None
    )
    outcome = run.execute(RUN)
    claiming.release()
    sessions.close()
    error = outcome.error
    return {
        "statements": stopping.statements,
        "batches": outcome.batches,
        "error": type(error).__name__ if error else None,
        "message": error.message if error else None,
    }


def say(**told: Any) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            random.seed()
            say(told=carry_out(json.loads(line)))
            os._exit(0)
        say(pid=pid)
        while True:
            _, status = os.waitpid(pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            say(stopped=pid)
        say(ended=os.waitstatus_to_exitcode(status))


@dataclass
class Ended:
    """How a victim ended."""

    status: int
    """The number of the signal that ended it, negative; or what it said itself."""
    told: dict[str, Any]

    @property
    def statements(self) -> Sequence[str]:
        found: list[str] = self.told["statements"]
        return found


class Victims:
    """One victim after another."""

    def __init__(self) -> None:
        self.pid = 0
        """Of the last one."""
        self._at_work = False
        self._told: dict[str, Any] = {}

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.services.load_victim"]
        environ = {**os.environ, "AWS_ACCESS_KEY_ID": "sandbox", "AWS_SECRET_ACCESS_KEY": "sandbox"}
        self._mother = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        assert self._mother.stdin
        assert self._mother.stdout
        self._mother.stdin.close()
        self._mother.wait(30)
        self._mother.stdout.close()

    def start(self, job: Mapping[str, Any]) -> int:
        """Begin a job; the process that does it."""
        self._end()
        assert self._mother.stdin
        self._mother.stdin.write(json.dumps(job) + "\n")
        self._mother.stdin.flush()
        self._told = {}
        self.pid = int(self._until("pid"))
        self._at_work = True
        return self.pid

    def stopped(self) -> None:
        """Return when it has stopped itself."""
        self._until("stopped")

    def ended(self) -> Ended:
        """Return when it is over."""
        status = int(self._until("ended"))
        self._at_work = False
        return Ended(status=status, told=self._told)

    def run(self, job: Mapping[str, Any]) -> Ended:
        self.start(job)
        return self.ended()

    def _end(self) -> None:
        """A test that failed may have left one."""
        if self._at_work:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.ended()

    def _until(self, word: str) -> Any:
        assert self._mother.stdout
        for line in self._mother.stdout:
            found = json.loads(line)
            self._told.update(found.get("told", {}))
            if word in found:
                return found[word]
            if "ended" in found:
                self._at_work = False
                raise AssertionError(f"the victim ended before it was {word}: {found}, {self._told}")
        raise AssertionError("the mother of the victims is gone")


if __name__ == "__main__":
    main()
