"""Documents of the earlier tool, read for an import only: no stage ever takes one for a current document.

Four forms exist: the flat document with counts and files, the shorter flat
one of the manual commands, version 2.0 with a state for each side, and the
system-wide text object. Each is known by marks of its own; whatever fits none
of them, or contradicts itself, is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, cast

from watermarks.codec import DamagedDocument, ForeignDocument, parse_json_object
from watermarks.cursor import Cursor
from watermarks.document import StageStatus
from watermarks.errors import Misuse
from watermarks.names import StreamName

_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,9})?\s*(Z|UTC|[+-]\d\d:?\d\d)?")
_CURRENT: Final = frozenset({"format", "format_version", "digest", "revision"})
"""What every current document has and no older one: a current one that lost any of them is still none of these."""
_UNSUPPORTED_HINT: Final = "Only documents of the s3-redshift-backup-tool can be imported this way."


class LegacyForm(StrEnum):
    """Which of the earlier tool's documents it is."""

    FLAT = "flat"
    """One level, with counts and the list of processed files."""
    MANUAL = "flat, without a table's name"
    """What the manual commands wrote: marks and states, no counts."""
    STATES = "2.0"
    """`watermarks/v2/`: a state for MySQL and one for Redshift."""
    SYSTEM = "system-wide text"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyWatermark:
    """What a document of the earlier tool says of one table."""

    form: LegacyForm
    table: str | None
    """As written there: `database.table`, perhaps with the name of a connection and a colon before it."""
    timestamp: datetime | None
    """How far data was extracted; a time without a zone is taken as UTC, as that tool took it."""
    last_id: int | None
    rows_extracted: int
    rows_loaded: int
    mysql_status: StageStatus
    redshift_status: StageStatus
    files: tuple[str, ...]
    is_manual: bool
    last_error: str | None
    text: str
    """The document word by word: the evidence of an import."""

    @property
    def cursor(self) -> Cursor:
        """The position it stands for. That tool read `>` and lost ties: an instant alone has them read again."""
        if self.timestamp is not None:
            return Cursor.from_values(self.timestamp)
        return Cursor() if self.last_id is None else Cursor.from_values(self.last_id)

    def matches_stream(self, stream: StreamName) -> bool:
        """Whether it may be this table's: it names it, perhaps between a connection and a target, or names none."""
        names = (self.table or "").lower().split(":")
        return not self.table or f"{stream.table_name}".lower() in names

    def require_table(self, stream: StreamName) -> None:
        """Make sure that it is this table's.

        Raises:
            Misuse: it names another one.
        """
        if not self.matches_stream(stream):
            raise Misuse(f"that document is of {self.table}, not of {stream}", hint="Import each table from its own.")


def read_legacy_watermark(body: bytes, *, location: str) -> LegacyWatermark:
    """The table's document in the bytes, of whichever older form.

    Raises:
        Foreign: it is of no such form: a current document, for one.
        Damaged: it is, and is broken or contradicts itself.
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
    raise ForeignDocument(f"{location} is no document of the earlier tool", hint=_UNSUPPORTED_HINT)


def read_legacy_system_instant(body: bytes, *, location: str) -> datetime:
    """The instant in the system-wide text object.

    Raises:
        Damaged: there is none.
    """
    return _parse_moment(_decode_text(body, location=location).strip().strip('"'), location=location)


def read_legacy_system_watermark(body: bytes, *, location: str) -> LegacyWatermark:
    """The system-wide text object as what it says of each table that has no document of its own.

    Raises:
        Damaged: there is no instant in it.
    """
    return LegacyWatermark(
        form=LegacyForm.SYSTEM,
        table=None,
        timestamp=read_legacy_system_instant(body, location=location),
        last_id=None,
        rows_extracted=0,
        rows_loaded=0,
        mysql_status=StageStatus.PENDING,
        redshift_status=StageStatus.PENDING,
        files=(),
        is_manual=False,
        last_error=None,
        text=_decode_text(body, location=location),
    )


def _decode_text(body: bytes, *, location: str) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise DamagedDocument(f"{location} is no text", hint=_UNSUPPORTED_HINT) from error


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
            f"{reader.at} has version {version!r} of the older form, only 2.0 is known", hint=_UNSUPPORTED_HINT
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
            f"{location}: {text[:60]!r} is no moment", hint="Set the mark by hand: syncd watermark set"
        )
    date, time, fraction, zone = match.groups()
    offset = "+00:00" if zone in {None, "Z", "UTC"} else zone
    try:
        # Digits beyond microseconds are cut: an earlier mark reads again, a later one would lose.
        moment = datetime.fromisoformat(f"{date}T{time}{(fraction or '')[:7]}{offset}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise DamagedDocument(f"{location}: {text[:60]!r} is no moment of the calendar") from error
    return moment


class _LegacyFieldReader:
    """Reads fields that may be absent, as older writers left them out, but never of a wrong type."""

    def __init__(self, fields: Mapping[str, Any], *, location: str) -> None:
        self._fields = fields
        self.at = location

    def text(self, name: str) -> str | None:
        found = self._fields.get(name)
        if found is not None and not isinstance(found, str):
            raise self._wrong_value_error(name, found)
        return found or None

    def instant(self, name: str) -> datetime | None:
        text = self.text(name)
        return _parse_moment(text, location=f"{self.at}: {name}") if text else None

    def optional_count(self, name: str) -> int | None:
        found = self._fields.get(name)
        if found is not None and (type(found) is not int or found < 0):
            raise self._wrong_value_error(name, found)
        return found

    def count(self, name: str) -> int:
        return self.optional_count(name) or 0

    def flag(self, name: str) -> bool:
        found = self._fields.get(name, False)
        if not isinstance(found, bool):
            raise self._wrong_value_error(name, found)
        return found

    def status(self, name: str) -> StageStatus:
        text = self.text(name) or StageStatus.PENDING
        try:
            return StageStatus(text)
        except ValueError as error:
            raise self._wrong_value_error(name, text) from error

    def texts(self, name: str) -> tuple[str, ...]:
        found = self._fields.get(name)
        if found is not None and not isinstance(found, list):
            raise self._wrong_value_error(name, found)
        items = cast("list[Any]", found or [])
        if not all(isinstance(item, str) for item in items):
            raise self._wrong_value_error(name, items)
        return tuple(items)

    def mapping(self, name: str) -> "_LegacyFieldReader":
        found = self._fields.get(name)
        if found is not None and not isinstance(found, dict):
            raise self._wrong_value_error(name, found)
        return _LegacyFieldReader(cast("dict[str, Any]", found or {}), location=f"{self.at}: {name}")

    def _wrong_value_error(self, name: str, found: object) -> DamagedDocument:
        return DamagedDocument(
            f"{self.at}: {name} is {str(found)[:60]!r}",
            hint="Mend or remove it, or set the mark by hand: syncd watermark set",
        )
