"""Which table waits for which: `after` names tables of this file, and no table waits for itself."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from syncd.config.redaction import Path_
from syncd.settings import StreamSettings

Complain = Callable[..., None]


def predecessors(
    streams: Mapping[str, StreamSettings], *, written: Collection[str], complain: Complain
) -> tuple[StreamSettings, ...]:
    """The streams, by their names in the file, with what they wait for as `database.table`; mistakes are told.

    `written` are the names of all tables of the file, those with mistakes too.
    """
    known = {name: stream.name for name, stream in streams.items()}
    found = {name: tuple(_found(name, stream, known, written, complain)) for name, stream in streams.items()}
    if (circle := _circle({known[name]: after for name, after in found.items()})) is not None:
        name = next(name for name in streams if known[name] in circle)
        complain(_place(name), f"waits for itself: {' after '.join(circle)}", "Leave one of these out.")
    return tuple(
        replace(stream, schedule=replace(stream.schedule, after=found[name])) for name, stream in streams.items()
    )


def _found(
    name: str, stream: StreamSettings, known: Mapping[str, str], written: Collection[str], complain: Complain
) -> Iterator[str]:
    for word in stream.schedule.after:
        full = word if word in known.values() else known.get(word)
        if full is not None:
            yield full
        elif word not in written:
            complain(_place(name), f"no table {word!r} is configured", f"There are: {', '.join(known)}.")


def _circle(after: Mapping[str, Sequence[str]]) -> list[str] | None:
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle[::-1]
    return None


def _place(name: str) -> Path_:
    return "tables", name, "after"
