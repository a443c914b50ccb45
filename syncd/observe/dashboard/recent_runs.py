"""Tables of the last runs and batches, of one stream or of all."""

from collections.abc import Iterable
from datetime import datetime

from syncd.observe.board_view import Ended, Moved
from syncd.observe.dashboard.formatting import amount, clock, plural, position, span
from syncd.observe.dashboard.links import link_to
from syncd.observe.dashboard.markup import Markup, tag
from syncd.observe.dashboard.page_frame import row, table
from syncd.observe.event_text import size
from watermarks.names import StreamName


def runs_table(runs: Iterable[tuple[StreamName | None, Ended]], *, now: datetime) -> Markup:
    """Runs, newest first; with their streams where they are of several."""
    told = list(runs)
    columns = ("ended", *_stream_column(told), "stage", "came to", "batches", "rows", "took", "")
    return table(columns, [_run(stream, run, now) for stream, run in told], empty="No run yet.")


def batches_table(batches: Iterable[tuple[StreamName | None, Moved]], *, now: datetime) -> Markup:
    """Batches, newest first; with their streams where they are of several."""
    told = list(batches)
    columns = ("done", *_stream_column(told), "batch", "kind", "rows", "files", "size", "took", "mark")
    return table(columns, [_batch(stream, batch, now) for stream, batch in told], empty="No batch yet.")


def _stream_column(
    told: list[tuple[StreamName | None, Ended]] | list[tuple[StreamName | None, Moved]],
) -> tuple[str, ...]:
    return ("stream",) if told and told[0][0] is not None else ()


def _linked(stream: StreamName | None) -> tuple[Markup, ...]:
    return () if stream is None else (link_to(stream),)


def _run(stream: StreamName | None, run: Ended, now: datetime) -> Markup:
    times = f" ({run.times:,} times)" if run.times > 1 else ""
    came = tag("span", f"{run.state}{times}", class_="failed" if run.error else None)
    cells = (run.stage, came, amount(run.batches), amount(run.rows), span(run.seconds), run.error or run.reason)
    return row(clock(run.at, now=now), *_linked(stream), *cells)


def _batch(stream: StreamName | None, batch: Moved, now: datetime) -> Markup:
    named = batch.batch if batch.batch == batch.last else f"{batch.batch} to {batch.last}"
    aside = f", {plural(batch.quarantined, 'row')} in quarantine" if batch.quarantined else ""
    bytes_ = "" if batch.bytes is None else size(batch.bytes)
    cells = (named, f"{batch.kind}{aside}", amount(batch.rows), amount(batch.files), bytes_, span(batch.seconds))
    return row(clock(batch.at, now=now), *_linked(stream), *cells, tag("code", position(batch.mark)))
