"""Documents of the earlier tool, read for an import only; a stage never takes one for a current document.

There are four forms: the flat document with counts and files, the shorter flat
one of the manual commands, version 2.0 with a state for each side, and the
system-wide text object. Each has distinguishing fields; a document that fits
none of the forms, or contradicts itself, is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

from watermarks.codec import DamagedDocument, ForeignDocument, parse_json_object
from watermarks.cursor import Cursor
from watermarks.document import StageStatus
from watermarks.errors import Misuse
from watermarks.names import StreamName

_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,9})?\s*(Z|UTC|[+-]\d\d:?\d\d)?")
_CURRENT: Final = frozenset({"format", "format_version", "digest", "revision"})
"""Fields of every current document and of no older one; one of them is enough to tell a current document."""
_UNSUPPORTED_HINT: Final = "Only documents of s3-redshift-backup-tool can be imported this way."


T = TypeVar("T")


class LegacyForm(StrEnum):
    """Form of a document of the earlier tool."""

    FLAT = "flat"
    """One level, with counts and the list of processed files."""
    MANUAL = "flat, without a table's name"
    """Document of the manual commands: marks and states, no counts."""
    STATES = "2.0"
    """`watermarks/v2/`: a state for MySQL and one for Redshift."""
    SYSTEM = "system-wide text"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyWatermark:
    """Content of a document of the earlier tool for one table."""

    form: LegacyForm
    table: str | None
    """As in the document: `database.table`, with an optional name of a connection and a colon before it."""
    timestamp: datetime | None
    """Extracted mark; a time without a zone is UTC, as in the earlier tool."""
    last_id: int | None
    rows_extracted: int
    rows_loaded: int
    mysql_status: StageStatus
    redshift_status: StageStatus
    files: tuple[str, ...]
    is_manual: bool
    last_error: str | None
    text: str
    """The document verbatim, as evidence of an import."""

    @property
    def cursor(self) -> Cursor:
        """Position of the mark. The earlier tool lost ties by reading with `>`; an instant alone reads them again."""
        if self.timestamp is not None:
            return Cursor.from_values(self.timestamp)
        return Cursor() if self.last_id is None else Cursor.from_values(self.last_id)

    def matches_stream(self, stream: StreamName) -> bool:
        """Return True if it names this table, possibly between a connection and a target, or names none."""
        names = (self.table or "").lower().split(":")
        return not self.table or f"{stream.table_name}".lower() in names

    def require_table(self, stream: StreamName) -> None:
        """Refuse the document of another table. Raises Misuse if it names another table."""
        if not self.matches_stream(stream):
            raise Misuse(
                f"the document is of {self.table}, not of {stream}", hint="Import each table from its own document."
            )


def read_legacy_watermark(body: bytes, *, location: str) -> LegacyWatermark:
    """Decode a table's document of any of the older forms.

    Raises:
        ForeignDocument: it has none of these forms, such as a current document.
        DamagedDocument: it is broken or contradicts itself.
    """
    fields = parse_json_object(body, location=location)
    read = _LegacyFieldReader(fields, location=location)
    text = body.decode()
    if not _CURRENT.isdisjoint(fields):
        raise ForeignDocument(f"{location} is a current document, not one of the earlier tool", hint=_UNSUPPORTED_HINT)
    if "mysql_state" in fields and "redshift_state" in fields:
        return _read_states_form(read, text)
    if "last_mysql_data_timestamp" in fields and "mysql_status" in fields:
        return _read_flat_form(read, text)
    raise ForeignDocument(f"{location} is not a document of the earlier tool", hint=_UNSUPPORTED_HINT)


def read_legacy_system_watermark(body: bytes, *, location: str) -> LegacyWatermark:
    """Decode the system-wide text object, which holds for each table without a document of its own.

    Raises:
        DamagedDocument: there is no instant in it.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise DamagedDocument(f"{location} is not text", hint=_UNSUPPORTED_HINT) from error
    return LegacyWatermark(
        form=LegacyForm.SYSTEM,
        table=None,
        timestamp=_parse_moment(text.strip().strip('"'), location=location),
        last_id=None,
        rows_extracted=0,
        rows_loaded=0,
        mysql_status=StageStatus.PENDING,
        redshift_status=StageStatus.PENDING,
        files=(),
        is_manual=False,
        last_error=None,
        text=text,
    )


def _read_flat_form(reader: "_LegacyFieldReader", text: str) -> LegacyWatermark:
    table = reader.text("table_name")
    return LegacyWatermark(
        form=LegacyForm.FLAT if table else LegacyForm.MANUAL,
        table=table,
        timestamp=reader.instant("last_mysql_data_timestamp"),
        last_id=reader.optional_count("last_processed_id"),
        rows_extracted=reader.count("mysql_rows_extracted"),
        rows_loaded=reader.count("redshift_rows_loaded"),
        mysql_status=reader.status("mysql_status"),
        redshift_status=reader.status("redshift_status"),
        files=reader.texts("processed_s3_files"),
        is_manual=reader.text("backup_strategy") == "manual_cli" or reader.mapping("metadata").flag("manual_watermark"),
        last_error=reader.text("last_error"),
        text=text,
    )


def _read_states_form(reader: "_LegacyFieldReader", text: str) -> LegacyWatermark:
    if (version := reader.text("version")) != LegacyForm.STATES:
        raise ForeignDocument(
            f"{reader.at} has version {version!r} of the older format; only version 2.0 is supported",
            hint=_UNSUPPORTED_HINT,
        )
    mysql, redshift = reader.mapping("mysql_state"), reader.mapping("redshift_state")
    return LegacyWatermark(
        form=LegacyForm.STATES,
        table=reader.text("table_name"),
        timestamp=mysql.instant("last_timestamp"),
        last_id=mysql.optional_count("last_id"),
        rows_extracted=mysql.count("total_rows"),
        rows_loaded=redshift.count("total_rows"),
        mysql_status=mysql.status("status"),
        redshift_status=redshift.status("status"),
        files=reader.texts("processed_files"),
        is_manual=reader.mapping("metadata").flag("manual_override"),
        last_error=mysql.text("error") or redshift.text("error"),
        text=text,
    )


def _parse_moment(text: str, *, location: str) -> datetime:
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise DamagedDocument(
            f"{location}: {text[:60]!r} is not a date and time", hint="Set the mark by hand: syncd watermark set"
        )
    date, time, fraction, zone = match.groups()
    offset = "+00:00" if zone in {None, "Z", "UTC"} else zone
    try:
        # Digits beyond microseconds are cut: an earlier mark reads rows again, a later one would lose rows.
        return datetime.fromisoformat(f"{date}T{time}{(fraction or '')[:7]}{offset}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise DamagedDocument(f"{location}: {text[:60]!r} is not a valid date and time") from error


class _LegacyFieldReader:
    """Reader of fields that may be absent, as older writers omitted them, but may not have a wrong type."""

    def __init__(self, fields: Mapping[str, Any], *, location: str) -> None:
        self._fields = fields
        self.at = location

    def text(self, name: str) -> str | None:
        return self._read(name, str) or None

    def instant(self, name: str) -> datetime | None:
        text = self.text(name)
        return _parse_moment(text, location=f"{self.at}: {name}") if text else None

    def optional_count(self, name: str) -> int | None:
        number = self._read(name, int)
        if number is not None and number < 0:
            raise self._wrong_value_error(name, number)
        return number

    def count(self, name: str) -> int:
        return self.optional_count(name) or 0

    def flag(self, name: str) -> bool:
        value = self._fields.get(name, False)
        if not isinstance(value, bool):
            raise self._wrong_value_error(name, value)
        return value

    def status(self, name: str) -> StageStatus:
        text = self.text(name) or StageStatus.PENDING
        try:
            return StageStatus(text)
        except ValueError as error:
            raise self._wrong_value_error(name, text) from error

    def texts(self, name: str) -> tuple[str, ...]:
        items = cast("list[Any]", self._read(name, list) or [])
        if not all(isinstance(item, str) for item in items):
            raise self._wrong_value_error(name, items)
        return tuple(items)

    def mapping(self, name: str) -> "_LegacyFieldReader":
        fields = cast("dict[str, Any]", self._read(name, dict) or {})
        return _LegacyFieldReader(fields, location=f"{self.at}: {name}")

    def _read(self, name: str, kind: type[T]) -> T | None:
        value = self._fields.get(name)
        if value is not None and type(value) is not kind:
            raise self._wrong_value_error(name, value)
        return value

    def _wrong_value_error(self, name: str, value: object) -> DamagedDocument:
        return DamagedDocument(
            f"{self.at}: {name} is {str(value)[:60]!r}",
            hint="Correct or remove it, or set the mark by hand: syncd watermark set",
        )
