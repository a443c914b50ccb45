"""Tables of the last runs and batches, of one stream or of all."""

from collections.abc import Iterable
from datetime import datetime

from syncd.observe.board_view import BatchRecord, PassRecord
from syncd.observe.dashboard.formatting import (
    format_cursor,
    format_duration,
    format_number,
    format_plural,
    time_element,
)
from syncd.observe.dashboard.links import stream_link
from syncd.observe.dashboard.markup import Markup, tag
from syncd.observe.dashboard.page_frame import html_table, table_row
from syncd.observe.event_text import format_bytes
from watermarks.names import StreamName


def passes_table(passes: Iterable[tuple[StreamName | None, PassRecord]], *, now: datetime) -> Markup:
    """Runs, newest first; with their streams where they are of several."""
    told = list(passes)
    columns = ("ended", *_stream_column(told), "stage", "came to", "batches", "rows", "took", "")
    return html_table(columns, [_pass_row(stream, run, now) for stream, run in told], empty="No run yet.")


def batches_table(batches: Iterable[tuple[StreamName | None, BatchRecord]], *, now: datetime) -> Markup:
    """Batches, newest first; with their streams where they are of several."""
    told = list(batches)
    columns = ("done", *_stream_column(told), "batch", "kind", "rows", "files", "size", "took", "mark")
    return html_table(columns, [_batch_row(stream, batch, now) for stream, batch in told], empty="No batch yet.")


def _stream_column(
    told: list[tuple[StreamName | None, PassRecord]] | list[tuple[StreamName | None, BatchRecord]],
) -> tuple[str, ...]:
    return ("stream",) if told and told[0][0] is not None else ()


def _stream_cell(stream: StreamName | None) -> tuple[Markup, ...]:
    return () if stream is None else (stream_link(stream),)


def _pass_row(stream: StreamName | None, record: PassRecord, now: datetime) -> Markup:
    times = f" ({record.times:,} times)" if record.times > 1 else ""
    came = tag("span", f"{record.state}{times}", class_="failed" if record.error else None)
    cells = (
        record.stage,
        came,
        format_number(record.batches),
        format_number(record.rows),
        format_duration(record.seconds),
        record.error or record.reason,
    )
    return table_row(time_element(record.ended_at, now=now), *_stream_cell(stream), *cells)


def _batch_row(stream: StreamName | None, batch: BatchRecord, now: datetime) -> Markup:
    named = batch.first_batch if batch.first_batch == batch.last_batch else f"{batch.first_batch} to {batch.last_batch}"
    aside = f", {format_plural(batch.quarantined, 'row')} in quarantine" if batch.quarantined else ""
    bytes_ = "" if batch.bytes is None else format_bytes(batch.bytes)
    cells = (
        named,
        f"{batch.kind}{aside}",
        format_number(batch.rows),
        format_number(batch.files),
        bytes_,
        format_duration(batch.seconds),
    )
    return table_row(
        time_element(batch.moved_at, now=now), *_stream_cell(stream), *cells, tag("code", format_cursor(batch.mark))
    )
