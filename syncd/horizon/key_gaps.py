"""Tables that only grow: which keys are complete, although they are committed out of order."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from syncd.ports.source import Horizon
from watermarks.codec import Damaged, Fields, blamed, seal, unseal
from watermarks.cursor import Cursor, instant_of, instant_text

FORMAT: Final = "syncd/growing"
VERSION: Final = 1
MOST_NOTES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The last key of a table, as it stood before an instant of the server's clock."""

    high: Cursor
    before: datetime
    server: str = ""
    """Whose clock that is, and where a person began anew, which of its tables was seen."""


class Notes(Protocol):
    """What was seen of a growing table; kept where a restart finds it, a restart costs no waiting."""

    def read(self) -> tuple[Seen, ...]: ...

    def write(self, seen: tuple[Seen, ...]) -> None:
        """Keep these; that it failed is no error, for whoever knows less only waits longer."""
        ...


@dataclass
class Remembered:
    """Notes for as long as a process lives."""

    kept: tuple[Seen, ...] = ()

    def read(self) -> tuple[Seen, ...]:
        return self.kept

    def write(self, seen: tuple[Seen, ...]) -> None:
        self.kept = seen


def complete(notes: Notes, horizon: Horizon, *, made: datetime | None = None) -> Cursor | None:
    """The highest key below which nothing can be missing any more.

    Whoever holds a number below one that was seen had drawn it before, by a
    statement that had begun before: once the horizon has passed the instant, it
    has ended. What was seen before the table was `made` is of another one.
    """
    told, bound = notes.read(), horizon.bound
    seen = tuple(note for note in told if made is None or note.before >= made)
    passed = [] if bound is None else [note for note in seen if note.before <= bound]
    kept = (*passed[-1:], *(note for note in seen if note not in passed))
    if kept != told:
        notes.write(kept)
    return passed[-1].high if passed else None


def noted(notes: Notes, seen: Seen) -> None:
    """Keep what was seen; of many, every second one, for a later one stands for those before it."""
    before = notes.read()
    kept = tuple(note for note in before if note.server == seen.server)
    if not kept or kept[-1].high != seen.high:  # seen again, it was complete as early as before
        kept = (*kept, seen)
    if kept != before:
        notes.write(kept if len(kept) <= MOST_NOTES else (*kept[:-1:2], kept[-1]))


def to_bytes(seen: tuple[Seen, ...]) -> bytes:
    """The notes as a document."""
    return seal(FORMAT, VERSION, {"seen": [_fields(each) for each in seen]})


def of_bytes(body: bytes, *, at: str) -> tuple[Seen, ...]:
    """The notes in a document.

    Raises:
        StateUnreadable: there are none.
    """
    read = Fields(unseal(body, FORMAT, VERSION, at=at), at=at)
    with blamed(at):
        try:
            seen = tuple(map(_seen, read.items("seen")))
        except (TypeError, LookupError) as error:
            raise Damaged(f"{at} holds a value of the wrong shape") from error
    read.known()
    return seen


def _fields(seen: Seen) -> dict[str, Any]:
    return {"high": seen.high.texts(), "before": instant_text(seen.before), "server": seen.server}


def _seen(found: Mapping[str, Any]) -> Seen:
    return Seen(high=Cursor.of_texts(found["high"]), before=instant_of(found["before"]), server=str(found["server"]))
