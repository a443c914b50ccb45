"""The page of one stream: both stages, how far behind they were, the last runs and batches."""

from datetime import datetime

from syncd.observe.board_view import StageSeen, StreamSeen
from syncd.observe.dashboard.blocked_reason import class_of, has_why, why
from syncd.observe.dashboard.formatting import a_second, ahead, amount, clock, plural, position, span
from syncd.observe.dashboard.links import path_of
from syncd.observe.dashboard.markup import Markup, joined, tag
from syncd.observe.dashboard.page_frame import document, row, small, table
from syncd.observe.dashboard.recent_runs import batches_table, runs_table
from syncd.observe.dashboard.sparkline import spark
from syncd.observe.stage_state import LAGS
from watermarks.document import Stage

_NAMES = {Stage.EXTRACT: "MySQL to S3", Stage.LOAD: "S3 to Redshift"}


def stream_page(one: StreamSeen, *, now: datetime) -> str:
    """The page of a stream."""
    head = joined(tag("h1", tag("a", "syncd", href="/"), " / ", one.name))
    parts = (
        _summary(one, now),
        tag("section", *(_stage(stage, one, now) for stage in one.stages), id="stages", class_="cards"),
        _notices(one, now),
        tag("section", tag("h2", "Last runs"), runs_table([(None, run) for run in one.runs], now=now), id="runs"),
        tag(
            "section",
            tag("h2", "Last batches"),
            batches_table([(None, batch) for batch in one.batches], now=now),
            tag("p", tag("a", "History of the marks", href=f"{path_of(one.stream)}/history")),
            id="batches",
        ),
    )
    return document(f"{one.name} - syncd", head=head, main=joined(*parts))


def _summary(one: StreamSeen, now: datetime) -> Markup:
    whys = [tag("p", *why(stage, now), class_=f"why {class_of(stage.state)}") for stage in one.stages if has_why(stage)]
    way = f"{one.stream.source} → {one.target}" if one.target else f"{one.stream.source}, to the lake alone"
    promised = f"promised within {span(one.promised)}" if one.promised else None
    aside = f"{plural(one.quarantined, 'row')} put aside since the daemon began" if one.quarantined else None
    line = tag(
        "p", tag("span", one.mood, class_=f"pill {class_of(one.mood)}"), " ", small(way, one.every, promised, aside)
    )
    return tag("section", line, *whys, id="summary")


def _stage(stage: StageSeen, one: StreamSeen, now: datetime) -> Markup:
    facts: list[Markup] = []
    for name, said in _facts(stage, one, now):
        facts += [tag("dt", name), tag("dd", *said)]
    promised = one.promised.total_seconds() if one.promised and stage is one.last_stage else None
    line = spark(stage.lags, room=LAGS, promised=promised, width=400, height=60)
    title = tag("h2", _NAMES[stage.stage], " ", tag("span", stage.state, class_=f"pill {class_of(stage.state)}"))
    return tag("div", title, tag("div", line, _most(stage), class_="wide"), tag("dl", *facts), class_="card")


def _most(stage: StageSeen) -> Markup | None:
    known = [lag for lag in stage.lags if lag is not None]
    return small("behind, over the last half hour", f"at most {span(max(known))}") if known else None


def _facts(stage: StageSeen, one: StreamSeen, now: datetime) -> list[tuple[str, tuple[Markup | str, ...]]]:
    complete, none = stage.complete, tag("span", "-", class_="none")
    upto: tuple[Markup | str, ...] = (tag("span", "not known yet", class_="none"),)
    if complete is not None:
        proven = "proven" if complete.proven else tag("em", "not proven")
        upto = clock(complete.upto, now=now), " ", small(f"{span(complete.behind)} behind", proven)
    facts = [
        ("complete up to", upto),
        ("mark", (tag("code", position(stage.mark) or "-"),)),
        ("speed", (a_second(stage.rows_a_second) or none,)),
        ("at work", _at_work(stage, now)),
        ("last run", (clock(stage.last, now=now) if stage.last else none,)),
        ("next run", (f"{ahead(stage.next, now=now)}" if stage.next else none,)),
        ("way of working", (stage.strategy or none,)),
    ]
    if stage.stage is Stage.LOAD:
        facts.insert(2, ("to load", (plural(one.pending, "batch"),)))
    return facts


def _at_work(stage: StageSeen, now: datetime) -> tuple[Markup | str, ...]:
    if not stage.running or stage.began is None:
        return (tag("span", "-", class_="none"),)
    rows = f", {amount(stage.rows_so_far)} rows so far" if stage.rows_so_far else ""
    return (tag("span", f"for {span(now - stage.began)}{rows}", class_="running"),)


def _notices(one: StreamSeen, now: datetime) -> Markup:
    if not one.notices:
        return tag("section", id="notices")
    rows = [row(clock(notice.at, now=now), notice.text) for notice in one.notices]
    return tag("section", tag("h2", "Worth knowing"), table(("at", "what"), rows, empty=""), id="notices")
