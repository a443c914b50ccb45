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
from syncd.config.first_file import UNNAMED
from syncd.config.value_parsers import address, duration, instant, interval_or_cron, lasting, listening, user_of
from syncd.datatypes.columns import Policy
from syncd.mysql.sql import cuts_short
from syncd.settings import (
    MOST_REFUSED,
    Address,
    Channel,
    Deletes,
    EpochUnit,
    FirstRun,
    Mode,
    Note,
    NullCursor,
    Tls,
)

Duration = Annotated[timedelta, BeforeValidator(duration), WithJsonSchema(schema_patterns.DURATION)]
Lasting = Annotated[timedelta, BeforeValidator(lasting), WithJsonSchema(schema_patterns.LASTING)]
"""Of zero, nothing would ever come to its end."""
Instant = Annotated[datetime, BeforeValidator(instant), WithJsonSchema(schema_patterns.INSTANT)]
Every = Annotated[str, BeforeValidator(interval_or_cron), WithJsonSchema(schema_patterns.EVERY)]
Text = Annotated[str, Field(min_length=1)]


def _at_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError("nobody of this name has a home here: write the whole path") from error


Beside = Annotated[Path, AfterValidator(_at_home)]
"""A file, from where the configuration lies, or from somebody's home."""


def _source_url(text: object) -> object:
    if not user_of(address(text, "mysql", "mariadb"))[0]:
        raise ValueError("the address names no user: mysql://user:${MYSQL_PASSWORD}@host:3306/database")
    return text


def _warehouse_url(text: object) -> object:
    database = address(text, "redshift").path.strip("/")
    if not database or "/" in database:
        raise ValueError("the address ends in no database: redshift://user:${REDSHIFT_PASSWORD}@host:5439/database")
    return text


def _lake_url(text: object) -> object:
    if address(text, "s3").netloc == UNNAMED:
        raise ValueError(f"{UNNAMED} is what `syncd init` puts where the name of your bucket belongs")
    return text


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Names = Annotated[
    tuple[Text, ...], BeforeValidator(_listed), WithJsonSchema(schema_patterns.either(schema_patterns.TEXT))
]


def _grantee(text: object) -> object:
    words = text.split() if isinstance(text, str) else []
    if len(words) == 1 or (len(words) == len(("role", "name")) and words[0] in {"role", "group"}):
        return " ".join(words)
    raise ValueError("write `role NAME`, `group NAME`, or the name of a user")


def _encoding(text: object) -> object:
    if isinstance(text, str) and text.lower() in ENCODINGS:
        return text.lower()
    if isinstance(text, str) and text.lower() in {"text255", "text32k"}:
        raise ValueError("a text of this encoding cannot be widened later: take lzo or zstd")
    raise ValueError(f"must be one of {', '.join(ENCODINGS)}")


def _policy(text: object) -> object:
    return Policy.NULL if text is None else text  # a bare null of YAML is meant as the word


Met = Annotated[
    Policy, BeforeValidator(_policy), WithJsonSchema(schema_patterns.or_none(schema_patterns.one_of(Policy)))
]
Uncut = Annotated[
    Literal[Policy.NULL, Policy.QUARANTINE, Policy.FAIL],
    BeforeValidator(_policy),
    WithJsonSchema(
        schema_patterns.or_none(schema_patterns.one_of(policy for policy in Policy if policy is not Policy.TRUNCATE))
    ),
]
"""Only what is too long can be cut."""
ENCODINGS: Final = tuple("raw az64 bytedict delta delta32k lzo mostly8 mostly16 mostly32 runlength zstd".split())
Grantee = Annotated[str, BeforeValidator(_grantee), WithJsonSchema(schema_patterns.GRANTEE)]
Grantees = Annotated[
    tuple[Grantee, ...], BeforeValidator(_listed), WithJsonSchema(schema_patterns.either(schema_patterns.GRANTEE))
]
Notes = Annotated[
    tuple[Note, ...], BeforeValidator(_listed), WithJsonSchema(schema_patterns.either(schema_patterns.one_of(Note)))
]
Encoding = Annotated[
    str, BeforeValidator(_encoding), WithJsonSchema(schema_patterns.one_of((*ENCODINGS, *map(str.upper, ENCODINGS))))
]


class Part(BaseModel):
    """Any part of the file: a key that is not known is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Tunnel(Part):
    host: Text
    user: Text
    port: PositiveInt = 22
    key_file: Beside | None = None
    known_hosts: Beside | None = None


class Source(Part):
    url: Annotated[str, BeforeValidator(_source_url), WithJsonSchema(schema_patterns.SOURCE_URL)]
    tls: Tls | None = None
    ca: Beside | None = None
    zone: Text | None = None
    max_connections: PositiveInt = 4
    tunnel: Tunnel | None = None
    primary: "Source | None" = None
    silence: Lasting = timedelta(seconds=60)
    longest_read: Lasting = timedelta(hours=1)
    max_threads_running: PositiveInt | None = None
    max_replica_lag: Duration | None = None
    reread: Duration = timedelta(minutes=10)
    catch_up: Duration = timedelta(seconds=60)


class Lake(Part):
    url: Annotated[str, BeforeValidator(_lake_url), WithJsonSchema(schema_patterns.LAKE_URL)]
    region: Text | None = None
    endpoint: Text | None = None


class Iam(Part):
    """A login that IAM lends."""

    cluster: Text | None = None
    workgroup: Text | None = None
    region: Text | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> "Iam":
        if (self.cluster is None) == (self.workgroup is None):
            raise ValueError("name either a `cluster` or a `workgroup` of Redshift Serverless")
        return self


class Warehouse(Part):
    url: Annotated[str, BeforeValidator(_warehouse_url), WithJsonSchema(schema_patterns.WAREHOUSE_URL)]
    tls: Literal["disable", "verify"] | None = None
    ca: Beside | None = None
    schema_: Text = Field(default="public", alias="schema")
    iam_role: Text | None = None
    iam: Iam | None = None
    secret: Text | None = None
    tunnel: Tunnel | None = None
    query_group: Text | None = None
    max_sessions: PositiveInt = 2
    silence: Lasting = timedelta(seconds=60)
    longest_statement: Lasting = timedelta(hours=1)


class Spark(Part):
    master: Text = "local[*]"
    driver_memory: Annotated[str, Field(pattern=r"^\d+[mg]$")] = "1g"
    driver: Literal["mysql", "mariadb"] = "mysql"
    idle_stop: Duration = timedelta(minutes=10)
    conf: dict[str, str] = Field(default_factory=dict)


def _web_url(text: object) -> object:
    address(text, "https", "http")
    return text


def _told(value: object) -> object:
    """Whom to tell, where one address, or a list of them, says no more than that."""
    return [{"url": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value


class Notify(Part):
    url: Annotated[str, BeforeValidator(_web_url), WithJsonSchema(schema_patterns.WEB_URL)]
    channel: Channel = Channel.WEBHOOK
    again: Lasting = timedelta(hours=4)


class Daemon(Part):
    http: Annotated[Address | None, BeforeValidator(listening), WithJsonSchema(schema_patterns.LISTENING)] = Address(
        host="127.0.0.1", port=8080
    )
    token: Text | None = None
    stop_timeout: Duration = timedelta(seconds=60)
    notify: Annotated[tuple[Notify, ...], BeforeValidator(_told)] = ()
    markers: bool = False


class From(Part):
    """`first_run: {from: INSTANT}`; with `by: COLUMN` for a table that is read by its key."""

    instant: Instant = Field(alias="from")
    by: Text | None = None


class Defaults(Part):
    """What a table may say, and what all tables may say at once."""

    every: Every = "5m"
    priority: int = 0
    longest_run: Lasting = timedelta(hours=6)
    batch_rows: PositiveInt = 1_000_000
    max_pending: PositiveInt = 1_000
    max_refused: PositiveInt = MOST_REFUSED
    mode: Mode = Mode.UPSERT
    first_run: Literal["snapshot", "now"] | From = "snapshot"
    start: Instant | None = None
    settle: Duration = timedelta(seconds=60)
    ahead_after: Duration = timedelta(seconds=30)
    deletes: Deletes = Deletes.IGNORE
    metadata: Notes = (Note.BATCH, Note.LOADED_AT)
    grants: Grantees = ()
    fresh_within: Lasting | None = None
    null_cursor: NullCursor = NullCursor.SNAPSHOT_ONLY
    zero_dates: Uncut = Policy.NULL
    oversize: Met = Policy.QUARANTINE
    out_of_range: Uncut = Policy.QUARANTINE
    invalid_text: Uncut = Policy.FAIL

    @model_validator(mode="before")
    @classmethod
    def _one_beginning(cls, found: Any) -> Any:  # noqa: ANN401  # whatever the file holds
        if isinstance(found, dict) and "start" in found and "first_run" in found:
            raise ValueError("`start` is short for `first_run: {from: ...}`: keep one of the two")
        return found

    @property
    def begins_by(self) -> str | None:
        return self.first_run.by if isinstance(self.first_run, From) else None

    @property
    def beginning(self) -> tuple[FirstRun, datetime | None]:
        """How the stream begins, and from when."""
        if self.start is not None:
            return FirstRun.FROM, self.start
        if isinstance(self.first_run, From):
            return FirstRun.FROM, self.first_run.instant
        return FirstRun(self.first_run), None


class Table(Defaults):
    """One table: what it says itself, and what `defaults` says where it is silent."""

    source: Text | None = None
    to: Text | None = None
    target: Text | None = None
    cursor: Text = "update_at"
    cursor_unit: EpochUnit | None = None
    key: Names = ()
    query: Text | None = None
    boolean: Names = ()
    after: Names = ()
    zone: Text | None = None
    distkey: Text | None = None
    sortkey: Names = ()
    encode: dict[Text, Encoding] = Field(default_factory=dict)
    first_query: Text | None = None

    @model_validator(mode="after")
    def _fits(self) -> "Table":
        if self.cursor == "none" and self.mode is not Mode.REPLACE:
            raise ValueError("a table without a cursor is read whole each time: set `mode: replace`")
        if self.mode is Mode.REPLACE and self.cursor != "none":
            raise ValueError("`mode: replace` reads the whole table each time: set `cursor: none`")
        if self.mode is Mode.HISTORY and self.cursor == "id":
            raise ValueError("`mode: history` needs a cursor that tells when a row changed, not `id`")
        if self.query is not None and "${window}" not in self.query:
            raise ValueError("`query` has no ${window}, the place of the condition that picks a batch's rows")
        if self.query is not None and self.cursor != "none" and cuts_short(self.query):
            raise ValueError("`query` has a LIMIT: the rows of a window that it leaves out would count as read")
        return self


class File(Part):
    """The whole file."""

    source: Source | None = None
    sources: dict[Text, Source] = Field(default_factory=dict)
    lake: Lake
    warehouse: Warehouse | None = None
    warehouses: dict[Text, Warehouse] = Field(default_factory=dict)
    spark: Spark = Spark()
    daemon: Daemon = Daemon()
    defaults: dict[str, Any] = Field(default_factory=dict)
    tables: dict[Text, dict[str, Any] | None] = Field(min_length=1)
