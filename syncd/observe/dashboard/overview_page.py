"""Page of all streams, those with trouble first."""

from datetime import datetime

from syncd.observe.board_view import BoardView, StreamState, StreamView
from syncd.observe.dashboard.page_frame import Markup, html_document, join_markup, small_text, tag
from syncd.observe.dashboard.stream_parts import (
    NONE,
    batches_table,
    completeness_cells,
    css_class,
    passes_table,
    running_texts,
    sparkline,
    state_pill,
    stream_link,
    time_element,
    trouble_lines,
)
from syncd.observe.formatting import format_count, format_duration, format_rows_per_second, format_time_until
from syncd.observe.stage_state import MAX_LAG_POINTS

OVERVIEW_COLUMNS = ("state", "stream", "complete up to", "lag, half an hour", "speed", "to load", "next")


def overview_page(view: BoardView, *, search: str = "") -> str:
    """Return the page of the streams whose name, target or state contains every word of `search`."""
    streams = [stream for stream in view.streams if _matches_search(stream, search)]
    troubled = view.count(StreamState.FAILED) + view.count(StreamState.LATE)
    title = f"{format_count(troubled, 'stream')} in trouble - syncd" if troubled else "syncd"
    return html_document(title, head=_page_header(search), main=_page_main(view, streams, search))


def _matches_search(stream: StreamView, search: str) -> bool:
    text = f"{stream.stream} {stream.target} {stream.state}".casefold()
    return all(word in text for word in search.casefold().split())


def _page_header(search: str) -> Markup:
    field = tag(
        "input", id="find", name="find", type="search", value=search, placeholder="name or state", autocomplete="off"
    )
    form = tag(
        "form",
        tag("label", "Find a stream", for_="find", class_="unseen"),
        field,
        tag("noscript", tag("button", "Find")),
        method="get",
        action="/",
        role="search",
    )
    return join_markup(tag("h1", tag("a", "syncd", href="/")), form)


def _page_main(view: BoardView, streams: list[StreamView], search: str) -> Markup:
    rows = [_stream_rows(stream, view.at) for stream in streams]
    head = tag("thead", tag("tr", *(tag("th", column, scope="col") for column in OVERVIEW_COLUMNS)), id="columns")
    board = tag("table", head, *rows, id="board", class_="board", data_keyed=True)
    if not rows:
        text = f"No stream matches “{search}”." if search else "No stream is configured."
        board = tag("p", text, id="board", class_="empty")
    passes = tag("section", tag("h2", "Last runs"), passes_table(view.runs, now=view.at), id="runs")
    batches = tag("section", tag("h2", "Last batches"), batches_table(view.batches, now=view.at), id="batches")
    return join_markup(_summary_line(view), board, passes, batches)


def _summary_line(view: BoardView) -> Markup:
    parts: list[Markup | str] = [tag("b", format_count(len(view.streams), "stream"))]
    for state in StreamState:
        if number := view.count(state):
            link = f"/?find={state.replace(' ', '+')}"
            parts += [" ", tag("a", f"{number:,} {state}", class_=f"pill {css_class(state)}", href=link)]
    at, since = time_element(view.at, now=view.at), time_element(view.since, now=view.at)
    return tag("p", *parts, tag("span", "as of ", at, " UTC, since ", since, class_="at"), id="summary")


def _stream_rows(stream: StreamView, now: datetime) -> Markup:
    last, lag = stream.last_stage, stream.promised_lag
    route = f"{stream.stream.source} → {stream.target}" if stream.target else stream.stream.source
    promise = f"promised {format_duration(lag)}" if stream.state is StreamState.LATE and lag else None
    pending = format_count(stream.pending_batches, "batch") if stream.pending_batches else "-"
    line = sparkline(last.lag_seconds, points=MAX_LAG_POINTS, promised=lag.total_seconds() if lag else None)
    cells = (
        tag("td", state_pill(stream.state), class_="state"),
        tag("th", stream_link(stream.stream), small_text(route, stream.schedule), scope="row"),
        tag("td", *completeness_cells(last.complete, now=now, promise=promise), class_="complete"),
        tag("td", line, class_="lag"),
        tag("td", format_rows_per_second(last.rows_per_second) or "-", class_="speed"),
        tag("td", pending, class_="pending"),
        tag("td", *_next_pass_cell(stream, now), class_="next"),
    )
    troubles = list(trouble_lines(stream, now))
    below = tag("tr", tag("td", *troubles, colspan=str(len(OVERVIEW_COLUMNS))), class_="why") if troubles else None
    return tag("tbody", tag("tr", *cells), below, id=f"stream {stream.stream}", data_mood=stream.state)


def _next_pass_cell(stream: StreamView, now: datetime) -> tuple[Markup | str, ...]:
    running = next((stage for stage in stream.stages if stage.running), None)
    if running is not None:
        return tag("span", f"{running.stage} at work", class_="running"), small_text(*running_texts(running, now))
    # Readers wait for the failed stage; else for the first one, which triggers the other.
    ordered = sorted(stream.stages, key=lambda stage: stage.failure is None)
    due = next((stage.next_due_at for stage in ordered if stage.next_due_at is not None), None)
    return (format_time_until(due, now=now) if due else NONE,)
