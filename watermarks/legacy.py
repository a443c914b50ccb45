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

from watermarks.codec import Damaged, Foreign, parse
from watermarks.cursor import Cursor
from watermarks.document import Status
from watermarks.errors import Misuse
from watermarks.names import StreamName

_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d{1,9})?\s*(Z|UTC|[+-]\d\d:?\d\d)?")
_CURRENT: Final = frozenset({"format", "format_version", "digest", "revision"})
"""What every current document has and no older one: a current one that lost any of them is still none of these."""
_NOT_OURS: Final = "Only documents of the s3-redshift-backup-tool can be imported this way."


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
class Legacy:
    """What a document of the earlier tool says of one table."""

    form: LegacyForm
    table: str | None
    """As written there: `database.table`, perhaps with the name of a connection and a colon before it."""
    timestamp: datetime | None
    """How far data was extracted; a time without a zone is taken as UTC, as that tool took it."""
    key: int | None
    rows_extracted: int
    rows_loaded: int
    mysql_status: Status
    redshift_status: Status
    files: tuple[str, ...]
    manual: bool
    last_error: str | None
    text: str
    """The document word by word: the evidence of an import."""

    @property
    def cursor(self) -> Cursor:
        """The position it stands for. That tool read `>` and lost ties: an instant alone has them read again."""
        if self.timestamp is not None:
            return Cursor.of(self.timestamp)
        return Cursor() if self.key is None else Cursor.of(self.key)

    def is_of(self, stream: StreamName) -> bool:
        """Whether it may be this table's: it names it, perhaps between a connection and a target, or names none."""
        names = (self.table or "").lower().split(":")
        return not self.table or f"{stream.database}.{stream.table}".lower() in names

    def require_table(self, stream: StreamName) -> None:
        """Make sure that it is this table's.

        Raises:
            Misuse: it names another one.
        """
        if not self.is_of(stream):
            raise Misuse(f"that document is of {self.table}, not of {stream}", hint="Import each table from its own.")


def read_legacy(body: bytes, *, at: str) -> Legacy:
    """The table's document in the bytes, of whichever older form.

    Raises:
        Foreign: it is of no such form: a current document, for one.
        Damaged: it is, and is broken or contradicts itself.
    """
    fields = parse(body, at=at)
    read = _Old(fields, at=at)
    text = body.decode()
    if not _CURRENT.isdisjoint(fields):
        raise Foreign(f"{at} is a current document, not one of the earlier tool", hint=_NOT_OURS)
    if "mysql_state" in fields and "redshift_state" in fields:
        return _states(read, text)
    if "last_mysql_data_timestamp" in fields and "mysql_status" in fields:
        return _flat(read, text)
    raise Foreign(f"{at} is no document of the earlier tool", hint=_NOT_OURS)


def read_legacy_system(body: bytes, *, at: str) -> datetime:
    """The instant in the system-wide text object.

    Raises:
        Damaged: there is none.
    """
    return _moment(_text_of(body, at=at).strip().strip('"'), at=at)


def read_legacy_text(body: bytes, *, at: str) -> Legacy:
    """The system-wide text object as what it says of each table that has no document of its own.

    Raises:
        Damaged: there is no instant in it.
    """
    return Legacy(
        form=LegacyForm.SYSTEM,
        table=None,
        timestamp=read_legacy_system(body, at=at),
        key=None,
        rows_extracted=0,
        rows_loaded=0,
        mysql_status=Status.PENDING,
        redshift_status=Status.PENDING,
        files=(),
        manual=False,
        last_error=None,
        text=_text_of(body, at=at),
    )


def _text_of(body: bytes, *, at: str) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Damaged(f"{at} is no text", hint=_NOT_OURS) from error


def _flat(read: "_Old", text: str) -> Legacy:
    table = read.text("table_name")
    return Legacy(
        form=LegacyForm.FLAT if table else LegacyForm.MANUAL,
        table=table,
        timestamp=read.moment("last_mysql_data_timestamp"),
        key=read.maybe_count("last_processed_id"),
        rows_extracted=read.count("mysql_rows_extracted"),
        rows_loaded=read.count("redshift_rows_loaded"),
        mysql_status=read.status("mysql_status"),
        redshift_status=read.status("redshift_status"),
        files=read.texts("processed_s3_files"),
        manual=read.text("backup_strategy") == "manual_cli" or read.inner("metadata").flag("manual_watermark"),
        last_error=read.text("last_error"),
        text=text,
    )


def _states(read: "_Old", text: str) -> Legacy:
    if (version := read.text("version")) != LegacyForm.STATES:
        raise Foreign(f"{read.at} has version {version!r} of the older form, only 2.0 is known", hint=_NOT_OURS)
    mysql, redshift = read.inner("mysql_state"), read.inner("redshift_state")
    return Legacy(
        form=LegacyForm.STATES,
        table=read.text("table_name"),
        timestamp=mysql.moment("last_timestamp"),
        key=mysql.maybe_count("last_id"),
        rows_extracted=mysql.count("total_rows"),
        rows_loaded=redshift.count("total_rows"),
        mysql_status=mysql.status("status"),
        redshift_status=redshift.status("status"),
        files=read.texts("processed_files"),
        manual=read.inner("metadata").flag("manual_override"),
        last_error=mysql.text("error") or redshift.text("error"),
        text=text,
    )


def _moment(text: str, *, at: str) -> datetime:
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise Damaged(f"{at}: {text[:60]!r} is no moment", hint="Set the mark by hand: syncd watermark set")
    date, time, fraction, zone = match.groups()
    offset = "+00:00" if zone in {None, "Z", "UTC"} else zone
    try:
        # Digits beyond microseconds are cut: an earlier mark reads again, a later one would lose.
        moment = datetime.fromisoformat(f"{date}T{time}{(fraction or '')[:7]}{offset}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Damaged(f"{at}: {text[:60]!r} is no moment of the calendar") from error
    return moment


class _Old:
    """Reads fields that may be absent, as older writers left them out, but never of a wrong type."""

    def __init__(self, fields: Mapping[str, Any], *, at: str) -> None:
        self._fields = fields
        self.at = at

    def text(self, name: str) -> str | None:
        found = self._fields.get(name)
        if found is not None and not isinstance(found, str):
            raise self._wrong(name, found)
        return found or None

    def moment(self, name: str) -> datetime | None:
        text = self.text(name)
        return _moment(text, at=f"{self.at}: {name}") if text else None

    def maybe_count(self, name: str) -> int | None:
        found = self._fields.get(name)
        if found is not None and (type(found) is not int or found < 0):
            raise self._wrong(name, found)
        return found

    def count(self, name: str) -> int:
        return self.maybe_count(name) or 0

    def flag(self, name: str) -> bool:
        found = self._fields.get(name, False)
        if not isinstance(found, bool):
            raise self._wrong(name, found)
        return found

    def status(self, name: str) -> Status:
        text = self.text(name) or Status.PENDING
        try:
            return Status(text)
        except ValueError as error:
            raise self._wrong(name, text) from error

    def texts(self, name: str) -> tuple[str, ...]:
        found = self._fields.get(name)
        if found is not None and not isinstance(found, list):
            raise self._wrong(name, found)
        items = cast("list[Any]", found or [])
        if not all(isinstance(item, str) for item in items):
            raise self._wrong(name, items)
        return tuple(items)

    def inner(self, name: str) -> "_Old":
        found = self._fields.get(name)
        if found is not None and not isinstance(found, dict):
            raise self._wrong(name, found)
        return _Old(cast("dict[str, Any]", found or {}), at=f"{self.at}: {name}")

    def _wrong(self, name: str, found: object) -> Damaged:
        return Damaged(
            f"{self.at}: {name} is {str(found)[:60]!r}",
            hint="Mend or remove it, or set the mark by hand: syncd watermark set",
        )
