"""Errors of Redshift and its driver: which are retried, which mean waiting, and which need a person.

SQLSTATE alone is not enough, because most errors are XX000; the number and the message decide.
"""

import re
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from syncd.errors import CommitUnknown, FileRefused, RowRefused, TransactionConflict, WarehouseDown, WarehouseUnfit
from syncd.redshift.quoting import quote_name
from watermarks.errors import HintedError

PROTOCOL_ERRORS: Final = (struct.error, IndexError, KeyError, ValueError)
"""Errors of the driver for bytes that are not Redshift's protocol."""


class ObjectMissing(WarehouseUnfit):
    """A table, schema or database that a statement names does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAddress:
    """Server, database and user of a session, for error messages."""

    host: str
    port: int
    database: str
    user: str

    def __str__(self) -> str:
        return f"Redshift at {self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """Error of the server, parsed."""

    state: str
    """SQLSTATE."""
    number: int
    """Redshift's own number, from the message or from the block below it; 0: none."""
    message: str
    """The message, with the context."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> "ServerError":
        message, detail = fields.get("M", "").strip(), fields.get("D", "").strip()
        block = {name: value.strip() for name, value in _DETAIL_FIELD.findall(detail)}
        number = block.get("code") or (message if message.isdigit() else "0")
        context = block.get("context", "" if block else detail)
        text = message if not context or context in message else f"{message}: {context}"
        digits = re.match(r"\d+", number)
        return cls(state=fields.get("C", ""), number=int(digits[0]) if digits else 0, message=" ".join(text.split()))

    @property
    def message_without_names(self) -> str:
        """The message without names: a table may be named like an error."""
        return _QUOTED_NAMES.sub("''", self.message)


_QUOTED_NAMES: Final = re.compile(r"(?:https?|s3)://[^\s'\"]+|'[^']*'|\"[^\"]*\"")
_DETAIL_FIELD: Final = re.compile(
    r"^\s*(error|code|context|query):(.*?)(?=^\s*(?:\w+:|-{5})|\Z)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRule:
    """Error class for errors with one of these numbers or states, or a matching message."""

    error_class: type[HintedError]
    pattern: str = ""
    numbers: frozenset[int] = frozenset()
    states: tuple[str, ...] = ()
    """Prefixes of SQLSTATEs."""

    def matches(self, error: ServerError) -> bool:
        return (
            error.number in self.numbers
            or error.state.startswith(self.states or ("-",))
            or bool(self.pattern and re.search(self.pattern, error.message_without_names, re.IGNORECASE))
        )


# The first rule that matches decides.
ERROR_RULES: Final = (
    # A rule of the queue that ended a statement would end it again.
    ErrorRule(error_class=WarehouseUnfit, pattern=r"query monitoring rule|by wlm abort"),
    ErrorRule(
        error_class=TransactionConflict,
        numbers=frozenset({1018, 1023, 34510}),
        states=("40", "25P02", "34510", "42P07", "42P12", "55006", "55P03", "57014", "57P01"),
        pattern=r"serializable isolation violation|deadlock detected|cancell?ed on user.?s request|retries exceeded"
        r"|no more data to read|terminat\w+ (the )?connection|could not open relation with oid"
        r"|concurrent(ly)? (updated|transaction)|current transaction is aborted|slow ?down|service unavailable"
        r"|internalerror.*please try again|wlm queue timeout",
    ),
    ErrorRule(
        error_class=WarehouseUnfit,
        states=("28", "3D", "3F", "42501"),
        pattern=r"permission denied|must be (the )?owner|not authorized|access ?denied|unauthorized|status:? ?403"
        r"|password authentication failed|schema \S+ does not exist|database \S+ does not exist"
        r"|permanentredirect|nosuchbucket|expiredtoken|invalidaccesskeyid|signaturedoesnotmatch",
    ),
    ErrorRule(
        error_class=WarehouseDown,
        numbers=frozenset({1016}),
        states=("08", "53", "57P", "58", "25006"),
        pattern=r"disk full|no space left|out of memory|too many (connections|clients)|connection limit"
        r"|(is|was) (starting up|shutting down|paused|resizing|rebooting)|in recovery|read-only",
    ),
    ErrorRule(
        error_class=RowRefused,
        numbers=frozenset({1204, 1212, 1216, 1220, 1224, 8007}),
        states=("22", "23502"),
        pattern=r"longer than the length defined|null value into column|string length exceeds|value too long"
        r"|(invalid|unsupported) utf-?8|multibyte character|exceeds the max(imum)? size|row size"
        r"|numeric (data )?overflow|out of range|json_parse\(\) error|invalid (digit|input)",
    ),
    ErrorRule(
        error_class=FileRefused,
        numbers=frozenset({15001, 15003, 15007}),
        states=("53002",),
        pattern=r"spectrum scan error|incompatible parquet|unmatched number of columns|file entry|manifest"
        r"|nosuchkey|specified key does not exist"
        r"|invalid version number|prefix .* does not exist|load into table \S+ failed|duplicate parquet"
        r"|invalid type length|argument is not supported for|unreachable - invalid type",
    ),
)

# Some errors of a row share its number; only the message distinguishes them.
_FILE_ERROR: Final = re.compile(r"duplicate parquet", re.IGNORECASE)

UNREACHABLE_HINT: Final = (
    "Check that the warehouse is running and reachable from here. To resume a paused cluster: aws redshift"
    " resume-cluster"
)

_ERROR_HINTS: Final = {
    r"query monitoring rule|by wlm abort": (
        "Give the loader a queue without that rule, and set its query group in `warehouse.query_group`."
    ),
    r"must be (?:the )?owner of (?:table|relation) (?P<table>\S+)": "ALTER TABLE {table} OWNER TO {user};",
    r"permission denied for (?:table|relation) (?P<table>\S+)": (
        "GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {user};"
    ),
    r"permission denied for schema (?P<schema>\S+)": "GRANT USAGE, CREATE ON SCHEMA {schema} TO {user};",
    r"permission denied for database|permission denied to create temporary tables": (
        "GRANT TEMP, CREATE ON DATABASE {database} TO {user};"
    ),
    r'schema "?(?P<schema>[^"\s]+)"? does not exist': (
        "CREATE SCHEMA {schema} AUTHORIZATION {user};  or correct `warehouse.schema`."
    ),
    r"database \S+ does not exist": "Check the database name at the end of `warehouse.url`.",
    r"password authentication failed|28000": (
        "Check the user and the password. To set a new one: ALTER USER {user} PASSWORD '...';"
    ),
    r"not authorized to (?:assume|get credentials)|assumerole": (
        "Attach the role of `warehouse.iam_role` to the cluster or namespace, and let it trust redshift.amazonaws.com."
    ),
    r"access ?denied|unauthorized|status:? ?403|signaturedoesnotmatch|invalidaccesskeyid|expiredtoken": (
        "Let the role of `warehouse.iam_role` read the lake: s3:GetObject, s3:ListBucket, and kms:Decrypt for a key."
    ),
    r"permanentredirect": "COPY of Parquet needs a bucket in the region of the warehouse.",
    r"nosuchbucket": "Check the bucket name in `lake.url`.",
    r'relation "?(?P<table>[^"\s]+)"? does not exist|(?:cannot find|no such) table': (
        "Check whether the table was dropped or renamed, and `warehouse.schema`."
    ),
    r"disk full|no space left": (
        'List the largest tables: SELECT "table", size FROM svv_table_info ORDER BY size DESC LIMIT 10;  Or resize it.'
    ),
    r"too many (?:connections|clients)|connection limit": (
        "List the sessions: SELECT user_name, count(*) FROM stv_sessions GROUP BY 1;"
    ),
    r"(?:is|was) paused": "Resume it: aws redshift resume-cluster --cluster-identifier ...",
}
"""Patterns and hints for errors that need a person; the first pattern that matches decides."""


def map_server_error(fields: Mapping[str, str], address: SessionAddress, *, sql: str = "") -> HintedError:
    """Map an error of the server to an error of ours; secrets of the statement are masked."""
    error = ServerError.from_fields(fields)
    error_class = classify_error(error)
    message = mask_secrets(error.message, sql)
    facts: dict[str, Any] = {"code": error.state, "number": error.number}
    if issubclass(error_class, (RowRefused, FileRefused)):
        facts |= {**parse_load_error(message), "reason": message}
        is_copy = sql.lstrip()[:4].upper() == "COPY"
        return error_class(f"{address}: COPY: {message}" if is_copy else f"{address}: {message}", **facts)
    if error_class is WarehouseUnfit and "does not exist" in message:
        error_class = ObjectMissing
    return error_class(f"{address} refuses: {message}", hint=_hint(message, address), **facts)


def classify_error(error: ServerError) -> type[HintedError]:
    """Return the error class; an unknown error needs a person."""
    if _FILE_ERROR.search(error.message_without_names):
        return FileRefused
    return next((rule.error_class for rule in ERROR_RULES if rule.matches(error)), WarehouseUnfit)


def _hint(message: str, address: SessionAddress) -> str:
    for pattern, hint in _ERROR_HINTS.items():
        if match := re.search(pattern, message, re.IGNORECASE):
            names = {name: value for name, value in match.groupdict().items() if value}
            return hint.format(
                user=_quote_if_needed(address.user), database=_quote_if_needed(address.database), **names
            )
    return ""


def _quote_if_needed(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else quote_name(name)


def server_error_fields(error: BaseException | None) -> dict[str, str] | None:
    """Return the fields of an error that the server sent; None for an error of the driver or the network."""
    first = error.args[0] if error is not None and error.args else None
    return first if isinstance(first, dict) and "M" in first else None


def connection_lost(error: BaseException, address: SessionAddress, *, during: str = "") -> WarehouseDown:
    """Return the error for a broken connection."""
    during = f" {during}" if during else ""
    return WarehouseDown(f"{address}: the connection was lost{during}: {_describe_cause(error)}", hint=UNREACHABLE_HINT)


def _describe_cause(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return getattr(error, "reason", None) or "TLS failed"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return f"the answer could not be parsed ({type(error).__name__})"


def commit_unknown(address: SessionAddress, reason: str) -> CommitUnknown:
    """Return the error for a COMMIT that was sent and not answered."""
    return CommitUnknown(
        f"{address}: {reason} during COMMIT; it is unknown whether the transaction was committed",
        hint="Run it again: the loader reads the ledger first and loads no batch twice.",
    )


_CREDENTIAL_NAMES: Final = (  # names of secrets, not a secret
    r"\b(?:aws_secret_access_key|secret_access_key|aws_access_key_id|access_key_id|session_token|token|password)\b"
)
_SECRET_IN_SQL: Final = re.compile(rf"{_CREDENTIAL_NAMES}\s*(?:=\s*'?([^\s;,'\"&]+)|'([^']*)')", re.IGNORECASE)
_SECRET_IN_URL: Final = re.compile(r"(X-Amz-(?:Signature|Security-Token|Credential)=)[^&\s'\"]+", re.IGNORECASE)
_MIN_SECRET_LENGTH: Final = 6
"""A shorter value is a word and no secret."""


def mask_secrets(text: str, sql: str = "") -> str:
    """Mask the secrets of a statement, and everything with the form of a secret, in a text about the statement."""
    secrets = {unquoted or quoted for unquoted, quoted in _SECRET_IN_SQL.findall(sql)}
    for secret in sorted(secrets, key=len, reverse=True):  # one secret may contain another
        if len(secret) >= _MIN_SECRET_LENGTH:
            text = text.replace(secret, "***")
    text = _SECRET_IN_SQL.sub(lambda match: match[0].replace(match[1] or match[2], "***"), text)
    return _SECRET_IN_URL.sub(r"\1***", text)


_WIDTHS_PATTERN: Final = re.compile(
    r"data column (?P<column>\S+?) is longer.*?Table: (?P<width>\d+), Data: (?P<size>\d+)"
)
_COLUMN_PATTERNS: Final = (
    re.compile(r"data column (?P<column>\S+?) is longer"),
    re.compile(r"NULL value into column (?P<column>[^\s.]+)", re.IGNORECASE),
    re.compile(r"for column '(?:s3://[^']*\.)?(?P<column>[^'./]+)'"),
    re.compile(r"column '(?P<column>[^'./:]+)' has"),
)
_FILE_PATTERN: Final = re.compile(r"(?:File name:|File|file:?|File not found:)\s+'?((?:https?|s3)://[^\s']+)")


def parse_load_error(message: str) -> dict[str, object]:
    """Return file, column and sizes from the message of a failed load; truncated names are left out."""
    facts: dict[str, object] = {}
    if file := _FILE_PATTERN.search(message):
        key = object_key(file[1].rstrip(".,"))
        if key.endswith(".parquet"):
            facts["file"] = key
    if column := next(filter(None, (pattern.search(message) for pattern in _COLUMN_PATTERNS)), None):
        facts["column"] = column["column"]
    if widths := _WIDTHS_PATTERN.search(message):
        facts |= {"width": int(widths["width"]), "size": int(widths["size"])}
    return facts


def object_key(url: str) -> str:
    """Return the key of an object from its URL as Redshift writes it."""
    parts = urlsplit(url.strip())
    path = unquote(parts.path).lstrip("/")
    if parts.scheme == "s3" or not parts.netloc.startswith(("s3.", "s3-")):
        return path
    return path.partition("/")[2]
