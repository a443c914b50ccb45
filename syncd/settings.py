"""The settings of one run, whole and checked: what `config` makes of the file and the environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from syncd.datatypes.columns import Policies
from watermarks.names import StreamName

DEFAULT_MAX_REFUSED_ROWS: Final = 200
"""Rows of one file, where nothing else is said. Each is found by some twenty trials."""
_LOCAL: Final = re.compile(r"local(?:\[(\*|[1-9]\d*)(?:,\d+)?\])?")


class Tls(StrEnum):
    """How far a connection is encrypted, and how far the other side is believed."""

    DISABLE = "disable"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that no log, plan or error may show."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelSettings:
    """A way to the source through a bastion."""

    host: str
    user: str
    port: int = 22
    key_file: Path | None = None
    known_hosts: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """One MySQL server."""

    name: str
    host: str
    port: int = 3306
    user: str
    password: Secret
    database: str | None = None
    tls: Tls = Tls.VERIFY
    ca: Path | None = None
    zone: str | None = None
    """The session zone of those who write; needed where DATETIME stamps are to be proven."""
    max_connections: int = 4
    tunnel: TunnelSettings | None = None
    primary: "SourceSettings | None" = None
    """Where rows are stamped, when this server is a replica."""
    silence: timedelta = timedelta(seconds=60)
    """How long the server may send nothing."""
    longest_read: timedelta = timedelta(hours=1)
    """How long one statement, and so one snapshot, may live."""
    max_threads_running: int | None = None
    max_replica_lag: timedelta | None = None
    reread: timedelta = timedelta(minutes=10)
    """How far before a mark to read again after another server took this one's place, or its clock went back: the
    greatest difference of the clocks and the longest transaction together."""
    catch_up: timedelta = timedelta(seconds=60)
    """How long to wait until a replica has applied what its primary has committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSettings:
    """One bucket and prefix."""

    bucket: str
    prefix: str = ""
    region: str | None = None
    endpoint: str | None = None

    @property
    def address(self) -> str:
        """By which the warehouse tells lakes apart; names of tables are made of it, so that it never changes."""
        return f"s3://{self.bucket}/{self.prefix.strip('/')}".rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The Spark that reads."""

    master: str = "local[*]"
    driver_memory: str = "1g"
    idle_stop: timedelta = timedelta(minutes=10)
    driver: str = "mysql"
    """Which JDBC driver: `mysql` (Connector/J) or `mariadb`."""
    conf: dict[str, str] = field(default_factory=dict[str, str])

    def window_parallelism(self, connections: int, *, cores: int) -> int:
        """How many windows are read at once over so many connections; no more than there are slots, if that is known.

        More would be read in waves, of which each waits for the slowest of its windows.
        """
        local = _LOCAL.fullmatch(self.master)
        if local is None:
            return connections
        slots = local.group(1) or "1"
        return max(1, min(connections, cores if slots == "*" else int(slots)))


@dataclass(frozen=True, slots=True, kw_only=True)
class IamLogin:
    """A login by IAM: a password that is asked for and lives some minutes."""

    cluster: str | None = None
    """The name of a provisioned cluster."""
    workgroup: str | None = None
    """The name of a serverless workgroup."""
    region: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseSettings:
    """One Redshift."""

    name: str
    host: str
    port: int = 5439
    database: str
    user: str
    password: Secret | None = None
    iam: IamLogin | None = None
    secret: str | None = None
    """The name or ARN of a secret of AWS Secrets Manager that holds user and password."""
    tls: Tls = Tls.VERIFY
    """`disable` or `verify`: its driver knows no honest mode between."""
    ca: Path | None = None
    tunnel: TunnelSettings | None = None
    schema: str = "public"
    iam_role: str | None = None
    """By which COPY reads the lake: `default`, or ARNs; without it the credentials of the lake stand in the SQL."""
    query_group: str | None = None
    max_sessions: int = 2
    """How many sessions a daemon lands over at once."""
    silence: timedelta = timedelta(seconds=60)
    """How long a short answer may take."""
    longest_statement: timedelta = timedelta(hours=1)
    """How long COPY, a change of rows or the wait for a lock may take."""


class FirstRun(StrEnum):
    """Where a stream begins."""

    SNAPSHOT = "snapshot"
    FROM = "from"
    NOW = "now"


class NullCursor(StrEnum):
    """What becomes of rows whose order column is NULL."""

    SNAPSHOT_ONLY = "snapshot_only"
    FAIL = "fail"


class EpochUnit(StrEnum):
    """What an integer order column counts."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"


class Mode(StrEnum):
    """How rows are applied in the warehouse."""

    UPSERT = "upsert"
    APPEND = "append"
    HISTORY = "history"
    REPLACE = "replace"


class Deletes(StrEnum):
    """What becomes of rows in the warehouse that are gone at the source."""

    IGNORE = "ignore"
    SOFT = "soft"
    """They stay, and say since when they are gone."""
    HARD = "hard"


class MetadataColumn(StrEnum):
    """Columns of our own in a target."""

    BATCH = "batch"
    """`_syncd_batch`: the batch that read the row."""
    LOADED_AT = "loaded_at"
    """`_syncd_loaded_at`: when it was landed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """One table in a warehouse, as it shall be; the layout counts only when it is created."""

    warehouse: str
    schema: str
    table: str
    distkey: str | None = None
    """A column of the source; none: Redshift chooses."""
    sortkey: tuple[str, ...] = ()
    encode: Mapping[str, str] = field(default_factory=dict[str, str])
    grants: tuple[str, ...] = ()
    """Whom to let read it: `role analysts`, `group bi`, `someone`."""
    notes: tuple[MetadataColumn, ...] = (MetadataColumn.BATCH, MetadataColumn.LOADED_AT)
    deletes: Deletes = Deletes.IGNORE
    max_refused: int = DEFAULT_MAX_REFUSED_ROWS
    """Rows of one file that are put aside, where the warehouse refuses them; where more are, it is not the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When the daemon reads a table, and what it owes to whoever waits for it."""

    every: timedelta | None = timedelta(minutes=5)
    """None where `cron` says when."""
    cron: str | None = None
    zone: str = "UTC"
    """Of the cron."""
    after: tuple[str, ...] = ()
    """Tables, as `database.table`, whose pass comes first where both are due."""
    priority: int = 0
    """Of two streams that wait for the same slot, the one with the higher goes first."""
    longest_run: timedelta = timedelta(hours=6)
    """A pass that takes longer is ended: its Spark job cancelled, its connections closed."""
    fresh_within: timedelta | None = None
    """How far the target may be behind the source before somebody is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """One source table."""

    source: str
    database: str
    table: str
    cursor: str = "update_at"
    """The order column, or `id` (the key of a table that only grows), or `none` (the whole table each time)."""
    cursor_unit: EpochUnit | None = None
    key: tuple[str, ...] = ()
    """Where the table declares none."""
    query: str | None = None
    """SQL of one's own, with `${window}` where the window's condition goes."""
    mode: Mode = Mode.UPSERT
    batch_rows: int = 1_000_000
    max_pending: int = 1_000
    """So many batches may wait to be loaded; with more the extraction waits. Only where there is a target."""
    settle: timedelta = timedelta(seconds=60)
    ahead_after: timedelta = timedelta(seconds=30)
    first_run: FirstRun = FirstRun.SNAPSHOT
    is_first_run_configured: bool = True
    """Whether the configuration says so; where it is silent, the system-wide default comes first."""
    start: datetime | None = None
    """With `first_run: from`."""
    start_by: str | None = None
    """With `cursor: id` too: the column that tells when a row was born, where it is not the only one that may."""
    null_cursor: NullCursor = NullCursor.SNAPSHOT_ONLY
    policies: Policies = field(default_factory=Policies)
    boolean: tuple[str, ...] = ()
    """Columns of TINYINT(1) that hold nothing but 0 and 1, and are to be BOOLEAN."""
    target: TargetSettings | None = None
    """None where no warehouse is configured."""
    schedule: Schedule = field(default_factory=Schedule)

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def stream_name(self) -> StreamName:
        """The stream's name in the default target."""
        return StreamName(source=self.source, database=self.database, table=self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """Where to listen."""

    host: str
    port: int


class Channel(StrEnum):
    """How somebody is told."""

    WEBHOOK = "webhook"
    """One JSON document."""
    SLACK = "slack"
    """A text, as Slack and its like take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """Whom to tell of incidents."""

    url: Secret
    """It may hold a token."""
    channel: Channel = Channel.WEBHOOK
    again: timedelta = timedelta(hours=4)
    """How often to say that an incident is still open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSettings:
    """The daemon as a whole."""

    http: ListenAddress | None = ListenAddress(host="127.0.0.1", port=8080)
    """None: no HTTP."""
    token: Secret | None = None
    """What a reader of it has to show; without one, whoever reaches the address may read."""
    stop_timeout: timedelta = timedelta(seconds=60)
    notify: tuple[NotifySettings, ...] = ()
    markers: bool = False
    """Whether each pass that leaves a stream complete says so by an object in the lake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that was configured."""

    sources: tuple[SourceSettings, ...]
    lake: LakeSettings
    spark: SparkSettings = field(default_factory=SparkSettings)
    streams: tuple[StreamSettings, ...] = ()
    warehouses: tuple[WarehouseSettings, ...] = ()
    daemon: DaemonSettings = field(default_factory=DaemonSettings)
