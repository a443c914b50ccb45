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

from syncd.errors import Collided, CommitUnknown, FileRefused, RowRefused, WarehouseDown, WarehouseUnfit
from syncd.redshift.error_hints import AWAY, HINTS
from watermarks.errors import HintedError

STRANGE: Final = (struct.error, IndexError, KeyError, ValueError)
"""What the driver raises over bytes that are no answer of Redshift's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a session is, and as whom: for what its errors say."""

    host: str
    port: int
    database: str
    user: str

    def __str__(self) -> str:
        return f"Redshift at {self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error that the server told, taken apart."""

    state: str
    """SQLSTATE."""
    number: int
    """Redshift's own, from the message or from the block below it; 0: none."""
    sentence: str
    """What it says, with the context that the server cuts."""

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> "Refusal":
        message, detail = fields.get("M", "").strip(), fields.get("D", "").strip()
        block = {name: told.strip() for name, told in _BLOCK.findall(detail)}
        number = block.get("code") or (message if message.isdigit() else "0")
        context = block.get("context", "" if block else detail)
        sentence = message if not context or context in message else f"{message}: {context}"
        digits = re.match(r"\d+", number)
        return cls(
            state=fields.get("C", ""), number=int(digits[0]) if digits else 0, sentence=" ".join(sentence.split())
        )

    @property
    def words(self) -> str:
        """The sentence without the names in it: a table may be called after an error."""
        return _NAMES.sub("''", self.sentence)


_NAMES: Final = re.compile(r"(?:https?|s3)://[^\s'\"]+|'[^']*'|\"[^\"]*\"")
_BLOCK: Final = re.compile(r"^\s*(error|code|context|query):(.*?)(?=^\s*(?:\w+:|-{5})|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a refusal means when its number, its state or its words are these."""

    means: type[HintedError]
    words: str = ""
    numbers: frozenset[int] = frozenset()
    states: tuple[str, ...] = ()
    """Beginnings of SQLSTATEs."""

    def fits(self, refusal: Refusal) -> bool:
        return (
            refusal.number in self.numbers
            or refusal.state.startswith(self.states or ("-",))
            or bool(self.words and re.search(self.words, refusal.words, re.IGNORECASE))
        )


# The first that fits decides.
RULES: Final = (
    # A rule of the queue that ended a statement ends it again.
    Rule(means=WarehouseUnfit, words=r"query monitoring rule|by wlm abort"),
    Rule(
        means=Collided,
        numbers=frozenset({1018, 1023, 34510}),
        states=("40", "25P02", "34510", "42P07", "42P12", "55006", "55P03", "57014", "57P01"),
        words=r"serializable isolation violation|deadlock detected|cancell?ed on user.?s request|retries exceeded"
        r"|no more data to read|terminat\w+ (the )?connection|could not open relation with oid"
        r"|concurrent(ly)? (updated|transaction)|current transaction is aborted|slow ?down|service unavailable"
        r"|internalerror.*please try again|wlm queue timeout",
    ),
    Rule(
        means=WarehouseUnfit,
        states=("28", "3D", "3F", "42501"),
        words=r"permission denied|must be (the )?owner|not authorized|access ?denied|unauthorized|status:? ?403"
        r"|password authentication failed|schema \S+ does not exist|database \S+ does not exist"
        r"|permanentredirect|nosuchbucket|expiredtoken|invalidaccesskeyid|signaturedoesnotmatch",
    ),
    Rule(
        means=WarehouseDown,
        numbers=frozenset({1016}),
        states=("08", "53", "57P", "58", "25006"),
        words=r"disk full|no space left|out of memory|too many (connections|clients)|connection limit"
        r"|(is|was) (starting up|shutting down|paused|resizing|rebooting)|in recovery|read-only",
    ),
    Rule(
        means=RowRefused,
        numbers=frozenset({1204, 1212, 1216, 1220, 1224, 8007}),
        states=("22", "23502"),
        words=r"longer than the length defined|null value into column|string length exceeds|value too long"
        r"|(invalid|unsupported) utf-?8|multibyte character|exceeds the max(imum)? size|row size"
        r"|numeric (data )?overflow|out of range|json_parse\(\) error|invalid (digit|input)",
    ),
    Rule(
        means=FileRefused,
        numbers=frozenset({15001, 15003, 15007}),
        states=("53002",),
        words=r"spectrum scan error|incompatible parquet|unmatched number of columns|file entry|manifest"
        r"|nosuchkey|specified key does not exist"
        r"|invalid version number|prefix .* does not exist|load into table \S+ failed|duplicate parquet"
        r"|invalid type length|argument is not supported for|unreachable - invalid type",
    ),
)

# Told with the same number as what is wrong with a whole file: only the words tell them apart.
_OF_FILES: Final = re.compile(r"duplicate parquet", re.IGNORECASE)


def refused(fields: Mapping[str, str], site: Site, *, sql: str = "") -> HintedError:
    """What an error that the server told says."""
    refusal = Refusal.of(fields)
    means = meaning_of(refusal)
    sentence = masked(refusal.sentence, sql)
    facts: dict[str, Any] = {"code": refusal.state, "number": refusal.number}
    if issubclass(means, (RowRefused, FileRefused)):
        facts |= {**told_of(sentence), "reason": sentence}
        return means(f"{site}: COPY: {sentence}" if _is_copy(sql) else f"{site}: {sentence}", **facts)
    return means(f"{site} refuses: {sentence}", hint=_hint(sentence, site), **facts)


def meaning_of(refusal: Refusal) -> type[HintedError]:
    """The class of a refusal; one that nobody knows is for a person."""
    if _OF_FILES.search(refusal.words):
        return FileRefused
    return next((rule.means for rule in RULES if rule.fits(refusal)), WarehouseUnfit)


def _is_copy(sql: str) -> bool:
    return sql.lstrip()[:4].upper() == "COPY"


def _hint(sentence: str, site: Site) -> str:
    for words, hint in HINTS:
        if found := re.search(words, sentence, re.IGNORECASE):
            names = {name: told for name, told in found.groupdict().items() if told}
            return hint.format(user=quoted(site.user), database=quoted(site.database), **names)
    return ""


def quoted(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def fields_of(error: BaseException | None) -> dict[str, str] | None:
    """The fields of an error that the server told; none of one that the driver or the line made."""
    first = error.args[0] if error is not None and error.args else None
    return first if isinstance(first, dict) and "M" in first else None


def lost(error: BaseException, site: Site, *, during: str = "") -> WarehouseDown:
    """What a line that broke says."""
    during = f" {during}" if during else ""
    return WarehouseDown(f"{site}: the connection was lost{during}: {_why(error)}", hint=AWAY)


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return getattr(error, "reason", None) or "its encryption broke"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return f"its answer could not be read ({type(error).__name__})"


def unknown(site: Site, why: str) -> CommitUnknown:
    """COMMIT was sent, and no answer came."""
    return CommitUnknown(
        f"{site}: {why} while COMMIT was under way: whether it landed is not known yet",
        hint="Run it again: the ledger is asked first, and what landed is not landed twice.",
    )


_KEYS: Final = (
    r"\b(?:aws_secret_access_key|secret_access_key|aws_access_key_id|access_key_id|session_token|token|password)\b"
)
_IN_SQL: Final = re.compile(rf"{_KEYS}\s*(?:=\s*'?([^\s;,'\"&]+)|'([^']*)')", re.IGNORECASE)
_IN_ADDRESS: Final = re.compile(r"(X-Amz-(?:Signature|Security-Token|Credential)=)[^&\s'\"]+", re.IGNORECASE)
_SHORTEST: Final = 6
"""What is shorter is a word, and no secret."""


def secrets_in(sql: str) -> list[str]:
    """The secrets that a statement carries, the longest first."""
    found = {one or other for one, other in _IN_SQL.findall(sql)}
    return sorted((secret for secret in found if len(secret) >= _SHORTEST), key=len, reverse=True)


def masked(text: str, sql: str = "") -> str:
    """The text without the secrets of the statement that it is about, nor any other that has the form of one."""
    for secret in secrets_in(sql):
        text = text.replace(secret, "***")
    text = _IN_SQL.sub(lambda match: match[0].replace(match[1] or match[2], "***"), text)
    return _IN_ADDRESS.sub(r"\1***", text)


_WIDTHS: Final = re.compile(r"data column (?P<column>\S+?) is longer.*?Table: (?P<width>\d+), Data: (?P<size>\d+)")
_COLUMNS: Final = (
    re.compile(r"data column (?P<column>\S+?) is longer"),
    re.compile(r"NULL value into column (?P<column>[^\s.]+)", re.IGNORECASE),
    re.compile(r"for column '(?:s3://[^']*\.)?(?P<column>[^'./]+)'"),
    re.compile(r"column '(?P<column>[^'./:]+)' has"),
)
_FILES: Final = re.compile(r"(?:File name:|File|file:?|File not found:)\s+'?((?:https?|s3)://[^\s']+)")


def told_of(sentence: str) -> dict[str, object]:
    """File and column that a sentence of a load names; a name that the server cut is none."""
    found: dict[str, object] = {}
    if file := _FILES.search(sentence):
        key = key_of(file[1].rstrip(".,"))
        if key.endswith(".parquet"):
            found["file"] = key
    for words in _COLUMNS:
        if column := words.search(sentence):
            found["column"] = column["column"]
            break
    if widths := _WIDTHS.search(sentence):
        found |= {"width": int(widths["width"]), "size": int(widths["size"])}
    return found


def key_of(address: str) -> str:
    """The key of an object, from its address as Redshift writes it."""
    parts = urlsplit(address.strip())
    path = unquote(parts.path).lstrip("/")
    if parts.scheme == "s3" or not parts.netloc.startswith(("s3.", "s3-")):
        return path
    return path.partition("/")[2]
