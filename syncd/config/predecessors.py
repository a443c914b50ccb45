"""Which table waits for which: `after` names tables of this file, and no table waits for itself."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from syncd.config.redaction import KeyPath
from syncd.settings import StreamSettings

MistakeCallback = Callable[..., None]


def resolve_predecessors(
    streams: Mapping[str, StreamSettings], *, table_names: Collection[str], report_mistake: MistakeCallback
) -> tuple[StreamSettings, ...]:
    """The streams, by their names in the file, with what they wait for as `database.table`; mistakes are told.

    `written` are the names of all tables of the file, those with mistakes too.
    """
    known = {name: stream.name for name, stream in streams.items()}
    found = {
        name: tuple(_resolve_names(name, stream, known, table_names, report_mistake))
        for name, stream in streams.items()
    }
    if (circle := _find_cycle({known[name]: after for name, after in found.items()})) is not None:
        name = next(name for name in streams if known[name] in circle)
        report_mistake(_after_key_path(name), f"waits for itself: {' after '.join(circle)}", "Leave one of these out.")
    return tuple(
        replace(stream, schedule=replace(stream.schedule, after=found[name])) for name, stream in streams.items()
    )


def _resolve_names(
    name: str,
    stream: StreamSettings,
    known: Mapping[str, str],
    table_names: Collection[str],
    report_mistake: MistakeCallback,
) -> Iterator[str]:
    for word in stream.schedule.after:
        full = word if word in known.values() else known.get(word)
        if full is not None:
            yield full
        elif word not in table_names:
            report_mistake(_after_key_path(name), f"no table {word!r} is configured", f"There are: {', '.join(known)}.")


def _find_cycle(after: Mapping[str, Sequence[str]]) -> list[str] | None:
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle[::-1]
    return None


def _after_key_path(name: str) -> KeyPath:
    return "tables", name, "after"
