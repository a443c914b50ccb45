"""`syncd watermark list | history`: every stream in a line, and how its marks came to stand where they do."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.output import show_json, show_table
from syncd.cli.stream_options import Named, chosen, common, configured, error_fields, leave, open_desk, tables, told
from syncd.cli.views.mark_format import marks, moment, position
from syncd.cli.watermark.get_export import Looked, leave_by, look
from syncd.cli.watermark.system_default import default_fields, default_told
from watermarks.errors import HintedError
from watermarks.history import Entry
from watermarks.names import SYSTEM, StreamName

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk

DOCUMENTS: Final = "watermarks/"
AT_ONCE: Final = 16
"""Documents that are asked for at once."""


@click.command("list")
@common
def list_(**words: Any) -> None:  # noqa: ANN401  # as above
    """List the watermark of every table, configured or only found in the lake."""
    with open_desk(words["config"], looks=True) as desk:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            looked = list(pool.map(partial(look, desk, claims=False), _every(desk)))
        default = desk.defaults.newest(SYSTEM)
    if words["as_json"]:
        show_json({"default": default_fields(default), "streams": [_listed(one) for one in looked]})
    else:
        columns = ("table", "mark", "extracted", "loaded", "loaded mark", "waiting", "set by hand", "read at (UTC)")
        show_table(columns, [_row(one) for one in looked], spare=("loaded mark", "read at (UTC)", "mark"))
        click.echo(default_told(default))
    leave_by(looked)


def _every(desk: "Desk") -> Iterator[Named]:
    known = configured(desk)
    yield from known
    streams = {one.stream for one in known}
    for key in desk.store.list(DOCUMENTS):
        stem = key.removeprefix(DOCUMENTS).removesuffix(".json")
        if "/" in stem and "@" not in stem and (stream := StreamName.of_stem(stem)) not in streams:
            yield Named(stream=stream, settings=None)


def _listed(one: Looked) -> dict[str, Any]:
    return {
        "table": one.named.name,
        "source": one.named.stream.source,
        "configured": one.named.settings is not None,
        "marks": marks(one.state) if one.state else None,
        "waiting": one.waiting,
        "error": error_fields(one.error),
    }


def _row(one: Looked) -> tuple[object, ...]:
    name = one.named.name if one.named.settings is not None else f"{one.named.stream} (not configured)"
    if one.state is None:
        return (name, "cannot be read" if one.error else "never run", *[""] * 6)
    half, loaded = one.state.chain, one.state.loaded
    by_hand = "yes" if half.strategy == "manual_cli" else ""
    return (
        name,
        position(half.cursor),
        half.last,
        loaded.last,
        position(loaded.cursor),
        one.waiting,
        by_hand,
        moment(half.at),
    )


@click.command()
@tables
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="So many entries, the newest.")
@click.option("--default", "default", is_flag=True, help="Of the system-wide default.")
@common
def history(**words: Any) -> None:  # noqa: ANN401  # as above
    """Show who moved which mark, when and why; the newest first."""
    with open_desk(words["config"], looks=True) as desk:
        if words["default"]:
            past = [_past("the system-wide default", "", _entries_of_default(desk), most=words["limit"])]
        else:
            named = chosen(desk, words["tables"], all_=words["all_"])
            past = [_past(one.name, one.stream.source, _entries(desk, one), most=words["limit"]) for one in named]
    if words["as_json"]:
        show_json({"streams": [one.fields() for one in past]})
    else:
        for one in past:
            click.echo(one.name)
            columns = ("revision", "at (UTC)", "change", "who", "extracted", "mark", "loaded", "why")
            show_table(columns, [_entry_row(entry) for entry in one.entries], spare=("mark",))
    leave([told(one.name, one.error) for one in past if one.error is not None])


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The entries of one document, as far back as they can be read."""

    name: str
    source: str
    entries: tuple[Entry, ...]
    error: HintedError | None

    def fields(self) -> dict[str, Any]:
        return {
            "table": self.name,
            "source": self.source,
            "entries": [_entry_fields(entry) for entry in self.entries],
            "error": error_fields(self.error),
        }


def _past(name: str, source: str, entries: Iterator[Entry], *, most: int) -> Past:
    found: list[Entry] = []
    error = None
    try:
        found.extend(islice(entries, most))
    except HintedError as met:
        error = met
    return Past(name=name, source=source, entries=tuple(found), error=error)


def _entries(desk: "Desk", named: Named) -> Iterator[Entry]:
    newest = desk.journal.newest(named.stream.stem)
    yield from desk.journal.entries(named.stream.stem, newest=newest.revision if newest else 0)


def _entries_of_default(desk: "Desk") -> Iterator[Entry]:
    newest = desk.defaults.newest(SYSTEM)
    yield from desk.defaults.entries(SYSTEM, newest=newest.revision if newest else 0)


def _entry_fields(entry: Entry) -> dict[str, Any]:
    after = entry.after
    loaded = f"{after['loaded_generation']}-{after['loaded_seq']}" if "loaded_seq" in after else None
    return {
        "revision": entry.revision,
        "at": entry.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "change": entry.note.change,
        "who": entry.note.who,
        "why": entry.note.why,
        "stage": entry.note.stage,
        "epoch": entry.note.epoch,
        "extracted": f"{after['generation']}-{after['extracted_seq']}" if "generation" in after else None,
        "last_mysql_data_timestamp": after.get("last_mysql_data_timestamp"),
        "last_mysql_key": after.get("last_mysql_key"),
        "load_generation": after.get("load_generation"),
        "loaded": loaded,
        "start": after.get("last_run_timestamp"),
    }


def _entry_row(entry: Entry) -> tuple[object, ...]:
    fields = _entry_fields(entry)
    key = [text.partition(":")[2] for text in fields["last_mysql_key"] or ()]
    place = [str(fields["last_mysql_data_timestamp"] or fields["start"] or ""), *key]
    mark = ", ".join(part for part in place if part)
    row = (fields["extracted"], mark, fields["loaded"], entry.note.why)
    return (entry.revision, moment(entry.at), entry.note.change, entry.note.who, *row)
