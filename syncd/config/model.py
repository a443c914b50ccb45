"""The keys of `syncd.yaml`: what may stand where, and what each is when it is left out."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    WithJsonSchema,
    model_validator,
)

from syncd.config import schema_patterns
from syncd.config.first_file import PLACEHOLDER_BUCKET
from syncd.config.value_parsers import (
    extract_credentials,
    parse_duration,
    parse_interval_or_cron,
    parse_lenient_instant,
    parse_listen_address,
    parse_positive_duration,
    parse_url,
)
from syncd.datatypes.columns import Policy
from syncd.mysql.sql import has_row_limit
from syncd.settings import (
    DEFAULT_MAX_REFUSED_ROWS,
    Channel,
    Deletes,
    EpochUnit,
    FirstRun,
    ListenAddress,
    MetadataColumn,
    Mode,
    NullCursor,
    Tls,
)

Duration = Annotated[timedelta, BeforeValidator(parse_duration), WithJsonSchema(schema_patterns.DURATION_SCHEMA)]
PositiveDuration = Annotated[
    timedelta, BeforeValidator(parse_positive_duration), WithJsonSchema(schema_patterns.POSITIVE_DURATION_SCHEMA)
]
"""Of zero, nothing would ever come to its end."""
Instant = Annotated[datetime, BeforeValidator(parse_lenient_instant), WithJsonSchema(schema_patterns.INSTANT_SCHEMA)]
IntervalOrCron = Annotated[
    str, BeforeValidator(parse_interval_or_cron), WithJsonSchema(schema_patterns.INTERVAL_OR_CRON_SCHEMA)
]
NonEmptyText = Annotated[str, Field(min_length=1)]


def _expand_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError("nobody of this name has a home here: write the whole path") from error


ConfigRelativePath = Annotated[Path, AfterValidator(_expand_home)]
"""A file, from where the configuration lies, or from somebody's home."""


def _check_source_url(text: object) -> object:
    if not extract_credentials(parse_url(text, "mysql", "mariadb"))[0]:
        raise ValueError("the address names no user: mysql://user:${MYSQL_PASSWORD}@host:3306/database")
    return text


def _check_warehouse_url(text: object) -> object:
    database = parse_url(text, "redshift").path.strip("/")
    if not database or "/" in database:
        raise ValueError("the address ends in no database: redshift://user:${REDSHIFT_PASSWORD}@host:5439/database")
    return text


def _check_lake_url(text: object) -> object:
    if parse_url(text, "s3").netloc == PLACEHOLDER_BUCKET:
        raise ValueError(f"{PLACEHOLDER_BUCKET} is what `syncd init` puts where the name of your bucket belongs")
    return text


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


NameList = Annotated[
    tuple[NonEmptyText, ...],
    BeforeValidator(_as_list),
    WithJsonSchema(schema_patterns.one_or_list(schema_patterns.TEXT_SCHEMA)),
]


def _parse_grantee(text: object) -> object:
    words = text.split() if isinstance(text, str) else []
    if len(words) == 1 or (len(words) == len(("role", "name")) and words[0] in {"role", "group"}):
        return " ".join(words)
    raise ValueError("write `role NAME`, `group NAME`, or the name of a user")


def _parse_encoding(text: object) -> object:
    if isinstance(text, str) and text.lower() in COLUMN_ENCODINGS:
        return text.lower()
    if isinstance(text, str) and text.lower() in {"text255", "text32k"}:
        raise ValueError("a text of this encoding cannot be widened later: take lzo or zstd")
    raise ValueError(f"must be one of {', '.join(COLUMN_ENCODINGS)}")


def _parse_policy(text: object) -> object:
    return Policy.NULL if text is None else text  # a bare null of YAML is meant as the word


ValuePolicy = Annotated[
    Policy, BeforeValidator(_parse_policy), WithJsonSchema(schema_patterns.nullable(schema_patterns.enum_of(Policy)))
]
NoTruncatePolicy = Annotated[
    Literal[Policy.NULL, Policy.QUARANTINE, Policy.FAIL],
    BeforeValidator(_parse_policy),
    WithJsonSchema(
        schema_patterns.nullable(schema_patterns.enum_of(policy for policy in Policy if policy is not Policy.TRUNCATE))
    ),
]
"""Only what is too long can be cut."""
COLUMN_ENCODINGS: Final = tuple("raw az64 bytedict delta delta32k lzo mostly8 mostly16 mostly32 runlength zstd".split())
Grantee = Annotated[str, BeforeValidator(_parse_grantee), WithJsonSchema(schema_patterns.GRANTEE_SCHEMA)]
Grantees = Annotated[
    tuple[Grantee, ...],
    BeforeValidator(_as_list),
    WithJsonSchema(schema_patterns.one_or_list(schema_patterns.GRANTEE_SCHEMA)),
]
MetadataColumns = Annotated[
    tuple[MetadataColumn, ...],
    BeforeValidator(_as_list),
    WithJsonSchema(schema_patterns.one_or_list(schema_patterns.enum_of(MetadataColumn))),
]
Encoding = Annotated[
    str,
    BeforeValidator(_parse_encoding),
    WithJsonSchema(schema_patterns.enum_of((*COLUMN_ENCODINGS, *map(str.upper, COLUMN_ENCODINGS)))),
]


class ConfigSection(BaseModel):
    """Any part of the file: a key that is not known is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Tunnel(ConfigSection):
    host: NonEmptyText
    user: NonEmptyText
    port: PositiveInt = 22
    key_file: ConfigRelativePath | None = None
    known_hosts: ConfigRelativePath | None = None


class Source(ConfigSection):
    url: Annotated[str, BeforeValidator(_check_source_url), WithJsonSchema(schema_patterns.SOURCE_URL_SCHEMA)]
    tls: Tls | None = None
    ca: ConfigRelativePath | None = None
    zone: NonEmptyText | None = None
    max_connections: PositiveInt = 4
    tunnel: Tunnel | None = None
    primary: "Source | None" = None
    silence: PositiveDuration = timedelta(seconds=60)
    longest_read: PositiveDuration = timedelta(hours=1)
    max_threads_running: PositiveInt | None = None
    max_replica_lag: Duration | None = None
    reread: Duration = timedelta(minutes=10)
    catch_up: Duration = timedelta(seconds=60)


class Lake(ConfigSection):
    url: Annotated[str, BeforeValidator(_check_lake_url), WithJsonSchema(schema_patterns.LAKE_URL_SCHEMA)]
    region: NonEmptyText | None = None
    endpoint: NonEmptyText | None = None


class Iam(ConfigSection):
    """A login that IAM lends."""

    cluster: NonEmptyText | None = None
    workgroup: NonEmptyText | None = None
    region: NonEmptyText | None = None

    @model_validator(mode="after")
    def _require_one_login(self) -> "Iam":
        if (self.cluster is None) == (self.workgroup is None):
            raise ValueError("name either a `cluster` or a `workgroup` of Redshift Serverless")
        return self


class Warehouse(ConfigSection):
    url: Annotated[str, BeforeValidator(_check_warehouse_url), WithJsonSchema(schema_patterns.WAREHOUSE_URL_SCHEMA)]
    tls: Literal["disable", "verify"] | None = None
    ca: ConfigRelativePath | None = None
    schema_: NonEmptyText = Field(default="public", alias="schema")
    iam_role: NonEmptyText | None = None
    iam: Iam | None = None
    secret: NonEmptyText | None = None
    tunnel: Tunnel | None = None
    query_group: NonEmptyText | None = None
    max_sessions: PositiveInt = 2
    silence: PositiveDuration = timedelta(seconds=60)
    longest_statement: PositiveDuration = timedelta(hours=1)


class Spark(ConfigSection):
    master: NonEmptyText = "local[*]"
    driver_memory: Annotated[str, Field(pattern=r"^\d+[mg]$")] = "1g"
    driver: Literal["mysql", "mariadb"] = "mysql"
    idle_stop: Duration = timedelta(minutes=10)
    conf: dict[str, str] = Field(default_factory=dict)


def _check_web_url(text: object) -> object:
    parse_url(text, "https", "http")
    return text


def _expand_notify_urls(value: object) -> object:
    """Whom to tell, where one address, or a list of them, says no more than that."""
    return [{"url": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value


class Notify(ConfigSection):
    url: Annotated[str, BeforeValidator(_check_web_url), WithJsonSchema(schema_patterns.WEB_URL_SCHEMA)]
    channel: Channel = Channel.WEBHOOK
    again: PositiveDuration = timedelta(hours=4)


class Daemon(ConfigSection):
    http: Annotated[
        ListenAddress | None,
        BeforeValidator(parse_listen_address),
        WithJsonSchema(schema_patterns.LISTEN_ADDRESS_SCHEMA),
    ] = ListenAddress(host="127.0.0.1", port=8080)
    token: NonEmptyText | None = None
    stop_timeout: Duration = timedelta(seconds=60)
    notify: Annotated[tuple[Notify, ...], BeforeValidator(_expand_notify_urls)] = ()
    markers: bool = False


class From(ConfigSection):
    """`first_run: {from: INSTANT}`; with `by: COLUMN` for a table that is read by its key."""

    instant: Instant = Field(alias="from")
    by: NonEmptyText | None = None


class Defaults(ConfigSection):
    """What a table may say, and what all tables may say at once."""

    every: IntervalOrCron = "5m"
    priority: int = 0
    longest_run: PositiveDuration = timedelta(hours=6)
    batch_rows: PositiveInt = 1_000_000
    max_pending: PositiveInt = 1_000
    max_refused: PositiveInt = DEFAULT_MAX_REFUSED_ROWS
    mode: Mode = Mode.UPSERT
    first_run: Literal["snapshot", "now"] | From = "snapshot"
    start: Instant | None = None
    settle: Duration = timedelta(seconds=60)
    ahead_after: Duration = timedelta(seconds=30)
    deletes: Deletes = Deletes.IGNORE
    metadata: MetadataColumns = (MetadataColumn.BATCH, MetadataColumn.LOADED_AT)
    grants: Grantees = ()
    fresh_within: PositiveDuration | None = None
    null_cursor: NullCursor = NullCursor.SNAPSHOT_ONLY
    zero_dates: NoTruncatePolicy = Policy.NULL
    oversize: ValuePolicy = Policy.QUARANTINE
    out_of_range: NoTruncatePolicy = Policy.QUARANTINE
    invalid_text: NoTruncatePolicy = Policy.FAIL

    @model_validator(mode="before")
    @classmethod
    def _require_one_start(cls, values: Any) -> Any:  # noqa: ANN401  # whatever the file holds
        if isinstance(values, dict) and "start" in values and "first_run" in values:
            raise ValueError("`start` is short for `first_run: {from: ...}`: keep one of the two")
        return values

    @property
    def first_run_column(self) -> str | None:
        return self.first_run.by if isinstance(self.first_run, From) else None

    @property
    def first_run_and_start(self) -> tuple[FirstRun, datetime | None]:
        """How the stream begins, and from when."""
        if self.start is not None:
            return FirstRun.FROM, self.start
        if isinstance(self.first_run, From):
            return FirstRun.FROM, self.first_run.instant
        return FirstRun(self.first_run), None


class Table(Defaults):
    """One table: what it says itself, and what `defaults` says where it is silent."""

    source: NonEmptyText | None = None
    to: NonEmptyText | None = None
    target: NonEmptyText | None = None
    cursor: NonEmptyText = "update_at"
    cursor_unit: EpochUnit | None = None
    key: NameList = ()
    query: NonEmptyText | None = None
    boolean: NameList = ()
    after: NameList = ()
    zone: NonEmptyText | None = None
    distkey: NonEmptyText | None = None
    sortkey: NameList = ()
    encode: dict[NonEmptyText, Encoding] = Field(default_factory=dict)
    first_query: NonEmptyText | None = None

    @model_validator(mode="after")
    def _require_consistent_keys(self) -> "Table":
        if self.cursor == "none" and self.mode is not Mode.REPLACE:
            raise ValueError("a table without a cursor is read whole each time: set `mode: replace`")
        if self.mode is Mode.REPLACE and self.cursor != "none":
            raise ValueError("`mode: replace` reads the whole table each time: set `cursor: none`")
        if self.mode is Mode.HISTORY and self.cursor == "id":
            raise ValueError("`mode: history` needs a cursor that tells when a row changed, not `id`")
        if self.query is not None and "${window}" not in self.query:
            raise ValueError("`query` has no ${window}, the place of the condition that picks a batch's rows")
        if self.query is not None and self.cursor != "none" and has_row_limit(self.query):
            raise ValueError("`query` has a LIMIT: the rows of a window that it leaves out would count as read")
        return self


class File(ConfigSection):
    """The whole file."""

    source: Source | None = None
    sources: dict[NonEmptyText, Source] = Field(default_factory=dict)
    lake: Lake
    warehouse: Warehouse | None = None
    warehouses: dict[NonEmptyText, Warehouse] = Field(default_factory=dict)
    spark: Spark = Spark()
    daemon: Daemon = Daemon()
    defaults: dict[str, Any] = Field(default_factory=dict)
    tables: dict[NonEmptyText, dict[str, Any] | None] = Field(min_length=1)
