"""The page of all streams: those with trouble first, each with what it waits for and what would help."""

from datetime import datetime

from syncd.observe.board_view import BoardSeen, Mood, StreamSeen
from syncd.observe.dashboard.blocked_reason import class_of, has_why, why
from syncd.observe.dashboard.formatting import a_second, ahead, amount, clock, plural, span
from syncd.observe.dashboard.links import link_to
from syncd.observe.dashboard.markup import Markup, joined, tag
from syncd.observe.dashboard.page_frame import document, small
from syncd.observe.dashboard.recent_runs import batches_table, runs_table
from syncd.observe.dashboard.sparkline import spark
from syncd.observe.stage_state import LAGS

COLUMNS = ("state", "stream", "complete up to", "lag, half an hour", "speed", "to load", "next")


def overview(seen: BoardSeen, *, find: str = "") -> str:
    """The page; with `find`, of the streams whose name or state holds these words."""
    streams = [one for one in seen.streams if _matches(one, find)]
    troubled = seen.count(Mood.FAILED) + seen.count(Mood.LATE)
    title = f"{plural(troubled, 'stream')} in trouble - syncd" if troubled else "syncd"
    return document(title, head=_head(find), main=_main(seen, streams, find))


def _matches(one: StreamSeen, find: str) -> bool:
    words = f"{one.stream} {one.target} {one.mood}".casefold()
    return all(word in words for word in find.casefold().split())


def _head(find: str) -> Markup:
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
    return joined(tag("h1", tag("a", "syncd", href="/")), search)


def _main(seen: BoardSeen, streams: list[StreamSeen], find: str) -> Markup:
    rows = [_stream(one, seen.at) for one in streams]
    head = tag("thead", tag("tr", *(tag("th", column, scope="col") for column in COLUMNS)), id="columns")
    board = tag("table", head, *rows, id="board", class_="board", data_keyed=True)
    if not rows:
        board = tag(
            "p", f"No stream matches “{find}”." if find else "No stream is configured.", id="board", class_="empty"
        )
    runs = tag("section", tag("h2", "Last runs"), runs_table(seen.runs, now=seen.at), id="runs")
    batches = tag("section", tag("h2", "Last batches"), batches_table(seen.batches, now=seen.at), id="batches")
    return joined(_summary(seen), board, runs, batches)


def _summary(seen: BoardSeen) -> Markup:
    counts = [(mood, seen.count(mood)) for mood in Mood]
    parts: list[Markup | str] = [tag("b", plural(len(seen.streams), "stream"))]
    for mood, number in counts:
        if number:
            parts += [
                " ",
                tag(
                    "a", f"{number:,} {mood}", class_=f"pill {class_of(mood)}", href=f"/?find={mood.replace(' ', '+')}"
                ),
            ]
    at = tag("span", "as of ", clock(seen.at, now=seen.at), " UTC, since ", clock(seen.since, now=seen.at), class_="at")
    return tag("p", *parts, at, id="summary")


def _stream(one: StreamSeen, now: datetime) -> Markup:
    last = one.last_stage
    promised = one.promised.total_seconds() if one.promised else None
    cells = (
        tag("td", tag("span", one.mood, class_=f"pill {class_of(one.mood)}"), class_="state"),
        tag("th", link_to(one.stream), small(_way(one), one.every), scope="row"),
        tag("td", *_complete(one, now), class_="complete"),
        tag("td", spark(last.lags, room=LAGS, promised=promised), class_="lag"),
        tag("td", a_second(last.rows_a_second) or "-", class_="speed"),
        tag("td", _to_load(one), class_="pending"),
        tag("td", *_next(one, now), class_="next"),
    )
    whys = [tag("p", *why(stage, now), class_=class_of(stage.state)) for stage in one.stages if has_why(stage)]
    below = tag("tr", tag("td", *whys, colspan=str(len(COLUMNS))), class_="why") if whys else None
    return tag("tbody", tag("tr", *cells), below, id=f"stream {one.stream}", data_mood=one.mood)


def _way(one: StreamSeen) -> str:
    return f"{one.stream.source} → {one.target}" if one.target else one.stream.source


def _complete(one: StreamSeen, now: datetime) -> tuple[Markup, ...]:
    complete = one.last_stage.complete
    if complete is None:
        return (tag("span", "not known yet", class_="none"),)
    promise = f"promised {span(one.promised)}" if one.mood is Mood.LATE and one.promised else None
    proven = "proven" if complete.proven else tag("em", "not proven")
    return clock(complete.upto, now=now), small(f"{span(complete.behind)} behind", proven, promise)


def _to_load(one: StreamSeen) -> str:
    if not one.target:
        return "-"
    return plural(one.pending, "batch") if one.pending else "-"


def _next(one: StreamSeen, now: datetime) -> tuple[Markup | str, ...]:
    running = [stage for stage in one.stages if stage.running]
    if running:
        stage = running[0]
        rows = f"{amount(stage.rows_so_far)} rows so far" if stage.rows_so_far else None
        took = f"for {span(now - stage.began)}" if stage.began else None
        return tag("span", f"{stage.stage} at work", class_="running"), small(took, rows)
    # The stage that has trouble is the one that is waited for; else the first one, which wakes the other.
    ordered = sorted(one.stages, key=lambda stage: stage.trouble is None)
    coming = next((stage.next for stage in ordered if stage.next is not None), None)
    return (ahead(coming, now=now) if coming else tag("span", "-", class_="none"),)
