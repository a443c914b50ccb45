"""Where one row is, and why: a verdict from what MySQL, the lake and the warehouse say, as far as they were asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from watermarks.batch import BatchId
from watermarks.cursor import START, Cursor, OrderedByDatabase
from watermarks.progress import Loaded


class Place(StrEnum):
    """Where the newest version of a row is, in a word or two."""

    NOT_DUE = "not yet due"
    HELD = "held"
    IN_FILE = "in a file"
    LOADED = "loaded"
    LEFT_OUT = "left out"
    QUARANTINED = "quarantined"
    DELETED = "deleted"
    BEFORE_START = "before the start"
    NEVER_SEEN = "never seen"
    IN_DOUBT = "in doubt"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One version of a row, as a file of the lake has it."""

    batch: BatchId
    rank: BatchId
    """The batch that first read it; another than `batch` where that brought it back from quarantine."""
    file: str
    row: int
    made_at: str
    cursor: str | None = None
    """The value of its order column, as the file has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """One version of a row in quarantine."""

    batch: BatchId
    stage: str
    file: str
    reason: str
    replayed_by: BatchId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AtSource:
    """What MySQL says of the row."""

    asked: bool = False
    there: bool = False
    cursor: Cursor | None = None
    trouble: str = "MySQL was not asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class InTarget:
    """What the warehouse says of the row."""

    asked: bool = False
    rows: int = 0
    batch: BatchId | None = None
    """The batch that read the version which stands there; None where the target does not say."""
    deleted_at: str | None = None
    trouble: str = "the warehouse was not asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that is known of a row."""

    table: str
    key: Mapping[str, str]
    mark: Cursor = START
    began: Cursor = START
    """Where the stream begins: what lies before it was never to be read."""
    whole: bool = True
    """Whether everything in the lake was looked at, and not the newest files only."""
    gone: int = 0
    """Files that could not be looked at, since they are cleaned or lost."""
    half: Loaded = field(default_factory=Loaded)
    source: AtSource = field(default_factory=AtSource)
    target: InTarget = field(default_factory=InTarget)
    sightings: Sequence[Sighting] = ()
    """The newest first."""
    refused: Sequence[Refused] = ()
    buried: BatchId | None = None
    """The newest batch of tombstones that names its key."""
    next_high: Cursor | None = None
    """Up to where the next batch would read; None where it would read nothing."""
    held: str = ""
    """What holds the horizon below the row."""
    landed_at: str = ""
    """When the newest version landed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Where the row is, why, and what comes next."""

    place: Place
    why: str
    next: str = ""


WAIT: Final = "nothing has to be done"


def verdict(facts: Facts) -> Verdict:
    """Where the newest version of the row is."""
    newest = facts.sightings[0] if facts.sightings else None
    if (refused := _waiting(facts, newest)) is not None:
        return _quarantined(facts, refused)
    if (gone := _deleted(facts, newest)) is not None:
        return gone
    if _is_ahead(facts, newest):
        return _due(facts, newest)
    if newest is not None:
        return _seen(facts, newest)
    return _unseen(facts)


def _waiting(facts: Facts, newest: Sighting | None) -> Refused | None:
    waits = [one for one in facts.refused if one.replayed_by is None]
    return next((one for one in waits if newest is None or one.batch >= newest.rank), None)


def _quarantined(facts: Facts, refused: Refused) -> Verdict:
    return Verdict(
        place=Place.QUARANTINED,
        why=f"batch {refused.batch} read it, and the {refused.stage} stage put it aside: {refused.reason}",
        next=f"mend what was wrong, then: syncd quarantine replay -t {facts.table} --batch {refused.batch}",
    )


def _deleted(facts: Facts, newest: Sighting | None) -> Verdict | None:
    if facts.source.there:
        return None
    if facts.target.deleted_at:
        return Verdict(
            place=Place.DELETED,
            why=f"it is gone at the source, and the target keeps it as deleted since {facts.target.deleted_at}",
            next=WAIT,
        )
    if facts.buried is None or (newest is not None and newest.batch > facts.buried):
        return None
    if facts.buried > facts.half.last:
        load = f"syncd run -t {facts.table} --load-only"
        return Verdict(
            place=Place.DELETED, why=f"batch {facts.buried} says that it is gone, and waits to be loaded", next=load
        )
    return Verdict(place=Place.DELETED, why=f"it is gone at the source: batch {facts.buried} buried it", next=WAIT)


def _is_ahead(facts: Facts, newest: Sighting | None) -> bool:
    """Whether the version at the source lies above the mark, and no file has it."""
    cursor = facts.source.cursor
    if cursor is None or not _above(cursor, facts.mark):
        return False
    return newest is None or newest.cursor is None or newest.cursor != _first(cursor)


def _due(facts: Facts, newest: Sighting | None) -> Verdict:
    older = f"; an older version of it was read by batch {newest.rank}" if newest else ""
    cursor = facts.source.cursor
    at = f"it stands at {_first(cursor)} in MySQL, behind the mark {_first(facts.mark) or 'of the beginning'}"
    if facts.held:
        return Verdict(place=Place.HELD, why=f"{at}; the horizon stands below it: {facts.held}{older}", next=WAIT)
    run = f"syncd run -t {facts.table}"
    if cursor is not None and facts.next_high is not None and not _above(cursor, facts.next_high):
        return Verdict(place=Place.NOT_DUE, why=f"{at}: the next batch reads it{older}", next=run)
    return Verdict(place=Place.NOT_DUE, why=f"{at}: a run reads it in its turn{older}", next=run)


def _seen(facts: Facts, newest: Sighting) -> Verdict:
    in_file = f"batch {newest.batch} read it, row {newest.row:,} of {newest.file}"
    if newest.batch > facts.half.last:
        load = f"syncd run -t {facts.table} --load-only"
        return Verdict(place=Place.IN_FILE, why=f"{in_file}; the batch waits to be loaded", next=load)
    if any(newest.batch in span for span in facts.half.skipped):
        again = f"syncd watermark history -t {facts.table}"
        return Verdict(place=Place.LEFT_OUT, why=f"{in_file}, and a person left that batch out", next=again)
    return _landed(facts, newest, in_file)


def _landed(facts: Facts, newest: Sighting, in_file: str) -> Verdict:
    target = facts.target
    at = f" at {facts.landed_at}" if facts.landed_at else ""
    if not target.asked:
        why = f"{in_file}, and the batch has landed{at}, as the mark says; {target.trouble}"
        return Verdict(place=Place.LOADED, why=why, next=WAIT)
    if target.rows == 0:
        return _missing(facts, f"{in_file}, and the batch has landed{at}, yet the target has no such row")
    if target.batch is not None and target.batch > newest.rank:
        newer = f"the target has a newer version, read by batch {target.batch}"
        return Verdict(place=Place.LOADED, why=f"{newer}; {in_file} before", next=WAIT)
    if target.batch is not None and target.batch < newest.rank:
        return _doubt(
            facts, f"{in_file}, and the batch has landed{at}, yet the target has the version of {target.batch}"
        )
    if facts.source.asked and not facts.source.there:
        gone = "MySQL has no such row any more, and the target keeps it"
        return Verdict(place=Place.LOADED, why=f"{in_file}, and it landed{at}; {gone}", next=_compare(facts))
    return Verdict(place=Place.LOADED, why=f"{in_file}, and it landed{at}", next=WAIT)


def _missing(facts: Facts, why: str) -> Verdict:
    if facts.source.asked and not facts.source.there:
        return Verdict(place=Place.DELETED, why=f"{why}, nor has MySQL: it was removed at both", next=WAIT)
    return _doubt(facts, why)


def _doubt(facts: Facts, why: str) -> Verdict:
    return Verdict(place=Place.IN_DOUBT, why=why, next=_compare(facts))


def _compare(facts: Facts) -> str:
    return f"syncd verify -t {facts.table} finds this row and others like it, and with --repair says what mends them"


def _unseen(facts: Facts) -> Verdict:
    source, target = facts.source, facts.target
    if target.rows:
        by = f", read by batch {target.batch}" if target.batch else ""
        files = "its file is cleaned, or was not looked at" if facts.gone or not facts.whole else "no file has it"
        return Verdict(place=Place.LOADED, why=f"the target has it{by}; {files}", next=WAIT)
    if source.asked and not source.there:
        nowhere = "MySQL has no such row" + ("" if facts.whole else ", nor have the newest files")
        return Verdict(place=Place.NEVER_SEEN, why=f"{nowhere}: nobody has ever read it", next="is the key right?")
    if source.cursor is not None and facts.began and not _above(source.cursor, facts.began):
        return Verdict(
            place=Place.BEFORE_START,
            why=f"it stands at {_first(source.cursor)} in MySQL, and the stream begins at {_first(facts.began)}",
            next=f"to read such rows once: syncd run -t {facts.table} --from INSTANT --until INSTANT",
        )
    if not facts.whole or facts.gone:
        missing = (
            f"{facts.gone:,} files are not there any more" if facts.gone else "only the newest files were looked at"
        )
        return Verdict(
            place=Place.UNKNOWN, why=f"no file that was looked at has it; {missing}", next="look at all: --all-files"
        )
    if not source.asked:
        return Verdict(place=Place.UNKNOWN, why=f"no file has it, and {source.trouble}", next="ask again with MySQL")
    why = f"MySQL has it at {_first(source.cursor)}, at or below the mark {_first(facts.mark)}, and no file has it"
    return Verdict(place=Place.IN_DOUBT, why=why, next=_compare(facts))


def _above(cursor: Cursor, mark: Cursor) -> bool:
    """Whether a position is above a mark; what only the database can order is above where it is another."""
    try:
        return cursor > mark
    except OrderedByDatabase:
        return cursor.values[:1] > mark.values[:1] or cursor != mark


def _first(cursor: Cursor | None) -> str:
    return shown(cursor.values[0].plain) if cursor is not None and cursor.values else ""


def shown(value: object) -> str:
    """A value of an order column, alike from MySQL and from a file, where a wall clock's reading passes for UTC."""
    return str(value.replace(tzinfo=None)) if isinstance(value, datetime) else str(value)
