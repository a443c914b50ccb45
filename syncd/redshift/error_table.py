"""What the errors of Redshift and its driver mean: run it again, wait, or have somebody mend something.

SQLSTATE alone does not tell: most errors are XX000. The number and the words beside it do.
"""

import re
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from syncd.errors import CommitUnknown, FileRefused, RowRefused, TransactionConflict, WarehouseDown, WarehouseUnfit
from syncd.redshift.error_hints import ERROR_HINTS, UNREACHABLE_HINT
from watermarks.errors import HintedError

PROTOCOL_ERRORS: Final = (struct.error, IndexError, KeyError, ValueError)
"""What the driver raises over bytes that are no answer of Redshift's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAddress:
    """Where a session is, and as whom: for what its errors say."""

    host: str
    port: int
    database: str
    user: str

    def __str__(self) -> str:
        return f"Redshift at {self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """An error that the server told, taken apart."""

    state: str
    """SQLSTATE."""
    number: int
    """Redshift's own, from the message or from the block below it; 0: none."""
    message: str
    """What it says, with the context that the server cuts."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> "ServerError":
        message, detail = fields.get("M", "").strip(), fields.get("D", "").strip()
        block = {name: told.strip() for name, told in _DETAIL_FIELD.findall(detail)}
        number = block.get("code") or (message if message.isdigit() else "0")
        context = block.get("context", "" if block else detail)
        sentence = message if not context or context in message else f"{message}: {context}"
        digits = re.match(r"\d+", number)
        return cls(
            state=fields.get("C", ""), number=int(digits[0]) if digits else 0, message=" ".join(sentence.split())
        )

    @property
    def message_without_names(self) -> str:
        """The sentence without the names in it: a table may be called after an error."""
        return _QUOTED_NAMES.sub("''", self.message)


_QUOTED_NAMES: Final = re.compile(r"(?:https?|s3)://[^\s'\"]+|'[^']*'|\"[^\"]*\"")
_DETAIL_FIELD: Final = re.compile(
    r"^\s*(error|code|context|query):(.*?)(?=^\s*(?:\w+:|-{5})|\Z)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRule:
    """What a refusal means when its number, its state or its words are these."""

    error_class: type[HintedError]
    pattern: str = ""
    numbers: frozenset[int] = frozenset()
    states: tuple[str, ...] = ()
    """Beginnings of SQLSTATEs."""

    def matches(self, error: ServerError) -> bool:
        return (
            error.number in self.numbers
            or error.state.startswith(self.states or ("-",))
            or bool(self.pattern and re.search(self.pattern, error.message_without_names, re.IGNORECASE))
        )


# The first that fits decides.
ERROR_RULES: Final = (
    # A rule of the queue that ended a statement ends it again.
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

# Told with the same number as what is wrong with a whole file: only the words tell them apart.
_FILE_ERROR: Final = re.compile(r"duplicate parquet", re.IGNORECASE)


def map_server_error(fields: Mapping[str, str], address: SessionAddress, *, sql: str = "") -> HintedError:
    """What an error that the server told says."""
    refusal = ServerError.from_fields(fields)
    means = classify_error(refusal)
    sentence = mask_secrets(refusal.message, sql)
    facts: dict[str, Any] = {"code": refusal.state, "number": refusal.number}
    if issubclass(means, (RowRefused, FileRefused)):
        facts |= {**parse_load_error(sentence), "reason": sentence}
        return means(f"{address}: COPY: {sentence}" if _is_copy(sql) else f"{address}: {sentence}", **facts)
    return means(f"{address} refuses: {sentence}", hint=_hint(sentence, address), **facts)


def classify_error(error: ServerError) -> type[HintedError]:
    """The class of a refusal; one that nobody knows is for a person."""
    if _FILE_ERROR.search(error.message_without_names):
        return FileRefused
    return next((rule.error_class for rule in ERROR_RULES if rule.matches(error)), WarehouseUnfit)


def _is_copy(sql: str) -> bool:
    return sql.lstrip()[:4].upper() == "COPY"


def _hint(sentence: str, address: SessionAddress) -> str:
    for words, hint in ERROR_HINTS:
        if found := re.search(words, sentence, re.IGNORECASE):
            names = {name: told for name, told in found.groupdict().items() if told}
            return hint.format(user=quote_if_needed(address.user), database=quote_if_needed(address.database), **names)
    return ""


def quote_if_needed(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def server_error_fields(error: BaseException | None) -> dict[str, str] | None:
    """The fields of an error that the server told; none of one that the driver or the line made."""
    first = error.args[0] if error is not None and error.args else None
    return first if isinstance(first, dict) and "M" in first else None


def connection_lost(error: BaseException, address: SessionAddress, *, during: str = "") -> WarehouseDown:
    """What a line that broke says."""
    during = f" {during}" if during else ""
    return WarehouseDown(f"{address}: the connection was lost{during}: {_describe_cause(error)}", hint=UNREACHABLE_HINT)


def _describe_cause(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return getattr(error, "reason", None) or "its encryption broke"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return f"its answer could not be read ({type(error).__name__})"


def commit_unknown(address: SessionAddress, reason: str) -> CommitUnknown:
    """COMMIT was sent, and no answer came."""
    return CommitUnknown(
        f"{address}: {reason} while COMMIT was under way: whether it landed is not known yet",
        hint="Run it again: the ledger is asked first, and what landed is not landed twice.",
    )


_CREDENTIAL_NAMES: Final = (  # names of secrets, not a secret
    r"\b(?:aws_secret_access_key|secret_access_key|aws_access_key_id|access_key_id|session_token|token|password)\b"
)
_SECRET_IN_SQL: Final = re.compile(rf"{_CREDENTIAL_NAMES}\s*(?:=\s*'?([^\s;,'\"&]+)|'([^']*)')", re.IGNORECASE)
_SECRET_IN_URL: Final = re.compile(r"(X-Amz-(?:Signature|Security-Token|Credential)=)[^&\s'\"]+", re.IGNORECASE)
_MIN_SECRET_LENGTH: Final = 6
"""What is shorter is a word, and no secret."""


def find_secrets(sql: str) -> list[str]:
    """The secrets that a statement carries, the longest first."""
    found = {one or other for one, other in _SECRET_IN_SQL.findall(sql)}
    return sorted((secret for secret in found if len(secret) >= _MIN_SECRET_LENGTH), key=len, reverse=True)


def mask_secrets(text: str, sql: str = "") -> str:
    """The text without the secrets of the statement that it is about, nor any other that has the form of one."""
    for secret in find_secrets(sql):
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
    """File and column that a sentence of a load names; a name that the server cut is none."""
    found: dict[str, object] = {}
    if file := _FILE_PATTERN.search(message):
        key = object_key(file[1].rstrip(".,"))
        if key.endswith(".parquet"):
            found["file"] = key
    for words in _COLUMN_PATTERNS:
        if column := words.search(message):
            found["column"] = column["column"]
            break
    if widths := _WIDTHS_PATTERN.search(message):
        found |= {"width": int(widths["width"]), "size": int(widths["size"])}
    return found


def object_key(url: str) -> str:
    """The key of an object, from its address as Redshift writes it."""
    parts = urlsplit(url.strip())
    path = unquote(parts.path).lstrip("/")
    if parts.scheme == "s3" or not parts.netloc.startswith(("s3.", "s3-")):
        return path
    return path.partition("/")[2]
