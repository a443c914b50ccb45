"""Types of single values in the model: parser and JSON Schema of each, as far as a pattern can check a value."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from syncd.config.first_file import PLACEHOLDER_BUCKET
from syncd.config.value_parsers import (
    DURATION_PATTERN,
    extract_credentials,
    parse_duration,
    parse_interval_or_cron,
    parse_lenient_instant,
    parse_listen_address,
    parse_positive_duration,
    parse_url,
)
from syncd.datatypes.columns import Policy
from syncd.settings import ListenAddress, MetadataColumn

JsonSchema: TypeAlias = dict[str, Any]

_PORT: Final = "0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST: Final = rf"(\[[0-9A-Fa-f:.]+\]|[^/?#@:\[\]\s]+)(:{_PORT})?"
_USER: Final = r"[^/?#@:]+(:[^/?#]*)?@"
_DAY: Final = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_HOUR: Final = "([01][0-9]|2[0-3])"
_TIME: Final = rf"{_HOUR}:[0-5][0-9](:[0-5][0-9](\.[0-9]{{1,6}})?)?(Z|[+-]{_HOUR}:[0-5][0-9])?"
_MORE_THAN_ZERO: Final = "(?=[^ ]*[1-9])"

_DURATION_SCHEMA: Final = {"type": "string", "pattern": f"^{DURATION_PATTERN}$", "examples": ["30s", "5m", "12h", "7d"]}
_POSITIVE_DURATION_SCHEMA: Final = {**_DURATION_SCHEMA, "pattern": f"^{_MORE_THAN_ZERO}{DURATION_PATTERN}$"}
_INTERVAL_OR_CRON_SCHEMA: Final = {
    "type": "string",
    "pattern": rf"^({_MORE_THAN_ZERO}{DURATION_PATTERN}|\S+( \S+){{4}})$",
    "examples": ["5m", "0 3 * * *"],
}
_INSTANT_SCHEMA: Final = {
    "type": "string",
    "pattern": f"^{_DAY}([T ]{_TIME})?$",
    "examples": ["2026-01-31", "2026-01-31T12:00:00Z"],
}
_SOURCE_URL_SCHEMA: Final = {
    "type": "string",
    "pattern": rf"^(mysql|mariadb)://{_USER}{_HOST}([/?#].*)?$",
    "examples": ["mysql://sync:${MYSQL_PASSWORD}@db.internal:3306/shop"],
}
_LAKE_URL_SCHEMA: Final = {
    "type": "string",
    "pattern": rf"^s3://{_HOST}([/?#].*)?$",
    "examples": ["s3://acme-lake/syncd"],
}
_WAREHOUSE_URL_SCHEMA: Final = {
    "type": "string",
    "pattern": rf"^redshift://([^/?#]*@)?{_HOST}/+[^/?#]+/*([?#].*)?$",
    "examples": ["redshift://loader:${REDSHIFT_PASSWORD}@cluster.internal:5439/dev"],
}
WEB_URL_SCHEMA: Final = {"type": "string", "pattern": rf"^https?://([^/?#]*@)?{_HOST}([/?#].*)?$"}
_LISTEN_ADDRESS_SCHEMA: Final = {
    "anyOf": [{"type": "string", "pattern": f"^.*:0*({_PORT})?$"}, {"enum": ["off", False]}, {"type": "null"}],
    "examples": ["127.0.0.1:8080", "off"],
}
_TEXT_SCHEMA: Final = {"type": "string", "minLength": 1}
_GRANTEE_SCHEMA: Final = {
    "type": "string",
    "pattern": r"^\s*((role|group)\s+\S+|\S+)\s*$",
    "examples": ["role analysts", "group bi"],
}


def _one_or_list(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, {"type": "array", "items": schema}]}


def _enum_of(words: Iterable[str]) -> JsonSchema:
    return {"type": "string", "enum": [str(word) for word in words]}


def _nullable(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, {"type": "null"}]}


Duration = Annotated[timedelta, BeforeValidator(parse_duration), WithJsonSchema(_DURATION_SCHEMA)]
PositiveDuration = Annotated[
    timedelta, BeforeValidator(parse_positive_duration), WithJsonSchema(_POSITIVE_DURATION_SCHEMA)
]
"""Timeout or interval; zero would end every wait at once."""
Instant = Annotated[datetime, BeforeValidator(parse_lenient_instant), WithJsonSchema(_INSTANT_SCHEMA)]
IntervalOrCron = Annotated[
    timedelta | str, BeforeValidator(parse_interval_or_cron), WithJsonSchema(_INTERVAL_OR_CRON_SCHEMA)
]
NonEmptyText = Annotated[str, Field(min_length=1)]


def _expand_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError("no user of this name has a home directory here: write the full path") from error


ConfigRelativePath = Annotated[Path, AfterValidator(_expand_home)]
"""Path of a file, relative to the directory of the configuration; `~` is a home directory."""


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
        raise ValueError(f"{PLACEHOLDER_BUCKET} is the placeholder of `syncd init`: write the name of your bucket")
    return text


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


NameList = Annotated[tuple[NonEmptyText, ...], BeforeValidator(_as_list), WithJsonSchema(_one_or_list(_TEXT_SCHEMA))]


def _parse_grantee(text: object) -> object:
    match text.split() if isinstance(text, str) else []:
        case [_] | ["role" | "group", _] as words:
            return " ".join(words)
    raise ValueError("write `role NAME`, `group NAME`, or the name of a user")


def _parse_encoding(text: object) -> object:
    if isinstance(text, str) and text.lower() in COLUMN_ENCODINGS:
        return text.lower()
    if isinstance(text, str) and text.lower() in {"text255", "text32k"}:
        raise ValueError("a column of this encoding cannot be widened later: use lzo or zstd")
    raise ValueError(f"must be one of {', '.join(COLUMN_ENCODINGS)}")


def _parse_policy(text: object) -> object:
    return Policy.NULL if text is None else text  # an unquoted null of YAML means the policy


ValuePolicy = Annotated[Policy, BeforeValidator(_parse_policy), WithJsonSchema(_nullable(_enum_of(Policy)))]
NoTruncatePolicy = Annotated[
    Literal[Policy.NULL, Policy.QUARANTINE, Policy.FAIL],
    BeforeValidator(_parse_policy),
    WithJsonSchema(_nullable(_enum_of(policy for policy in Policy if policy is not Policy.TRUNCATE))),
]
"""Policy for values that cannot be truncated: all but those that are too long."""
COLUMN_ENCODINGS: Final = tuple("raw az64 bytedict delta delta32k lzo mostly8 mostly16 mostly32 runlength zstd".split())
Grantee = Annotated[str, BeforeValidator(_parse_grantee), WithJsonSchema(_GRANTEE_SCHEMA)]
Grantees = Annotated[tuple[Grantee, ...], BeforeValidator(_as_list), WithJsonSchema(_one_or_list(_GRANTEE_SCHEMA))]
MetadataColumns = Annotated[
    tuple[MetadataColumn, ...], BeforeValidator(_as_list), WithJsonSchema(_one_or_list(_enum_of(MetadataColumn)))
]
Encoding = Annotated[
    str,
    BeforeValidator(_parse_encoding),
    WithJsonSchema(_enum_of((*COLUMN_ENCODINGS, *map(str.upper, COLUMN_ENCODINGS)))),
]


def _check_web_url(text: object) -> object:
    parse_url(text, "https", "http")
    return text


SourceUrl = Annotated[str, BeforeValidator(_check_source_url), WithJsonSchema(_SOURCE_URL_SCHEMA)]
LakeUrl = Annotated[str, BeforeValidator(_check_lake_url), WithJsonSchema(_LAKE_URL_SCHEMA)]
WarehouseUrl = Annotated[str, BeforeValidator(_check_warehouse_url), WithJsonSchema(_WAREHOUSE_URL_SCHEMA)]
WebUrl = Annotated[str, BeforeValidator(_check_web_url), WithJsonSchema(WEB_URL_SCHEMA)]
OptionalListenAddress = Annotated[
    ListenAddress | None, BeforeValidator(parse_listen_address), WithJsonSchema(_LISTEN_ADDRESS_SCHEMA)
]
