"""Checked settings, as `config` builds them from the file and the environment. Every default stands here alone."""

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
"""Refused rows of one file. To find each takes about twenty trial loads."""
DEFAULT_INTERVAL: Final = timedelta(minutes=5)
"""Time between two runs of a table."""
_LOCAL: Final = re.compile(r"local(?:\[(\*|[1-9]\d*)(?:,\d+)?\])?")


class Tls(StrEnum):
    """Encryption of a connection, and verification of the server."""

    DISABLE = "disable"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that no log, plan or error may show."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelSettings:
    """SSH tunnel through a bastion host."""

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
    """Session time zone of the writers. Without it, marks on DATETIME columns cannot be proven complete."""
    max_connections: int = 4
    tunnel: TunnelSettings | None = None
    primary: "SourceSettings | None" = None
    """Server on which rows get their time stamps, when this one is a replica."""
    silence: timedelta = timedelta(seconds=60)
    """Time for which the server may send nothing."""
    longest_read: timedelta = timedelta(hours=1)
    """Maximum duration of one statement, and so of one snapshot."""
    max_threads_running: int | None = None
    max_replica_lag: timedelta | None = None
    reread: timedelta = timedelta(minutes=10)
    """Range before the mark that is read again after a failover, or after the server's clock was set back: the largest
    clock difference plus the longest transaction."""
    catch_up: timedelta = timedelta(seconds=60)
    """Maximum wait for a replica to apply what its primary has committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSettings:
    """Bucket and prefix of the lake."""

    bucket: str
    prefix: str = ""
    region: str | None = None
    endpoint: str | None = None

    @property
    def address(self) -> str:
        """Address by which the warehouse tells lakes apart; table names derive from it, so its form never changes."""
        return f"s3://{self.bucket}/{self.prefix.strip('/')}".rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """Spark session that reads the source."""

    master: str = "local[*]"
    driver_memory: str = "1g"
    idle_stop: timedelta = timedelta(minutes=10)
    driver: str = "mysql"
    """JDBC driver: `mysql` (Connector/J) or `mariadb`."""
    conf: dict[str, str] = field(default_factory=dict[str, str])

    def window_parallelism(self, connections: int, *, cores: int) -> int:
        """Return how many windows to read at once: one per connection, but no more than Spark has slots, if known.

        More windows would run in waves, and each wave waits for its slowest window.
        """
        local = _LOCAL.fullmatch(self.master)
        if local is None:
            return connections
        slots = local.group(1) or "1"
        return max(1, min(connections, cores if slots == "*" else int(slots)))


@dataclass(frozen=True, slots=True, kw_only=True)
class IamLogin:
    """IAM login: a password that AWS issues for some minutes."""

    cluster: str | None = None
    """Name of a provisioned cluster."""
    workgroup: str | None = None
    """Name of a serverless workgroup."""
    region: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseSettings:
    """One Redshift cluster or workgroup."""

    name: str
    host: str
    port: int = 5439
    database: str
    user: str
    password: Secret | None = None
    iam: IamLogin | None = None
    secret: str | None = None
    """Name or ARN of the AWS Secrets Manager secret with user and password."""
    tls: Tls = Tls.VERIFY
    """`disable` or `verify`: the driver has no other mode that does what its name says."""
    ca: Path | None = None
    tunnel: TunnelSettings | None = None
    schema: str = "public"
    iam_role: str | None = None
    """Role with which COPY reads the lake: `default`, or ARNs. Without it, the SQL holds the lake's credentials."""
    query_group: str | None = None
    max_sessions: int = 2
    """Sessions that a daemon uses for loads at once."""
    silence: timedelta = timedelta(seconds=60)
    """Maximum duration of a short statement."""
    longest_statement: timedelta = timedelta(hours=1)
    """Maximum duration of a COPY, of a change of rows, or of the wait for a lock."""


class FirstRun(StrEnum):
    """Starting point of a stream."""

    SNAPSHOT = "snapshot"
    FROM = "from"
    NOW = "now"


class NullCursor(StrEnum):
    """Treatment of rows whose order column is NULL."""

    SNAPSHOT_ONLY = "snapshot_only"
    FAIL = "fail"


class EpochUnit(StrEnum):
    """Unit of an integer order column."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"


class Mode(StrEnum):
    """Way in which rows are applied in the warehouse."""

    UPSERT = "upsert"
    APPEND = "append"
    HISTORY = "history"
    REPLACE = "replace"


class Deletes(StrEnum):
    """Treatment of warehouse rows that were deleted at the source."""

    IGNORE = "ignore"
    SOFT = "soft"
    """The rows stay, with the time of their deletion."""
    HARD = "hard"


class MetadataColumn(StrEnum):
    """Columns that syncd adds to a target."""

    BATCH = "batch"
    """`_syncd_batch`: the batch that extracted the row."""
    LOADED_AT = "loaded_at"
    """`_syncd_loaded_at`: the time of its load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """Target table of a stream. The layout applies only when the table is created."""

    warehouse: str
    schema: str
    table: str
    distkey: str | None = None
    """Column of the source; with None, Redshift chooses."""
    sortkey: tuple[str, ...] = ()
    encode: Mapping[str, str] = field(default_factory=dict[str, str])
    grants: tuple[str, ...] = ()
    """Roles, groups and users that may read it: `role analysts`, `group bi`, `someone`."""
    notes: tuple[MetadataColumn, ...] = (MetadataColumn.BATCH, MetadataColumn.LOADED_AT)
    deletes: Deletes = Deletes.IGNORE
    max_refused: int = DEFAULT_MAX_REFUSED_ROWS
    """Rows of one file that may go to quarantine because the warehouse refuses them. If more are refused, the rows are
    not the cause, and the load fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Schedule by which the daemon runs a table, and its limits."""

    every: timedelta | None = DEFAULT_INTERVAL
    """None where `cron` is set."""
    cron: str | None = None
    zone: str = "UTC"
    """Time zone of `cron`."""
    after: tuple[str, ...] = ()
    """Tables, as `database.table`, that run before this one where both are due."""
    priority: int = 0
    """Of two streams that wait for the same slot, the one with the higher priority runs first."""
    longest_run: timedelta = timedelta(hours=6)
    """Maximum duration of a pass. Then its Spark job is cancelled and its connections are closed."""
    fresh_within: timedelta | None = None
    """Lag of the target behind the source above which the daemon sends a notification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """One source table."""

    source: str
    database: str
    table: str
    cursor: str = "update_at"
    """Order column, or `id` (the key of an insert-only table), or `none` (each run reads the whole table)."""
    cursor_unit: EpochUnit | None = None
    key: tuple[str, ...] = ()
    """Key columns, where the table declares none."""
    query: str | None = None
    """SQL to read instead of the table, with `${window}` in place of the window's condition."""
    mode: Mode = Mode.UPSERT
    batch_rows: int = 1_000_000
    max_pending: int = 1_000
    """Batches that may wait for their load before the extraction pauses. Only with a target."""
    settle: timedelta = timedelta(seconds=60)
    ahead_after: timedelta = timedelta(seconds=30)
    first_run: FirstRun = FirstRun.SNAPSHOT
    is_first_run_configured: bool = True
    """False where the configuration has no `first_run`: then the system-wide default takes precedence."""
    start: datetime | None = None
    """Instant of `first_run: from`."""
    start_by: str | None = None
    """With `cursor: id`: the column with the creation time of a row, where several columns may hold it."""
    null_cursor: NullCursor = NullCursor.SNAPSHOT_ONLY
    policies: Policies = field(default_factory=Policies)
    boolean: tuple[str, ...] = ()
    """TINYINT(1) columns that hold only 0 and 1, and become BOOLEAN."""
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
    """Address on which the HTTP server listens."""

    host: str
    port: int


class Channel(StrEnum):
    """Format of a notification."""

    WEBHOOK = "webhook"
    """JSON document."""
    SLACK = "slack"
    """Text message in the form of Slack and compatible services."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """Receiver of incident notifications."""

    url: Secret
    """The URL may hold a token."""
    channel: Channel = Channel.WEBHOOK
    again: timedelta = timedelta(hours=4)
    """Interval of reminders while an incident is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSettings:
    """Settings of the daemon."""

    http: ListenAddress | None = ListenAddress(host="127.0.0.1", port=8080)
    """None: no HTTP server."""
    token: Secret | None = None
    """Token that HTTP clients must send. Without one, every client that reaches the address may read."""
    stop_timeout: timedelta = timedelta(seconds=60)
    notify: tuple[NotifySettings, ...] = ()
    markers: bool = False
    """True: each pass that leaves a stream complete writes a marker object into the lake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one configuration."""

    sources: tuple[SourceSettings, ...]
    lake: LakeSettings
    spark: SparkSettings = field(default_factory=SparkSettings)
    streams: tuple[StreamSettings, ...] = ()
    warehouses: tuple[WarehouseSettings, ...] = ()
    daemon: DaemonSettings = field(default_factory=DaemonSettings)

    def source(self, name: str) -> SourceSettings:
        return next(source for source in self.sources if source.name == name)

    def warehouse(self, name: str) -> WarehouseSettings:
        return next(warehouse for warehouse in self.warehouses if warehouse.name == name)
