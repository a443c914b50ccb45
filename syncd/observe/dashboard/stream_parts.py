"""Parts that several dashboard pages share: completeness, recent runs and batches, the lag sparkline."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote

from syncd.observe.board_view import BatchRecord, CompletenessView, PassRecord, StageState, StageView, StreamView
from syncd.observe.dashboard.page_frame import Markup, html_table, join_markup, small_text, table_row, tag
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


MIN_SCALE_SECONDS: Final = 60.0
"""Lower bound of the scale, so that a line of small lags stays low."""


def sparkline(
    lags: Sequence[float | None], *, points: int, promised: float | None = None, width: int = 120, height: int = 28
) -> Markup:
    """Return a line over `points` steps, the newest at the right, with gaps where the lag was unknown."""
    known = [lag for lag in lags if lag is not None]
    if not known:
        return tag("span", "-", class_="none")
    top = max(*known, promised or 0.0, MIN_SCALE_SECONDS) * 1.1
    runs = list(_segments(lags, room=points, top=top, width=width, height=height))
    text = f"now {format_duration(known[-1])} behind, at most {format_duration(max(known))} in the last half hour"
    shapes = [_area_path(run, height) for run in runs] + [tag("path", d=_path_data(run), class_="line") for run in runs]
    if promised is not None:
        y = f"{_y(promised, top, height):.1f}"
        shapes.append(tag("line", x1="0", x2=str(width), y1=y, y2=y, class_="promise"))
    return tag(
        "svg",
        tag("title", text),
        join_markup(*shapes),
        viewBox=f"0 0 {width} {height}",
        preserveAspectRatio="none",
        role="img",
        aria_label=text,
        class_="spark",
    )


Points = list[tuple[float, float]]


def _segments(lags: Sequence[float | None], *, room: int, top: float, width: int, height: int) -> Iterator[Points]:
    """Return the points of each stretch without a gap."""
    step, run = width / max(room - 1, 1), Points()
    for number, lag in enumerate(lags, start=room - len(lags)):
        if lag is None:
            if run:
                yield run
            run = Points()
        else:
            run.append((number * step, _y(lag, top, height)))
    if run:
        yield run


def _y(lag: float, top: float, height: int) -> float:
    return height - 1 - (height - 2) * lag / top


def _path_data(segment: Points) -> str:
    first = segment[0]
    ends = segment if len(segment) > 1 else [(first[0] - 1, first[1]), first]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in ends)


def _area_path(segment: Points, height: int) -> Markup:
    return tag(
        "path", d=f"{_path_data(segment)}L{segment[-1][0]:.1f} {height}L{segment[0][0]:.1f} {height}Z", class_="area"
    )


NONE: Markup = tag("span", "-", class_="none")


def stream_path(stream: StreamName) -> str:
    """Return the path of a stream's page, with the whole name as one segment."""
    return f"/streams/{quote(str(stream), safe='')}"


def stream_link(stream: StreamName) -> Markup:
    return tag("a", stream.table_name, href=stream_path(stream))


def time_element(instant: datetime, *, now: datetime) -> Markup:
    """Return the time of day, with the date unless it is today."""
    form = "%H:%M:%S" if instant.date() == now.date() else "%Y-%m-%d %H:%M:%S"
    return tag("time", instant.strftime(form), datetime=instant.isoformat(timespec="seconds"))


def css_class(word: str) -> str:
    return word.replace(" ", "-")


def state_pill(state: str) -> Markup:
    return tag("span", state, class_=f"pill {css_class(state)}")


def trouble_lines(stream: StreamView, now: datetime, *, class_prefix: str = "") -> Iterator[Markup]:
    """Return a line for each stage that failed, waits or is held back."""
    for stage in stream.stages:
        is_waiting = stage.state in {StageState.WAITING, StageState.HELD_BACK} and stage.waiting_reason
        if stage.failure is not None or is_waiting:
            yield tag("p", *_trouble_text(stage, now), class_=f"{class_prefix}{css_class(stage.state)}")


def _trouble_text(stage: StageView, now: datetime) -> tuple[Markup | str, ...]:
    failure = stage.failure
    if failure is None:
        verb = "is held back:" if stage.state is StageState.HELD_BACK else "waits:"
        until = f" (until {stage.held_until:%H:%M:%S})" if stage.held_until else ""
        return tag("b", f"{stage.stage} {verb}"), f" {stage.waiting_reason}{until}"
    times = f" {failure.times:,} times since " if failure.times > 1 else " at "
    text = (tag("b", f"{stage.stage} failed"), times, time_element(failure.since, now=now), f": {failure.message}")
    return (*text, tag("span", failure.hint, class_="hint")) if failure.hint else text


def completeness_cells(
    complete: CompletenessView | None, *, now: datetime, promise: str | None = None
) -> tuple[Markup | str, ...]:
    """Return up to when a stage is complete, how far that is behind, and whether it is proven."""
    if complete is None:
        return (tag("span", "not known yet", class_="none"),)
    proven = "proven" if complete.is_proven else tag("em", "not proven")
    behind = small_text(f"{format_duration(complete.lag)} behind", proven, promise)
    return time_element(complete.upto, now=now), " ", behind


def running_texts(stage: StageView, now: datetime) -> tuple[str | None, str | None]:
    """Return how long a pass has run and how many rows it has read of its batch; None for an unknown one."""
    rows = f"{format_number(stage.rows_so_far)} rows so far" if stage.rows_so_far else None
    return f"for {format_duration(now - stage.began_at)}" if stage.began_at else None, rows
