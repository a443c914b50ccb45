"""`syncd watermark get | export`: the watermark of a stream, for people and as stored."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import common_options, selection_options
from syncd.cli.output import error_to_json, show_json, show_table
from syncd.cli.stream_selection import (
    SelectedStream,
    StreamResult,
    collect_from_streams,
    exit_with_result_errors,
    open_operator_context,
    select_streams,
)
from syncd.cli.views.formats import format_instant, format_position
from syncd.cli.watermark.system_default import default_to_json, describe_default
from syncd.observe.formatting import format_count
from watermarks.document import Stage, Watermark
from watermarks.history import StateMissing
from watermarks.names import SYSTEM_STEM, StreamName

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkReading:
    """The watermark of one stream, with what belongs to it."""

    watermark: Watermark | None = None
    """None where the stream has never run."""
    busy_stages: dict[str, str | None] | None = None
    """Process that holds each stage; None where it was not read."""
    files: list[dict[str, Any]] | None = None
    unproven: str = ""
    """Reason why the mark is not proven, where known."""

    @property
    def pending_batches(self) -> int:
        """Batches that are extracted and not loaded."""
        if self.watermark is None or self.watermark.extract_progress is None:
            return 0
        return sum(1 for _ in self.watermark.extract_progress.batch_ids(after=self.watermark.load_progress.last_batch))


@click.command()
@selection_options
@click.option("--show-files", is_flag=True, help="List the files with their states.")
@common_options
def get(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show the watermark of a table; without a table, the system-wide default."""
    if not options["tables"] and not options["all_"]:
        _show_default(options)
        return
    results = collect_from_streams(options, partial(read_watermark, files=options["show_files"]))
    if options["as_json"]:
        show_json({"streams": [_to_json(result) for result in results]})
    else:
        for result in results:
            if result.value is not None:
                _show(result.name, result.value)
    exit_with_result_errors(results)


def read_watermark(
    context: "OperatorContext", selected: SelectedStream, *, files: bool = False, details: bool = True
) -> WatermarkReading:
    """Read a watermark; `details` are the owners of its stages and the reason why its mark is not proven."""
    stream = selected.stream
    watermark = context.journal.read_newest(stream.stem)
    busy_stages = {str(stage): context.find_active_owner(stream, stage) for stage in Stage} if details else None
    file_list = _list_files(context, stream, watermark) if files and watermark is not None else None
    unproven = _explain_unproven(context, stream, watermark) if details and watermark is not None else ""
    return WatermarkReading(watermark=watermark, busy_stages=busy_stages, files=file_list, unproven=unproven)


def _explain_unproven(context: "OperatorContext", stream: StreamName, watermark: Watermark) -> str:
    from syncd.operations.stream_status import find_unproven_reason
    from watermarks.extraction import BatchChain

    gap = find_unproven_reason(watermark.required_extract_progress, BatchChain(context.journal, stream).read_plan)
    return gap.reason if gap else ""


def _list_files(context: "OperatorContext", stream: StreamName, watermark: Watermark) -> list[dict[str, Any]]:
    from syncd.lake.manifest import Manifest
    from syncd.operations.reloadable_files import read_links
    from watermarks.batch import BatchKind
    from watermarks.extraction import BatchChain
    from watermarks.progress import BEFORE_FIRST_BATCH

    load = watermark.load_progress
    batches = watermark.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH)
    files: list[dict[str, Any]] = []
    for link in read_links(BatchChain(context.journal, stream), batches):
        if link.kind is BatchKind.ABANDONED:
            continue
        state = "loaded"
        if link.id > load.last_batch:
            state = "waiting"
        elif any(link.id in span for span in load.skipped_batches):
            state = "left out"
        files += [
            {
                "file": context.lake.address_of(part.key),
                "batch": str(link.id),
                "rows": part.rows,
                "bytes": part.bytes,
                "state": state,
            }
            for part in Manifest.from_link(link).parts
        ]
    return files


def _to_json(result: StreamResult[WatermarkReading]) -> dict[str, Any]:
    reading = result.value or WatermarkReading()
    fields: dict[str, Any] = result.selected.to_json() | {
        "watermark": reading.watermark.to_fields() if reading.watermark else None,
        "unproven_reason": reading.unproven or None,
        "pending_batches": reading.pending_batches,
        "processes": reading.busy_stages,
        "error": error_to_json(result.error),
    }
    return fields if reading.files is None else {**fields, "files": reading.files}


def _show(name: str, reading: WatermarkReading) -> None:
    watermark = reading.watermark
    if watermark is None:
        click.echo(f"{name}: has never run")
        return
    click.echo(f"{name}  (revision {watermark.revision}, {format_instant(watermark.updated_at)} UTC)")
    for title, rows in (
        (("MySQL to S3", watermark.stage_status(Stage.EXTRACT)), _extract_rows(watermark, reading.unproven)),
        (("S3 to Redshift", watermark.stage_status(Stage.LOAD)), _load_rows(watermark, reading.pending_batches)),
    ):
        click.echo(f"  {title[0]:<16}{title[1]}")
        for label, value in rows:
            click.echo(f"    {label:<14}{value or '-'}")
    for stage, failure in watermark.failures.items():
        click.echo(f"  {stage} failed at {format_instant(failure.failed_at)} UTC: {failure.message}")
    for busy_stage, process in (reading.busy_stages or {}).items():
        if process is not None:
            click.echo(f"  {busy_stage} is running: {process}")
    if reading.files is not None:
        columns = ("file", "batch", "rows", "state")
        show_table(columns, [tuple(file[column] for column in columns) for file in reading.files])


def _extract_rows(watermark: Watermark, unproven: str) -> tuple[tuple[str, str], ...]:
    extract = watermark.required_extract_progress
    strategy = "set by hand" if extract.strategy == "manual_cli" else extract.strategy
    return (
        ("mark", format_position(extract.cursor)),
        ("last read", format_instant(extract.extracted_at)),
        ("rows", f"{extract.counts.run_rows:,} in the last run, {extract.counts.rows:,} in all"),
        ("files", f"{extract.counts.files:,}"),
        ("batch", f"{extract.last_batch}, {strategy}"),
        ("proven", "yes" if extract.proven else f"no: {unproven}" if unproven else "no"),
    )


def _load_rows(watermark: Watermark, pending: int) -> tuple[tuple[str, str], ...]:
    load = watermark.load_progress
    return (
        ("mark", format_position(load.cursor)),
        ("last load", format_instant(load.loaded_at)),
        ("rows", f"{load.counts.run_rows:,} in the last run, {load.counts.rows:,} in all"),
        ("batch", f"{load.last_batch}, load generation {load.load_generation}"),
        ("pending", format_count(pending, "batch")),
        ("left out", ", ".join(f"batches after {span.after} up to {span.up_to}" for span in load.skipped_batches)),
    )


def _show_default(options: dict[str, Any]) -> None:
    with open_operator_context(options["config"], read_only=True) as context:
        default = context.default_journal.read_newest(SYSTEM_STEM)
    if options["as_json"]:
        show_json({"default": default_to_json(default)})
    else:
        click.echo(describe_default(default))


@click.command()
@selection_options
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The file to write; it must not exist.")
@common_options
def export(**options: Any) -> None:  # noqa: ANN401  # as above
    """Print the stored documents as one JSON object."""
    documents: dict[str, Any] = {}
    with open_operator_context(options["config"], read_only=True) as context:
        for selected in select_streams(context.settings, options["tables"], all_=options["all_"]):
            watermark = context.journal.read_newest(selected.stream.stem)
            if watermark is not None:
                documents[selected.stream.stem] = json.loads(watermark.to_bytes())
            elif not options["all_"]:
                raise StateMissing(f"{selected.stream} has never run", hint="See: syncd watermark list")
    exported = {"documents": documents}
    if options["out"] is None:
        show_json(exported)
        return
    try:
        with options["out"].open("x", encoding="utf-8") as file:
            json.dump(exported, file, indent=2)
    except FileExistsError as error:
        raise click.UsageError(f"{options['out']} exists already: name another file") from error
    click.echo(f"{format_count(len(documents), 'document')} in {options['out']}")
