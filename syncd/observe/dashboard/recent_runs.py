"""Tables of the last runs and batches, of one stream or of all."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from syncd.observe.board_view import BatchRecord, PassRecord
from syncd.observe.dashboard.markup import Markup, tag
from syncd.observe.dashboard.page_frame import html_table, table_row
from syncd.observe.dashboard.stream_parts import stream_link, time_element
from syncd.observe.formatting import format_bytes, format_count, format_cursor, format_duration, format_number
from watermarks.names import StreamName


def passes_table(passes: Iterable[tuple[StreamName | None, PassRecord]], *, now: datetime) -> Markup:
    """Return the table of passes, with a column of streams unless they are of one stream."""
    records = list(passes)
    columns = ("ended", *_stream_column(records), "stage", "came to", "batches", "rows", "took", "")
    return html_table(columns, [_pass_row(stream, record, now) for stream, record in records], empty="No run yet.")


def batches_table(batches: Iterable[tuple[StreamName | None, BatchRecord]], *, now: datetime) -> Markup:
    """Return the table of batches, with a column of streams unless they are of one stream."""
    records = list(batches)
    columns = ("done", *_stream_column(records), "batch", "kind", "rows", "files", "size", "took", "mark")
    return html_table(columns, [_batch_row(stream, record, now) for stream, record in records], empty="No batch yet.")


def _stream_column(records: Sequence[tuple[StreamName | None, object]]) -> tuple[str, ...]:
    return ("stream",) if records and records[0][0] is not None else ()


def _stream_cell(stream: StreamName | None) -> tuple[Markup, ...]:
    return () if stream is None else (stream_link(stream),)


def _pass_row(stream: StreamName | None, record: PassRecord, now: datetime) -> Markup:
    times = f" ({record.times:,} times)" if record.times > 1 else ""
    return table_row(
        time_element(record.ended_at, now=now),
        *_stream_cell(stream),
        record.stage,
        tag("span", f"{record.state}{times}", class_="failed" if record.error else None),
        format_number(record.batches),
        format_number(record.rows),
        format_duration(record.seconds),
        record.error or record.reason,
    )


def _batch_row(stream: StreamName | None, batch: BatchRecord, now: datetime) -> Markup:
    names = batch.first_batch if batch.first_batch == batch.last_batch else f"{batch.first_batch} to {batch.last_batch}"
    quarantined = f", {format_count(batch.quarantined, 'row')} in quarantine" if batch.quarantined else ""
    return table_row(
        time_element(batch.moved_at, now=now),
        *_stream_cell(stream),
        names,
        f"{batch.kind}{quarantined}",
        format_number(batch.rows),
        format_number(batch.files),
        "" if batch.bytes is None else format_bytes(batch.bytes),
        format_duration(batch.seconds),
        tag("code", format_cursor(batch.mark)),
    )
