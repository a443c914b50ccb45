"""`syncd watermark get | export`: what stands, for people and as it is written."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import show_json, show_table
from syncd.cli.stream_options import (
    SelectedStream,
    common_options,
    error_to_json,
    exit_with_worst,
    open_operator_context,
    report_error,
    select_streams,
    table_options,
)
from syncd.cli.views.mark_format import format_instant, format_position
from syncd.cli.watermark.system_default import default_to_json, describe_default
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError
from watermarks.history import StateMissing
from watermarks.names import SYSTEM_STEM, StreamName

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkReading:
    """One stream as it stands, or why that cannot be told."""

    selected: SelectedStream
    watermark: Watermark | None = None
    error: HintedError | None = None
    busy_stages: dict[str, str | None] | None = None
    files: list[dict[str, Any]] | None = None
    unproven: str = ""
    """Why the mark is not proven, as far as that is known."""

    @property
    def waiting(self) -> int:
        """Batches that are extracted and not loaded."""
        half = self.watermark.extract_progress if self.watermark else None
        return (
            sum(1 for _ in half.batch_ids(after=self.watermark.load_progress.last_batch))
            if half and self.watermark
            else 0
        )


@click.command()
@table_options
@click.option("--show-files", is_flag=True, help="List the files, and what became of each.")
@common_options
def get(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show the watermark of a table; without one, the system-wide default."""
    with open_operator_context(options["config"], read_only=True) as desk:
        if not options["tables"] and not options["all_"]:
            _show_default(desk, as_json=options["as_json"])
            return
        named = select_streams(desk, options["tables"], all_=options["all_"])
        looked = [read_watermark(desk, one, files=options["show_files"]) for one in named]
    if options["as_json"]:
        show_json({"streams": [_to_json(one) for one in looked]})
    else:
        for one in looked:
            _show(one)
    exit_with_errors(looked)


def read_watermark(
    context: "OperatorContext", selected: SelectedStream, *, files: bool = False, claims: bool = True
) -> WatermarkReading:
    try:
        state = context.journal.read_newest(selected.stream.stem)
        at_work = {str(stage): context.find_active_owner(selected.stream, stage) for stage in Stage} if claims else None
        listed = _list_files(context, selected.stream, state) if files and state is not None else None
        why = _explain_unproven(context, selected.stream, state) if claims and state is not None else ""
    except HintedError as error:
        return WatermarkReading(selected=selected, error=error)
    return WatermarkReading(selected=selected, watermark=state, busy_stages=at_work, files=listed, unproven=why)


def _explain_unproven(context: "OperatorContext", stream: StreamName, watermark: Watermark) -> str:
    from syncd.operations.stream_status import find_unproven_reason
    from watermarks.extraction import BatchChain

    found = find_unproven_reason(watermark.required_extract_progress, BatchChain(context.journal, stream).read_plan)
    return found.reason if found else ""


def _list_files(context: "OperatorContext", stream: StreamName, watermark: Watermark) -> list[dict[str, Any]]:
    from syncd.lake.manifest import Manifest
    from syncd.operations.change_impact import read_links
    from watermarks.batch import BatchKind
    from watermarks.extraction import BatchChain
    from watermarks.progress import BEFORE_FIRST_BATCH

    found: list[dict[str, Any]] = []
    batches = watermark.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH)
    for link in read_links(BatchChain(context.journal, stream), batches):
        if link.kind is BatchKind.ABANDONED:
            continue
        if link.id > watermark.load_progress.last_batch:
            became = "waiting"
        else:
            became = (
                "left out" if any(link.id in span for span in watermark.load_progress.skipped_batches) else "loaded"
            )
        found += [
            {
                "file": context.lake.address_of(part.key),
                "batch": str(link.id),
                "rows": part.rows,
                "bytes": part.bytes,
                "is": became,
            }
            for part in Manifest.from_link(link).parts
        ]
    return found


def _to_json(reading: WatermarkReading) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "table": reading.selected.name,
        "source": reading.selected.stream.source,
        "watermark": reading.watermark.to_fields() if reading.watermark else None,
        "unproven_because": reading.unproven or None,
        "waiting": reading.waiting,
        "at_work": reading.busy_stages,
        "error": error_to_json(reading.error),
    }
    return fields if reading.files is None else {**fields, "files": reading.files}


def _show(reading: WatermarkReading) -> None:
    state = reading.watermark
    if reading.error is not None:
        return
    if state is None:
        click.echo(f"{reading.selected.name}: has never run")
        return
    half, loaded = state.required_extract_progress, state.load_progress
    click.echo(f"{reading.selected.name}  (revision {state.revision}, {format_instant(state.updated_at)} UTC)")
    extract = (
        ("MySQL to S3", state.stage_status(Stage.EXTRACT)),
        ("mark", format_position(half.cursor)),
        ("last read", format_instant(half.extracted_at)),
        ("rows", f"{half.counts.run_rows:,} in the last run, {half.counts.rows:,} in all"),
        ("files", f"{half.counts.files:,}"),
        ("batch", f"{half.last_batch}, {'set by hand' if half.strategy == 'manual_cli' else half.strategy}"),
        ("proven", "yes" if half.proven else f"no: {reading.unproven}" if reading.unproven else "no"),
    )
    load = (
        ("S3 to Redshift", state.stage_status(Stage.LOAD)),
        ("mark", format_position(loaded.cursor)),
        ("last load", format_instant(loaded.loaded_at)),
        ("rows", f"{loaded.counts.run_rows:,} in the last run, {loaded.counts.rows:,} in all"),
        ("batch", f"{loaded.last_batch}, load generation {loaded.load_generation}"),
        ("waiting", f"{reading.waiting:,} batch{'' if reading.waiting == 1 else 'es'}"),
        ("left out", ", ".join(f"those behind {span.after} up to {span.up_to}" for span in loaded.skipped_batches)),
    )
    for what, said in (*extract, *load):
        indent = "  " if what in {"MySQL to S3", "S3 to Redshift"} else "    "
        click.echo(f"{indent}{what:<{18 - len(indent)}}{said or '-'}")
    for stage, failure in state.failures.items():
        click.echo(f"  {stage} failed at {format_instant(failure.failed_at)} UTC: {failure.message}")
    for at_work, process in (reading.busy_stages or {}).items():
        if process is not None:
            click.echo(f"  {at_work} is at work: {process}")
    if reading.files is not None:
        show_table(
            ("file", "batch", "rows", "is"), [(f["file"], f["batch"], f["rows"], f["is"]) for f in reading.files]
        )


def exit_with_errors(readings: Sequence[WatermarkReading]) -> None:
    exit_with_worst([report_error(one.selected.name, one.error) for one in readings if one.error is not None])


def _show_default(context: "OperatorContext", *, as_json: bool) -> None:
    state = context.default_journal.read_newest(SYSTEM_STEM)
    if as_json:
        show_json({"default": default_to_json(state)})
    else:
        click.echo(describe_default(state))


@click.command()
@table_options
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="A file; it must not be there yet.")
@common_options
def export(**options: Any) -> None:  # noqa: ANN401  # as above
    """Print the documents as they stand, one JSON object."""
    with open_operator_context(options["config"], read_only=True) as desk:
        documents: dict[str, Any] = {}
        for one in select_streams(desk, options["tables"], all_=options["all_"]):
            state = desk.journal.read_newest(one.stream.stem)
            if state is not None:
                documents[one.stream.stem] = json.loads(state.to_bytes())
            elif not options["all_"]:
                raise StateMissing(f"{one.stream} has never run", hint="See: syncd watermark list")
    exported = {"documents": documents}
    if options["out"] is None:
        show_json(exported)
        return
    try:
        with options["out"].open("x", encoding="utf-8") as file:
            json.dump(exported, file, indent=2)
    except FileExistsError as error:
        raise click.UsageError(f"{options['out']} is there already: name another file") from error
    click.echo(f"{len(documents)} documents in {options['out']}")
