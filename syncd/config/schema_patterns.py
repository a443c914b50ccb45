"""JSON Schema patterns for the values that `value_parsers` reads, as far as a regular expression can check them."""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from syncd.config.value_parsers import DURATION_PATTERN

JsonSchema: TypeAlias = dict[str, Any]

REFERENCE_PATTERN: Final = r"\$\{(?!window\})"
"""Start of a reference such as `${NAME}`. `${window}` is none: in a `query` it is the place of a batch's condition."""
_PORT: Final = "0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST: Final = rf"(\[[0-9A-Fa-f:.]+\]|[^/?#@:\[\]\s]+)(:{_PORT})?"
_USER: Final = r"[^/?#@:]+(:[^/?#]*)?@"
_DAY: Final = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_HOUR: Final = "([01][0-9]|2[0-3])"
_TIME: Final = rf"{_HOUR}:[0-5][0-9](:[0-5][0-9](\.[0-9]{{1,6}})?)?(Z|[+-]{_HOUR}:[0-5][0-9])?"
_MORE_THAN_ZERO: Final = "(?=[^ ]*[1-9])"

DURATION_SCHEMA: Final = {"type": "string", "pattern": f"^{DURATION_PATTERN}$", "examples": ["30s", "5m", "12h", "7d"]}
POSITIVE_DURATION_SCHEMA: Final = {**DURATION_SCHEMA, "pattern": f"^{_MORE_THAN_ZERO}{DURATION_PATTERN}$"}
INTERVAL_OR_CRON_SCHEMA: Final = {
    "type": "string",
    "pattern": rf"^({_MORE_THAN_ZERO}{DURATION_PATTERN}|\S+( \S+){{4}})$",
    "examples": ["5m", "0 3 * * *"],
}
INSTANT_SCHEMA: Final = {
    "type": "string",
    "pattern": f"^{_DAY}([T ]{_TIME})?$",
    "examples": ["2026-01-31", "2026-01-31T12:00:00Z"],
}
SOURCE_URL_SCHEMA: Final = {
    "type": "string",
    "pattern": rf"^(mysql|mariadb)://{_USER}{_HOST}([/?#].*)?$",
    "examples": ["mysql://sync:${MYSQL_PASSWORD}@db.internal:3306/shop"],
}
LAKE_URL_SCHEMA: Final = {
    "type": "string",
    "pattern": rf"^s3://{_HOST}([/?#].*)?$",
    "examples": ["s3://acme-lake/syncd"],
}
WAREHOUSE_URL_SCHEMA: Final = {
    "type": "string",
    "pattern": rf"^redshift://([^/?#]*@)?{_HOST}/+[^/?#]+/*([?#].*)?$",
    "examples": ["redshift://loader:${REDSHIFT_PASSWORD}@cluster.internal:5439/dev"],
}
WEB_URL_SCHEMA: Final = {"type": "string", "pattern": rf"^https?://([^/?#]*@)?{_HOST}([/?#].*)?$"}
LISTEN_ADDRESS_SCHEMA: Final = {
    "anyOf": [{"type": "string", "pattern": f"^.*:0*({_PORT})?$"}, {"enum": ["off", False]}, {"type": "null"}],
    "examples": ["127.0.0.1:8080", "off"],
}
TEXT_SCHEMA: Final = {"type": "string", "minLength": 1}
GRANTEE_SCHEMA: Final = {
    "type": "string",
    "pattern": r"^\s*((role|group)\s+\S+|\S+)\s*$",
    "examples": ["role analysts", "group bi"],
}


def one_or_list(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, {"type": "array", "items": schema}]}


def enum_of(words: Iterable[str]) -> JsonSchema:
    return {"type": "string", "enum": [str(word) for word in words]}


def nullable(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, {"type": "null"}]}
