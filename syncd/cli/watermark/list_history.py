"""`syncd watermark list | history`: the marks of all streams, and the changes that led to them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.option_types import common_options, selection_options
from syncd.cli.output import error_to_json, show_json, show_table
from syncd.cli.stream_selection import (
    SelectedStream,
    StreamResult,
    collect_result,
    configured_streams,
    exit_with_errors,
    exit_with_result_errors,
    open_operator_context,
    select_streams,
)
from syncd.cli.views.formats import format_instant, format_position, instant_to_json, marks_to_json
from syncd.cli.watermark.get_export import WatermarkReading, read_watermark
from syncd.cli.watermark.system_default import default_to_json, describe_default
from watermarks.errors import HintedError
from watermarks.history import HistoryEntry
from watermarks.names import SYSTEM_STEM, StreamName

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from watermarks.history import Journal

WATERMARK_PREFIX: Final = "watermarks/"
MAX_PARALLEL_READS: Final = 16


@click.command("list")
@common_options
def list_(**options: Any) -> None:  # noqa: ANN401  # as above
    """List the watermarks of all tables: of configured tables, and of others in the lake."""
    with open_operator_context(options["config"], read_only=True) as context:
        read = partial(read_watermark, context, details=False)
        with ThreadPoolExecutor(MAX_PARALLEL_READS) as pool:
            results = list(pool.map(lambda one: collect_result(one, read), _find_all_streams(context)))
        default = context.default_journal.read_newest(SYSTEM_STEM)
    if options["as_json"]:
        show_json({"default": default_to_json(default), "streams": [_to_json(result) for result in results]})
    else:
        columns = ("table", "mark", "extracted", "loaded", "loaded mark", "pending", "set by hand", "read at (UTC)")
        show_table(
            columns, [_table_row(result) for result in results], optional=("loaded mark", "read at (UTC)", "mark")
        )
        click.echo(describe_default(default))
    exit_with_result_errors(results)


def _find_all_streams(context: "OperatorContext") -> Iterator[SelectedStream]:
    configured = configured_streams(context.settings)
    yield from configured
    streams = {selected.stream for selected in configured}
    for key in context.store.list(WATERMARK_PREFIX):
        stem = key.removeprefix(WATERMARK_PREFIX).removesuffix(".json")
        if "/" in stem and "@" not in stem and (stream := StreamName.from_stem(stem)) not in streams:
            yield SelectedStream(stream=stream, settings=None)


def _to_json(result: StreamResult[WatermarkReading]) -> dict[str, Any]:
    reading = result.value or WatermarkReading()
    return result.selected.to_json() | {
        "configured": result.selected.settings is not None,
        "marks": marks_to_json(reading.watermark) if reading.watermark else None,
        "pending_batches": reading.pending_batches,
        "error": error_to_json(result.error),
    }


def _table_row(result: StreamResult[WatermarkReading]) -> tuple[object, ...]:
    selected, watermark = result.selected, result.value.watermark if result.value else None
    name = selected.name if selected.settings is not None else f"{selected.stream} (not configured)"
    if result.value is None or watermark is None:
        return (name, "cannot be read" if result.error else "never run", *[""] * 6)
    extract, load = watermark.required_extract_progress, watermark.load_progress
    return (
        name,
        format_position(extract.cursor),
        extract.last_batch,
        load.last_batch,
        format_position(load.cursor),
        result.value.pending_batches,
        "yes" if extract.strategy == "manual_cli" else "",
        format_instant(extract.extracted_at),
    )


@click.command()
@selection_options
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Entries to show, newest first."
)
@click.option("--default", "default", is_flag=True, help="Show the history of the system-wide default.")
@common_options
def history(**options: Any) -> None:  # noqa: ANN401  # as above
    """Show who moved which mark, when and why; the newest first."""
    limit = options["limit"]
    with open_operator_context(options["config"], read_only=True) as context:
        if options["default"]:
            histories = [
                _read_history("the system-wide default", "", context.default_journal, SYSTEM_STEM, limit=limit)
            ]
        else:
            selected = select_streams(context.settings, options["tables"], all_=options["all_"])
            histories = [
                _read_history(one.name, one.stream.source, context.journal, one.stream.stem, limit=limit)
                for one in selected
            ]
    if options["as_json"]:
        show_json({"streams": [document.to_json() for document in histories]})
    else:
        for document in histories:
            click.echo(document.name)
            columns = ("revision", "at (UTC)", "change", "author", "extracted", "mark", "loaded", "reason")
            show_table(columns, [_entry_row(entry) for entry in document.entries], optional=("mark",))
    exit_with_errors((document.name, document.error) for document in histories)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHistory:
    """Entries of one document, as far back as they can be read."""

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


def _read_history(name: str, source: str, journal: "Journal[Any]", stem: str, *, limit: int) -> DocumentHistory:
    entries: list[HistoryEntry] = []
    error = None
    try:
        newest = journal.read_newest(stem)
        entries.extend(islice(journal.read_entries(stem, newest_revision=newest.revision if newest else 0), limit))
    except HintedError as error_:
        error = error_
    return DocumentHistory(name=name, source=source, entries=tuple(entries), error=error)


def _entry_to_json(entry: HistoryEntry) -> dict[str, Any]:
    after = entry.after
    loaded = f"{after['loaded_generation']}-{after['loaded_seq']}" if "loaded_seq" in after else None
    return {
        "revision": entry.revision,
        "at": instant_to_json(entry.recorded_at),
        "change": entry.note.change,
        "author": entry.note.author,
        "reason": entry.note.reason,
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
    position = [str(fields["last_mysql_data_timestamp"] or fields["start"] or ""), *key]
    mark = ", ".join(part for part in position if part)
    note = entry.note
    cells = (fields["extracted"], mark, fields["loaded"], note.reason)
    return (entry.revision, format_instant(entry.recorded_at), note.change, note.author, *cells)
