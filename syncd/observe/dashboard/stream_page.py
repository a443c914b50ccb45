"""The page of one stream: both stages, how far behind they were, the last runs and batches."""

from datetime import datetime

from syncd.observe.board_view import StageView, StreamView
from syncd.observe.dashboard.blocked_reason import css_class, has_waiting_reason, waiting_text
from syncd.observe.dashboard.formatting import (
    format_cursor,
    format_duration,
    format_number,
    format_plural,
    format_rows_per_second,
    format_time_until,
    time_element,
)
from syncd.observe.dashboard.links import stream_path
from syncd.observe.dashboard.markup import Markup, join_markup, tag
from syncd.observe.dashboard.page_frame import html_document, html_table, small_text, table_row
from syncd.observe.dashboard.recent_runs import batches_table, passes_table
from syncd.observe.dashboard.sparkline import sparkline
from syncd.observe.stage_state import MAX_LAG_POINTS
from watermarks.document import Stage

_STAGE_TITLES = {Stage.EXTRACT: "MySQL to S3", Stage.LOAD: "S3 to Redshift"}


def stream_page(stream: StreamView, *, now: datetime) -> str:
    """The page of a stream."""
    head = join_markup(tag("h1", tag("a", "syncd", href="/"), " / ", stream.name))
    parts = (
        _summary_section(stream, now),
        tag("section", *(_stage_card(stage, stream, now) for stage in stream.stages), id="stages", class_="cards"),
        _notices_section(stream, now),
        tag("section", tag("h2", "Last runs"), passes_table([(None, run) for run in stream.runs], now=now), id="runs"),
        tag(
            "section",
            tag("h2", "Last batches"),
            batches_table([(None, batch) for batch in stream.batches], now=now),
            tag("p", tag("a", "History of the marks", href=f"{stream_path(stream.stream)}/history")),
            id="batches",
        ),
    )
    return html_document(f"{stream.name} - syncd", head=head, main=join_markup(*parts))


def _summary_section(stream: StreamView, now: datetime) -> Markup:
    whys = [
        tag("p", *waiting_text(stage, now), class_=f"why {css_class(stage.state)}")
        for stage in stream.stages
        if has_waiting_reason(stage)
    ]
    way = f"{stream.stream.source} → {stream.target}" if stream.target else f"{stream.stream.source}, to the lake alone"
    promised = f"promised within {format_duration(stream.promised_lag)}" if stream.promised_lag else None
    aside = (
        f"{format_plural(stream.quarantined_rows, 'row')} put aside since the daemon began"
        if stream.quarantined_rows
        else None
    )
    line = tag(
        "p",
        tag("span", stream.state, class_=f"pill {css_class(stream.state)}"),
        " ",
        small_text(way, stream.schedule, promised, aside),
    )
    return tag("section", line, *whys, id="summary")


def _stage_card(stage: StageView, stream: StreamView, now: datetime) -> Markup:
    facts: list[Markup] = []
    for name, said in _stage_facts(stage, stream, now):
        facts += [tag("dt", name), tag("dd", *said)]
    promised = stream.promised_lag.total_seconds() if stream.promised_lag and stage is stream.last_stage else None
    line = sparkline(stage.lag_seconds, points=MAX_LAG_POINTS, promised=promised, width=400, height=60)
    title = tag(
        "h2", _STAGE_TITLES[stage.stage], " ", tag("span", stage.state, class_=f"pill {css_class(stage.state)}")
    )
    return tag("div", title, tag("div", line, _max_lag_text(stage), class_="wide"), tag("dl", *facts), class_="card")


def _max_lag_text(stage: StageView) -> Markup | None:
    known = [lag for lag in stage.lag_seconds if lag is not None]
    return small_text("behind, over the last half hour", f"at most {format_duration(max(known))}") if known else None


def _stage_facts(stage: StageView, stream: StreamView, now: datetime) -> list[tuple[str, tuple[Markup | str, ...]]]:
    complete, none = stage.complete, tag("span", "-", class_="none")
    upto: tuple[Markup | str, ...] = (tag("span", "not known yet", class_="none"),)
    if complete is not None:
        proven = "proven" if complete.is_proven else tag("em", "not proven")
        upto = time_element(complete.upto, now=now), " ", small_text(f"{format_duration(complete.lag)} behind", proven)
    facts = [
        ("complete up to", upto),
        ("mark", (tag("code", format_cursor(stage.mark) or "-"),)),
        ("speed", (format_rows_per_second(stage.rows_per_second) or none,)),
        ("at work", _running_text(stage, now)),
        ("last run", (time_element(stage.last_ended_at, now=now) if stage.last_ended_at else none,)),
        ("next run", (f"{format_time_until(stage.next_due_at, now=now)}" if stage.next_due_at else none,)),
        ("way of working", (stage.strategy or none,)),
    ]
    if stage.stage is Stage.LOAD:
        facts.insert(2, ("to load", (format_plural(stream.pending_batches, "batch"),)))
    return facts


def _running_text(stage: StageView, now: datetime) -> tuple[Markup | str, ...]:
    if not stage.running or stage.began_at is None:
        return (tag("span", "-", class_="none"),)
    rows = f", {format_number(stage.rows_so_far)} rows so far" if stage.rows_so_far else ""
    return (tag("span", f"for {format_duration(now - stage.began_at)}{rows}", class_="running"),)


def _notices_section(stream: StreamView, now: datetime) -> Markup:
    if not stream.notices:
        return tag("section", id="notices")
    rows = [table_row(time_element(notice.noticed_at, now=now), notice.text) for notice in stream.notices]
    return tag("section", tag("h2", "Worth knowing"), html_table(("at", "what"), rows, empty=""), id="notices")
