"""The page of all streams: those with trouble first, each with what it waits for and what would help."""

from datetime import datetime

from syncd.observe.board_view import BoardView, StreamState, StreamView
from syncd.observe.dashboard.blocked_reason import css_class, has_waiting_reason, waiting_text
from syncd.observe.dashboard.formatting import (
    format_duration,
    format_number,
    format_plural,
    format_rows_per_second,
    format_time_until,
    time_element,
)
from syncd.observe.dashboard.links import stream_link
from syncd.observe.dashboard.markup import Markup, join_markup, tag
from syncd.observe.dashboard.page_frame import html_document, small_text
from syncd.observe.dashboard.recent_runs import batches_table, passes_table
from syncd.observe.dashboard.sparkline import sparkline
from syncd.observe.stage_state import MAX_LAG_POINTS

OVERVIEW_COLUMNS = ("state", "stream", "complete up to", "lag, half an hour", "speed", "to load", "next")


def overview_page(view: BoardView, *, search: str = "") -> str:
    """The page; with `find`, of the streams whose name or state holds these words."""
    streams = [one for one in view.streams if _matches_search(one, search)]
    troubled = view.count(StreamState.FAILED) + view.count(StreamState.LATE)
    title = f"{format_plural(troubled, 'stream')} in trouble - syncd" if troubled else "syncd"
    return html_document(title, head=_page_header(search), main=_page_main(view, streams, search))


def _matches_search(stream: StreamView, search_text: str) -> bool:
    words = f"{stream.stream} {stream.target} {stream.state}".casefold()
    return all(word in words for word in search_text.casefold().split())


def _page_header(find: str) -> Markup:
    search = tag(
        "form",
        tag("label", "Find a stream", for_="find", class_="unseen"),
        tag(
            "input", id="find", name="find", type="search", value=find, placeholder="name or state", autocomplete="off"
        ),
        tag("noscript", tag("button", "Find")),
        method="get",
        action="/",
        role="search",
    )
    return join_markup(tag("h1", tag("a", "syncd", href="/")), search)


def _page_main(view: BoardView, streams: list[StreamView], find: str) -> Markup:
    rows = [_stream_rows(one, view.at) for one in streams]
    head = tag("thead", tag("tr", *(tag("th", column, scope="col") for column in OVERVIEW_COLUMNS)), id="columns")
    board = tag("table", head, *rows, id="board", class_="board", data_keyed=True)
    if not rows:
        board = tag(
            "p", f"No stream matches “{find}”." if find else "No stream is configured.", id="board", class_="empty"
        )
    runs = tag("section", tag("h2", "Last runs"), passes_table(view.runs, now=view.at), id="runs")
    batches = tag("section", tag("h2", "Last batches"), batches_table(view.batches, now=view.at), id="batches")
    return join_markup(_summary_line(view), board, runs, batches)


def _summary_line(view: BoardView) -> Markup:
    counts = [(mood, view.count(mood)) for mood in StreamState]
    parts: list[Markup | str] = [tag("b", format_plural(len(view.streams), "stream"))]
    for mood, number in counts:
        if number:
            parts += [
                " ",
                tag(
                    "a", f"{number:,} {mood}", class_=f"pill {css_class(mood)}", href=f"/?find={mood.replace(' ', '+')}"
                ),
            ]
    at = tag(
        "span",
        "as of ",
        time_element(view.at, now=view.at),
        " UTC, since ",
        time_element(view.since, now=view.at),
        class_="at",
    )
    return tag("p", *parts, at, id="summary")


def _stream_rows(stream: StreamView, now: datetime) -> Markup:
    last = stream.last_stage
    promised = stream.promised_lag.total_seconds() if stream.promised_lag else None
    cells = (
        tag("td", tag("span", stream.state, class_=f"pill {css_class(stream.state)}"), class_="state"),
        tag("th", stream_link(stream.stream), small_text(_route_text(stream), stream.schedule), scope="row"),
        tag("td", *_completeness_cell(stream, now), class_="complete"),
        tag("td", sparkline(last.lag_seconds, points=MAX_LAG_POINTS, promised=promised), class_="lag"),
        tag("td", format_rows_per_second(last.rows_per_second) or "-", class_="speed"),
        tag("td", _pending_cell(stream), class_="pending"),
        tag("td", *_next_pass_cell(stream, now), class_="next"),
    )
    whys = [
        tag("p", *waiting_text(stage, now), class_=css_class(stage.state))
        for stage in stream.stages
        if has_waiting_reason(stage)
    ]
    below = tag("tr", tag("td", *whys, colspan=str(len(OVERVIEW_COLUMNS))), class_="why") if whys else None
    return tag("tbody", tag("tr", *cells), below, id=f"stream {stream.stream}", data_mood=stream.state)


def _route_text(stream: StreamView) -> str:
    return f"{stream.stream.source} → {stream.target}" if stream.target else stream.stream.source


def _completeness_cell(stream: StreamView, now: datetime) -> tuple[Markup, ...]:
    complete = stream.last_stage.complete
    if complete is None:
        return (tag("span", "not known yet", class_="none"),)
    promise = (
        f"promised {format_duration(stream.promised_lag)}"
        if stream.state is StreamState.LATE and stream.promised_lag
        else None
    )
    proven = "proven" if complete.is_proven else tag("em", "not proven")
    return time_element(complete.upto, now=now), small_text(f"{format_duration(complete.lag)} behind", proven, promise)


def _pending_cell(stream: StreamView) -> str:
    if not stream.target:
        return "-"
    return format_plural(stream.pending_batches, "batch") if stream.pending_batches else "-"


def _next_pass_cell(stream: StreamView, now: datetime) -> tuple[Markup | str, ...]:
    running = [stage for stage in stream.stages if stage.running]
    if running:
        stage = running[0]
        rows = f"{format_number(stage.rows_so_far)} rows so far" if stage.rows_so_far else None
        took = f"for {format_duration(now - stage.began_at)}" if stage.began_at else None
        return tag("span", f"{stage.stage} at work", class_="running"), small_text(took, rows)
    # The stage that has trouble is the one that is waited for; else the first one, which wakes the other.
    ordered = sorted(stream.stages, key=lambda stage: stage.failure is None)
    coming = next((stage.next_due_at for stage in ordered if stage.next_due_at is not None), None)
    return (format_time_until(coming, now=now) if coming else tag("span", "-", class_="none"),)
