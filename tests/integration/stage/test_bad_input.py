"""What a source and a lake may do to a run: it stops or tries again, says which, and no mark is past what is safe."""

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from syncd.error_classes import ExitCode, exit_code_for
from syncd.errors import LakeDown, LakeUnfit, ReaderDown, SourceDown, SourceUnfit
from syncd.events import BatchAbandoned, BatchPlanned, StreamEvent
from syncd.lake.read_requests import ReadRequest, ReadResult
from syncd.sandbox.faults.s3 import S3Fault, S3FaultKind, S3Proxy, S3Request
from syncd.sandbox.faults.tcp import TcpProxy
from tests.integration.stage.conftest import Pipe
from tests.integration.stage.tables import LAYOUT, STREAM, fill, inserts, require_unmoved, require_whole
from watermarks.errors import HintedError, OutcomeUnknown, StoreUnavailable, Transient

if TYPE_CHECKING:
    from syncd.ports.source import BatchReader

pytestmark = pytest.mark.services

POOR: Final = "poor"


@dataclass(frozen=True, kw_only=True)
class Unfit:
    """A table that cannot be read: how it is made, what is said, and what mends it."""

    name: str
    made: tuple[str, ...]
    said: str
    hint: str
    mended: tuple[str, ...]
    tables: str = "orders:"

    def __str__(self) -> str:
        return self.name


_STAMP: Final = "update_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
_FILLED: Final = tuple(inserts(4))
UNFIT: Final = (
    Unfit(name="no table", made=(), said="doesn't exist", hint="Check the table name", mended=(LAYOUT, *_FILLED)),
    Unfit(
        name="no order column",
        made=("CREATE TABLE orders (id BIGINT PRIMARY KEY, v INT DEFAULT 1, pad TEXT)",),
        said="no column update_at",
        hint="cursor",
        mended=(f"ALTER TABLE orders ADD COLUMN {_STAMP}, ADD KEY (update_at, id)", *_FILLED),
    ),
    Unfit(
        name="no such column as configured",
        made=(LAYOUT, *_FILLED),
        tables="orders: {cursor: changed_at}",
        said="no column changed_at",
        hint="id, v, pad, update_at",
        mended=("ALTER TABLE orders RENAME COLUMN update_at TO changed_at",),
    ),
    Unfit(
        name="no key",
        made=(
            f"CREATE TABLE orders (id BIGINT NOT NULL, v INT DEFAULT 1, pad TEXT, {_STAMP}, KEY (update_at))",
            *_FILLED,
        ),
        said="no primary key",
        hint="ADD PRIMARY KEY",
        mended=("ALTER TABLE orders ADD PRIMARY KEY (id)",),
    ),
    Unfit(
        name="no index",
        made=(f"CREATE TABLE orders (id BIGINT PRIMARY KEY, v INT DEFAULT 1, pad TEXT, {_STAMP})", *_FILLED),
        said="no index on (update_at, id)",
        hint="CREATE INDEX",
        mended=("CREATE INDEX mended ON orders (update_at)",),
    ),
    Unfit(
        name="a view",
        made=(LAYOUT.replace("orders", "beneath"), "CREATE VIEW orders AS SELECT * FROM beneath"),
        said="is a view",
        hint="query",
        mended=("DROP VIEW orders", "RENAME TABLE beneath TO orders", *_FILLED),
    ),
)


@pytest.mark.parametrize("unfit", UNFIT, ids=str)
def test_a_table_that_cannot_be_read_stops_its_stream_until_it_is_mended(pipe: Pipe, unfit: Unfit) -> None:
    pipe.tables = unfit.tables
    pipe.sql("DROP VIEW IF EXISTS orders", "DROP TABLE IF EXISTS orders, beneath", *unfit.made)

    error = pipe.run().error

    assert isinstance(error, SourceUnfit)
    assert exit_code_for(error) is ExitCode.SOURCE
    assert unfit.said in error.message
    assert unfit.hint in error.hint
    assert not pipe.lake.keys("watermarks/")
    pipe.sql(*unfit.mended)
    assert pipe.run().error is None
    require_whole(pipe)


def test_a_partitioned_table_is_read_like_any_other(pipe: Pipe) -> None:
    fill(pipe, layout=f"{LAYOUT} PARTITION BY HASH (id) PARTITIONS 5")

    assert pipe.run().error is None
    require_whole(pipe)


@pytest.fixture
def poor(pipe: Pipe) -> Iterator[Pipe]:
    """A pipe whose user has no right at all."""
    fill(pipe)
    pipe.sql(f"DROP USER IF EXISTS {POOR}@'%'", f"CREATE USER {POOR}@'%' IDENTIFIED BY 'Poor-1'")
    # The database is named with the table: of a user without rights the server does not even take it.
    pipe.url = f"mysql://{POOR}:Poor-1@{pipe.box.mysql.host}:{pipe.box.mysql.port}/"
    pipe.tables = "shop.orders:"
    yield pipe
    pipe.sql(f"DROP USER {POOR}@'%'")


@pytest.mark.parametrize("given", ["", "GRANT SELECT (id) ON shop.orders TO poor@'%'"], ids=["no right", "one column"])
def test_the_right_to_read_is_named_with_its_grant(poor: Pipe, given: str) -> None:
    poor.sql(given or "DO 0")

    error = poor.run().error

    assert isinstance(error, SourceUnfit)
    assert error.hint == "GRANT SELECT ON shop.* TO poor"
    assert not poor.lake.keys("watermarks/")
    poor.sql(error.hint.replace("TO poor", "TO poor@'%'"))
    assert poor.run().error is None
    require_whole(poor)


def test_without_the_right_to_see_transactions_nothing_is_proven_and_the_grant_is_named(poor: Pipe) -> None:
    poor.sql("GRANT SELECT ON shop.* TO poor@'%'")

    outcome = poor.run()

    assert outcome.error is None
    assert not outcome.proven
    horizon = poor.lake.links(STREAM)[-1]["body"]["plan"]["horizon"]
    assert not horizon["proven"]
    assert "GRANT PROCESS ON *.* TO poor" in horizon["reason"]
    require_whole(poor)


def test_with_that_right_alone_everything_is_proven(poor: Pipe) -> None:
    poor.sql("GRANT SELECT ON shop.* TO poor@'%'", "GRANT PROCESS ON *.* TO poor@'%'")

    outcome = poor.run()

    assert outcome.error is None
    assert outcome.proven
    require_whole(poor)


class Between:
    """A reader around whose work the table changes: before it, or between two of its windows."""

    def __init__(self, inner: "BatchReader", *, before: Callable[[], None], between: Callable[[], None]) -> None:
        self._inner = inner
        self._before = before
        self._between = between

    def prepare(self, *, little: bool) -> None:
        self._inner.prepare(little=little)

    def read(self, reading: ReadRequest, *, tell: Callable[[int], None] = lambda _rows: None) -> ReadResult:
        self._before()

        def told(rows: int) -> None:
            self._between()
            tell(rows)

        return self._inner.read(reading, tell=told)


@dataclass
class Once:
    """Statements that are run the first time."""

    pipe: Pipe
    statements: tuple[str, ...]
    done: list[str] = field(default_factory=list)

    def __call__(self) -> None:
        if not self.done:
            self.done.extend(self.statements)
            self.pipe.sql(*self.statements)


ALTERED: Final = {
    "a column more": ("ALTER TABLE orders ADD COLUMN more INT NOT NULL DEFAULT 7",),
    "a column less": ("ALTER TABLE orders DROP COLUMN v",),
    "another type": ("ALTER TABLE orders MODIFY v VARCHAR(9)", "UPDATE orders SET v = 'x1', update_at = update_at"),
}


MOMENTS: Final = ("after the plan", "before the read", "while it is read")


@pytest.mark.parametrize(
    ("altered", "moment"),
    [
        pytest.param(altered, moment, marks=() if place == at else pytest.mark.long)
        for place, altered in enumerate(ALTERED)
        for at, moment in enumerate(MOMENTS)
    ],
)
def test_what_was_read_of_an_altered_table_is_of_one_time(pipe: Pipe, altered: str, moment: str) -> None:
    fill(pipe)
    alter = Once(pipe, ALTERED[altered])

    def heard(event: StreamEvent) -> None:
        if moment == "after the plan" and isinstance(event, BatchPlanned):
            alter()

    def nothing() -> None:
        """Not now."""

    pipe.heard = heard
    pipe.wrap = lambda reader: Between(
        reader,
        before=alter if moment == "before the read" else nothing,
        between=alter if moment == "while it is read" else nothing,
    )

    outcome = pipe.run()

    assert alter.done
    assert outcome.error is None
    assert any(isinstance(event, BatchAbandoned) for event in pipe.events)
    require_whole(pipe)
    [link] = [link for link in pipe.lake.links(STREAM) if link["files"]]
    names = [column["name"] for column in link["body"]["columns"]]
    expected = {
        "a column more": ["id", "v", "pad", "update_at", "more"],
        "a column less": ["id", "pad", "update_at"],
        "another type": ["id", "v", "pad", "update_at"],
    }
    assert names == expected[altered]
    if altered == "another type":
        assert {v for (v,) in pipe.lake.rows(STREAM, "v")} == {"x1"}


@pytest.fixture
def wire(pipe: Pipe) -> Iterator[TcpProxy]:
    """What lies between everyone and the server, that can be cut."""
    fill(pipe, pad=40)
    address = pipe.box.mysql
    with TcpProxy(address.port) as wire:
        pipe.url = f"mysql://{address.user}:{address.password}@{address.host}:{wire.port}/shop"
        pipe.options = "tls: disable"
        yield wire


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 24))])
def test_a_connection_cut_at_any_byte_loses_nothing(pipe: Pipe, wire: TcpProxy, seed: int) -> None:
    """Some cuts are bridged by another connection; all others are tried again."""
    rng = random.Random(seed)
    # Half of them among the few thousand bytes of questions, half among those of the rows.
    at = rng.randrange(1, 15_000) if seed % 2 else rng.randrange(15_000, 9_000_000)
    wire.cut_after(at)

    error = pipe.run().error

    assert wire.delivered_bytes >= at, "the cut was not met"
    assert error is None or (isinstance(error, Transient) and exit_code_for(error) is ExitCode.SOURCE), error
    if error is not None:
        require_unmoved(pipe)
        assert pipe.run().error is None
    require_whole(pipe)


@pytest.mark.parametrize(
    "kill", [pytest.param(False, marks=pytest.mark.long, id="ended"), pytest.param(True, id="killed")]
)
def test_a_server_restarted_in_the_middle_of_a_read_is_read_again(pipe: Pipe, wire: TcpProxy, *, kill: bool) -> None:
    restarted = threading.Event()

    def restart() -> None:
        pipe.box.restart("mysql", kill=kill)
        restarted.set()

    wire.cut_after(4_000_000, restart)

    error = pipe.run().error

    assert isinstance(error, SourceDown), "it is tried again"
    assert restarted.wait(120), "another window may have ended before"
    require_unmoved(pipe)
    assert pipe.run().error is None
    require_whole(pipe)


def _data(request: S3Request) -> bool:
    return request.method in {"PUT", "POST"} and "/data/" in request.key


def _written(place: str) -> Callable[[S3Request], bool]:
    return lambda request: request.method == "PUT" and f"/{place}/" in request.key


REFUSED: Final = {
    "parts are forbidden": (_data, 403, "AccessDenied", LakeUnfit),
    "the bucket is gone": (_data, 404, "NoSuchBucket", LakeUnfit),
    "parts are too many": (_data, 503, "SlowDown", LakeDown),
    "parts fail": (_data, 500, "InternalError", LakeDown),
    "its disk is full": (_data, 507, "InsufficientStorage", LakeDown),
    "no plan": (_written("plans"), 403, "AccessDenied", HintedError),
    "no manifest": (_written("batches"), 403, "AccessDenied", HintedError),
    "no entry": (_written("history"), 503, "SlowDown", OutcomeUnknown),
    "nothing": (lambda _request: True, 503, "SlowDown", StoreUnavailable),
}
REFUSED_OFTEN: Final = ("parts are forbidden", "parts fail", "no manifest")


@pytest.mark.parametrize(
    "refused",
    [pytest.param(name, marks=() if name in REFUSED_OFTEN else pytest.mark.long) for name in REFUSED],
)
def test_a_lake_that_refuses_stops_a_run_and_loses_nothing(pipe: Pipe, refused: str) -> None:
    fill(pipe)
    applies, status, code, kind = REFUSED[refused]
    with S3Proxy(pipe.box.s3.endpoint) as proxy:
        pipe.endpoint = proxy.endpoint
        fault = proxy.inject(S3Fault(kind=S3FaultKind.ERROR, matches=applies, times=10_000, status=status, code=code))

        error = pipe.run(ttl=2.0).error

        assert fault.matched_requests
        assert isinstance(error, kind), repr(error)
        assert exit_code_for(error) is ExitCode.LAKE
        assert code in error.message or isinstance(error, Transient | OutcomeUnknown)
        require_unmoved(pipe)
        proxy.clear_faults()
        # A claim that could not be given back is taken over when its lease has run out: this process lives on.
        assert pipe.run(ttl=2.0).error is None
        require_whole(pipe)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A directory on a small disk of its own."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "small", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("a disk of a test's own cannot be mounted here: that takes root, and a host that lets it")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def leave(place: Path, pages: int) -> None:
    """Fill the disk but for so many pages."""
    room = os.statvfs(place)
    (place / "ballast").write_bytes(bytes((room.f_bavail - pages) * room.f_bsize))


@pytest.mark.parametrize("pages", [1, pytest.param(100, marks=pytest.mark.long)])
def test_a_full_disk_is_named_and_nothing_is_lost(pipe: Pipe, small: Path, pages: int) -> None:
    """Whether there is no room at all, or too little to go on with."""
    fill(pipe)
    leave(small, pages)
    pipe.spark = f"conf: {{spark.local.dir: '{small}'}}"
    entry = "from syncd.cli.main import entry; entry()"
    command = [sys.executable, "-c", entry, "run", "--config", str(pipe.config), "-t", "orders", "--extract-only"]

    def run() -> "subprocess.CompletedProcess[str]":
        environ = {**os.environ, "TMPDIR": str(small)}
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environ)

    done = run()

    assert done.returncode == ExitCode.SOURCE, done.stderr
    assert "no space left" in done.stderr.lower()
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    require_unmoved(pipe)
    (small / "ballast").unlink()
    done = run()
    assert done.returncode == ExitCode.DONE, done.stderr
    require_whole(pipe)


def test_a_reader_that_ends_in_the_middle_is_another_one_at_the_next_run(pipe: Pipe, wire: TcpProxy) -> None:
    """As when the machine is out of memory."""

    def end() -> None:
        assert pipe.warm._jvm is not None
        pipe.warm._jvm.kill()

    wire.cut_after(4_000_000, end)

    error = pipe.run().error

    assert isinstance(error, ReaderDown), repr(error)
    assert exit_code_for(error) is ExitCode.SOURCE
    require_unmoved(pipe)
    assert pipe.run().error is None
    require_whole(pipe)


def test_a_reader_that_ended_while_idle_is_not_missed(pipe: Pipe) -> None:
    fill(pipe)
    pipe.warm.run(lambda _spark: None, within=60)
    assert pipe.warm._jvm is not None
    pipe.warm._jvm.kill()

    assert pipe.run().error is None
    require_whole(pipe)
