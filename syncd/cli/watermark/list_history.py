"""`syncd watermark list | history`: every stream in a line, and how its marks came to stand where they do."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.output import show_json, show_table
from syncd.cli.stream_options import (
    SelectedStream,
    common_options,
    configured_streams,
    error_to_json,
    exit_with_worst,
    open_operator_context,
    report_error,
    select_streams,
    table_options,
)
from syncd.cli.views.mark_format import format_instant, format_position, marks_to_json
from syncd.cli.watermark.get_export import WatermarkReading, exit_with_errors, read_watermark
from syncd.cli.watermark.system_default import default_to_json, describe_default
from watermarks.errors import HintedError
from watermarks.history import HistoryEntry
from watermarks.names import SYSTEM_STEM, StreamName

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext

WATERMARK_PREFIX: Final = "watermarks/"
MAX_PARALLEL_READS: Final = 16
"""Documents that are asked for at once."""


@click.command("list")
@common_options
def list_(**options: Any) -> None:  # noqa: ANN401  # as above
    """List the watermark of every table, configured or only found in the lake."""
    with open_operator_context(options["config"], read_only=True) as desk:
        with ThreadPoolExecutor(MAX_PARALLEL_READS) as pool:
            looked = list(pool.map(partial(read_watermark, desk, claims=False), _find_all_streams(desk)))
        default = desk.default_journal.read_newest(SYSTEM_STEM)
    if options["as_json"]:
        show_json({"default": default_to_json(default), "streams": [_to_json(one) for one in looked]})
    else:
        columns = ("table", "mark", "extracted", "loaded", "loaded mark", "waiting", "set by hand", "read at (UTC)")
        show_table(columns, [_table_row(one) for one in looked], optional=("loaded mark", "read at (UTC)", "mark"))
        click.echo(describe_default(default))
    exit_with_errors(looked)


def _find_all_streams(context: "OperatorContext") -> Iterator[SelectedStream]:
    known = configured_streams(context)
    yield from known
    streams = {one.stream for one in known}
    for key in context.store.list(WATERMARK_PREFIX):
        stem = key.removeprefix(WATERMARK_PREFIX).removesuffix(".json")
        if "/" in stem and "@" not in stem and (stream := StreamName.from_stem(stem)) not in streams:
            yield SelectedStream(stream=stream, settings=None)


def _to_json(reading: WatermarkReading) -> dict[str, Any]:
    return {
        "table": reading.selected.name,
        "source": reading.selected.stream.source,
        "configured": reading.selected.settings is not None,
        "marks": marks_to_json(reading.watermark) if reading.watermark else None,
        "waiting": reading.waiting,
        "error": error_to_json(reading.error),
    }


def _table_row(reading: WatermarkReading) -> tuple[object, ...]:
    name = (
        reading.selected.name
        if reading.selected.settings is not None
        else f"{reading.selected.stream} (not configured)"
    )
    if reading.watermark is None:
        return (name, "cannot be read" if reading.error else "never run", *[""] * 6)
    half, loaded = reading.watermark.required_extract_progress, reading.watermark.load_progress
    by_hand = "yes" if half.strategy == "manual_cli" else ""
    return (
        name,
        format_position(half.cursor),
        half.last_batch,
        loaded.last_batch,
        format_position(loaded.cursor),
        reading.waiting,
        by_hand,
        format_instant(half.extracted_at),
    )


@click.command()
@table_options
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="So many entries, the newest.")
@click.option("--default", "default", is_flag=True, help="Of the system-wide default.")
@common_options
def history(**options: Any) -> None:  # noqa: ANN401  # as above
    """Show who moved which mark, when and why; the newest first."""
    with open_operator_context(options["config"], read_only=True) as desk:
        if options["default"]:
            past = [_read_history("the system-wide default", "", _default_entries(desk), limit=options["limit"])]
        else:
            named = select_streams(desk, options["tables"], all_=options["all_"])
            past = [
                _read_history(one.name, one.stream.source, _stream_entries(desk, one), limit=options["limit"])
                for one in named
            ]
    if options["as_json"]:
        show_json({"streams": [one.to_json() for one in past]})
    else:
        for one in past:
            click.echo(one.name)
            columns = ("revision", "at (UTC)", "change", "who", "extracted", "mark", "loaded", "why")
            show_table(columns, [_entry_row(entry) for entry in one.entries], optional=("mark",))
    exit_with_worst([report_error(one.name, one.error) for one in past if one.error is not None])


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHistory:
    """The entries of one document, as far back as they can be read."""

    name: str
    source: str
    entries: tuple[HistoryEntry, ...]
    error: HintedError | None

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.name,
            "source": self.source,
            "entries": [_entry_to_json(entry) for entry in self.entries],
            "error": error_to_json(self.error),
        }


def _read_history(name: str, source: str, entries: Iterator[HistoryEntry], *, limit: int) -> DocumentHistory:
    found: list[HistoryEntry] = []
    error = None
    try:
        found.extend(islice(entries, limit))
    except HintedError as met:
        error = met
    return DocumentHistory(name=name, source=source, entries=tuple(found), error=error)


def _stream_entries(context: "OperatorContext", selected: SelectedStream) -> Iterator[HistoryEntry]:
    newest = context.journal.read_newest(selected.stream.stem)
    yield from context.journal.read_entries(selected.stream.stem, newest_revision=newest.revision if newest else 0)


def _default_entries(context: "OperatorContext") -> Iterator[HistoryEntry]:
    newest = context.default_journal.read_newest(SYSTEM_STEM)
    yield from context.default_journal.read_entries(SYSTEM_STEM, newest_revision=newest.revision if newest else 0)


def _entry_to_json(entry: HistoryEntry) -> dict[str, Any]:
    after = entry.after
    loaded = f"{after['loaded_generation']}-{after['loaded_seq']}" if "loaded_seq" in after else None
    return {
        "revision": entry.revision,
        "at": entry.recorded_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "change": entry.note.change,
        "who": entry.note.author,
        "why": entry.note.reason,
        "stage": entry.note.stage,
        "epoch": entry.note.epoch,
        "extracted": f"{after['generation']}-{after['extracted_seq']}" if "generation" in after else None,
        "last_mysql_data_timestamp": after.get("last_mysql_data_timestamp"),
        "last_mysql_key": after.get("last_mysql_key"),
        "load_generation": after.get("load_generation"),
        "loaded": loaded,
        "start": after.get("last_run_timestamp"),
    }


def _entry_row(entry: HistoryEntry) -> tuple[object, ...]:
    fields = _entry_to_json(entry)
    key = [text.partition(":")[2] for text in fields["last_mysql_key"] or ()]
    place = [str(fields["last_mysql_data_timestamp"] or fields["start"] or ""), *key]
    mark = ", ".join(part for part in place if part)
    row = (fields["extracted"], mark, fields["loaded"], entry.note.reason)
    return (entry.revision, format_instant(entry.recorded_at), entry.note.change, entry.note.author, *row)
