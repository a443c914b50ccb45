"""Model of `syncd.yaml`: the keys of each section and their types. Defaults are those of `syncd.settings`."""

from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    model_validator,
)

from syncd.config.value_types import (
    ConfigRelativePath,
    Duration,
    Encoding,
    Grantees,
    Instant,
    IntervalOrCron,
    LakeUrl,
    MetadataColumns,
    NameList,
    NonEmptyText,
    NoTruncatePolicy,
    OptionalListenAddress,
    PositiveDuration,
    SourceUrl,
    ValuePolicy,
    WarehouseUrl,
    WebUrl,
)
from syncd.datatypes.columns import Policies
from syncd.mysql.sql import has_row_limit
from syncd.settings import (
    DEFAULT_INTERVAL,
    Channel,
    DaemonSettings,
    Deletes,
    EpochUnit,
    FirstRun,
    Mode,
    NotifySettings,
    NullCursor,
    Schedule,
    Secret,
    SourceSettings,
    SparkSettings,
    StreamSettings,
    TargetSettings,
    Tls,
    TunnelSettings,
    WarehouseSettings,
)

SOURCE_DEFAULTS: Final = SourceSettings(name="", host="", user="", password=Secret(""))
WAREHOUSE_DEFAULTS: Final = WarehouseSettings(name="", host="", database="", user="")
SCHEDULE_DEFAULTS: Final = Schedule()
_TUNNEL_DEFAULTS: Final = TunnelSettings(host="", user="")
_SPARK_DEFAULTS: Final[Any] = SparkSettings()  # Any: the file allows two drivers only
_NOTIFY_DEFAULTS: Final = NotifySettings(url=Secret(""))
_DAEMON_DEFAULTS: Final = DaemonSettings()
_STREAM_DEFAULTS: Final = StreamSettings(source="", database="", table="")
_FIRST_RUN_DEFAULT: Final[Any] = _STREAM_DEFAULTS.first_run.value  # Any: the file writes `from` in another form
_TARGET_DEFAULTS: Final = TargetSettings(warehouse="", schema="", table="")
_POLICY_DEFAULTS: Final[Any] = Policies()  # Any: a key may allow fewer policies than the settings


class ConfigSection(BaseModel):
    """Base of all sections; an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    def values_for(self, settings: type[Any]) -> dict[str, Any]:
        """Return the values of the keys that a settings class has under the same name."""
        names = {field.name for field in fields(settings)}
        return {name: getattr(self, name) for name in type(self).model_fields if name in names}


class Tunnel(ConfigSection):
    host: NonEmptyText
    user: NonEmptyText
    port: PositiveInt = _TUNNEL_DEFAULTS.port
    key_file: ConfigRelativePath | None = _TUNNEL_DEFAULTS.key_file
    known_hosts: ConfigRelativePath | None = _TUNNEL_DEFAULTS.known_hosts


class Source(ConfigSection):
    url: SourceUrl
    tls: Tls | None = None
    ca: ConfigRelativePath | None = SOURCE_DEFAULTS.ca
    zone: NonEmptyText | None = SOURCE_DEFAULTS.zone
    max_connections: PositiveInt = SOURCE_DEFAULTS.max_connections
    tunnel: Tunnel | None = None
    primary: "Source | None" = None
    silence: PositiveDuration = SOURCE_DEFAULTS.silence
    longest_read: PositiveDuration = SOURCE_DEFAULTS.longest_read
    max_threads_running: PositiveInt | None = SOURCE_DEFAULTS.max_threads_running
    max_replica_lag: Duration | None = SOURCE_DEFAULTS.max_replica_lag
    reread: Duration = SOURCE_DEFAULTS.reread
    catch_up: Duration = SOURCE_DEFAULTS.catch_up


class Lake(ConfigSection):
    url: LakeUrl
    region: NonEmptyText | None = None
    endpoint: NonEmptyText | None = None


class Iam(ConfigSection):
    cluster: NonEmptyText | None = None
    workgroup: NonEmptyText | None = None
    region: NonEmptyText | None = None

    @model_validator(mode="after")
    def _require_one_login(self) -> "Iam":
        if (self.cluster is None) == (self.workgroup is None):
            raise ValueError("name either a `cluster` or a `workgroup` of Redshift Serverless")
        return self


class Warehouse(ConfigSection):
    url: WarehouseUrl
    tls: Literal["disable", "verify"] | None = None
    ca: ConfigRelativePath | None = WAREHOUSE_DEFAULTS.ca
    schema_: NonEmptyText = Field(default=WAREHOUSE_DEFAULTS.schema, alias="schema")
    iam_role: NonEmptyText | None = WAREHOUSE_DEFAULTS.iam_role
    iam: Iam | None = None
    secret: NonEmptyText | None = WAREHOUSE_DEFAULTS.secret
    tunnel: Tunnel | None = None
    query_group: NonEmptyText | None = WAREHOUSE_DEFAULTS.query_group
    max_sessions: PositiveInt = WAREHOUSE_DEFAULTS.max_sessions
    silence: PositiveDuration = WAREHOUSE_DEFAULTS.silence
    longest_statement: PositiveDuration = WAREHOUSE_DEFAULTS.longest_statement


class Spark(ConfigSection):
    master: NonEmptyText = _SPARK_DEFAULTS.master
    driver_memory: Annotated[str, Field(pattern=r"^\d+[mg]$")] = _SPARK_DEFAULTS.driver_memory
    driver: Literal["mysql", "mariadb"] = _SPARK_DEFAULTS.driver
    idle_stop: Duration = _SPARK_DEFAULTS.idle_stop
    conf: dict[str, str] = Field(default_factory=dict)


def _expand_notify_urls(value: object) -> object:
    """Expand plain addresses to entries with a `url`."""
    return (
        [{"url": entry} if isinstance(entry, str) else entry for entry in value] if isinstance(value, list) else value
    )


class Notify(ConfigSection):
    url: WebUrl
    channel: Channel = _NOTIFY_DEFAULTS.channel
    again: PositiveDuration = _NOTIFY_DEFAULTS.again


class Daemon(ConfigSection):
    http: OptionalListenAddress = _DAEMON_DEFAULTS.http
    token: NonEmptyText | None = None
    stop_timeout: Duration = _DAEMON_DEFAULTS.stop_timeout
    notify: Annotated[tuple[Notify, ...], BeforeValidator(_expand_notify_urls)] = ()
    markers: bool = _DAEMON_DEFAULTS.markers


class From(ConfigSection):
    """`first_run: {from: INSTANT}`; with `by: COLUMN` for a table that is read by its key."""

    instant: Instant = Field(alias="from")
    by: NonEmptyText | None = None


class Defaults(ConfigSection):
    """Keys of a table that `defaults` may set for all tables."""

    every: IntervalOrCron = DEFAULT_INTERVAL
    priority: int = SCHEDULE_DEFAULTS.priority
    longest_run: PositiveDuration = SCHEDULE_DEFAULTS.longest_run
    batch_rows: PositiveInt = _STREAM_DEFAULTS.batch_rows
    max_pending: PositiveInt = _STREAM_DEFAULTS.max_pending
    max_refused: PositiveInt = _TARGET_DEFAULTS.max_refused
    mode: Mode = _STREAM_DEFAULTS.mode
    first_run: Literal["snapshot", "now"] | From = _FIRST_RUN_DEFAULT
    start: Instant | None = _STREAM_DEFAULTS.start
    settle: Duration = _STREAM_DEFAULTS.settle
    ahead_after: Duration = _STREAM_DEFAULTS.ahead_after
    deletes: Deletes = _TARGET_DEFAULTS.deletes
    metadata: MetadataColumns = _TARGET_DEFAULTS.notes
    grants: Grantees = _TARGET_DEFAULTS.grants
    fresh_within: PositiveDuration | None = SCHEDULE_DEFAULTS.fresh_within
    null_cursor: NullCursor = _STREAM_DEFAULTS.null_cursor
    zero_dates: NoTruncatePolicy = _POLICY_DEFAULTS.zero_dates
    oversize: ValuePolicy = _POLICY_DEFAULTS.oversize
    out_of_range: NoTruncatePolicy = _POLICY_DEFAULTS.out_of_range
    invalid_text: NoTruncatePolicy = _POLICY_DEFAULTS.invalid_text

    @model_validator(mode="before")
    @classmethod
    def _require_one_start(cls, values: Any) -> Any:  # noqa: ANN401  # any YAML value
        if isinstance(values, dict) and "start" in values and "first_run" in values:
            raise ValueError("`start` is short for `first_run: {from: ...}`: keep one of the two")
        return values

    @property
    def first_run_column(self) -> str | None:
        return self.first_run.by if isinstance(self.first_run, From) else None

    @property
    def first_run_and_start(self) -> tuple[FirstRun, datetime | None]:
        """Starting point of the stream, and the instant of `from`."""
        if self.start is not None:
            return FirstRun.FROM, self.start
        if isinstance(self.first_run, From):
            return FirstRun.FROM, self.first_run.instant
        return FirstRun(self.first_run), None


class Table(Defaults):
    """One table, with the values of `defaults` for the keys that it leaves out."""

    source: NonEmptyText | None = None
    to: NonEmptyText | None = None
    target: NonEmptyText | None = None
    cursor: NonEmptyText = _STREAM_DEFAULTS.cursor
    cursor_unit: EpochUnit | None = None
    key: NameList = ()
    query: NonEmptyText | None = None
    boolean: NameList = ()
    after: NameList = ()
    zone: NonEmptyText | None = None
    distkey: NonEmptyText | None = None
    sortkey: NameList = ()
    encode: dict[NonEmptyText, Encoding] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _require_consistent_keys(self) -> "Table":
        if self.cursor == "none" and self.mode is not Mode.REPLACE:
            raise ValueError("a table without a cursor is read completely in each run: set `mode: replace`")
        if self.mode is Mode.REPLACE and self.cursor != "none":
            raise ValueError("`mode: replace` reads the whole table in each run: set `cursor: none`")
        if self.mode is Mode.HISTORY and self.cursor == "id":
            raise ValueError("`mode: history` needs a cursor that changes with the row, not `id`")
        if self.query is not None and "${window}" not in self.query:
            raise ValueError("`query` has no ${window}, the place of the condition that selects the rows of a batch")
        if self.query is not None and self.cursor != "none" and has_row_limit(self.query):
            raise ValueError("`query` has a LIMIT: rows of a window beyond the LIMIT would count as read")
        return self


class File(ConfigSection):
    """The file as a whole."""

    source: Source | None = None
    sources: dict[NonEmptyText, Source] = Field(default_factory=dict)
    lake: Lake
    warehouse: Warehouse | None = None
    warehouses: dict[NonEmptyText, Warehouse] = Field(default_factory=dict)
    spark: Spark = Spark()
    daemon: Daemon = Daemon()
    defaults: dict[str, Any] = Field(default_factory=dict)
    tables: dict[NonEmptyText, dict[str, Any] | None] = Field(min_length=1)
