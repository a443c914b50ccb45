"""Pages of one stream: both stages, recent runs and batches, and the history of its marks."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from syncd.observe.board_view import StageView, StreamView
from syncd.observe.dashboard.page_frame import (
    Markup,
    html_document,
    html_table,
    join_markup,
    small_text,
    table_row,
    tag,
)
from syncd.observe.dashboard.stream_parts import (
    NONE,
    batches_table,
    completeness_cells,
    passes_table,
    running_texts,
    sparkline,
    state_pill,
    stream_path,
    time_element,
    trouble_lines,
)
from syncd.observe.formatting import (
    format_count,
    format_cursor,
    format_duration,
    format_rows_per_second,
    format_time_until,
)
from syncd.observe.mark_history import MarkHistoryEntry
from syncd.observe.stage_state import MAX_LAG_POINTS
from watermarks.document import Stage
from watermarks.names import StreamName

_STAGE_TITLES = {Stage.EXTRACT: "MySQL to S3", Stage.LOAD: "S3 to Redshift"}
_Fact: TypeAlias = tuple[str, tuple[Markup | str, ...]]


def stream_page(stream: StreamView, *, now: datetime) -> str:
    head = join_markup(tag("h1", tag("a", "syncd", href="/"), " / ", stream.name))
    history = tag("p", tag("a", "History of the marks", href=f"{stream_path(stream.stream)}/history"))
    passes = passes_table([(None, record) for record in stream.runs], now=now)
    batches = batches_table([(None, record) for record in stream.batches], now=now)
    parts = (
        _summary_section(stream, now),
        tag("section", *(_stage_card(stage, stream, now) for stage in stream.stages), id="stages", class_="cards"),
        _notices_section(stream, now),
        tag("section", tag("h2", "Last runs"), passes, id="runs"),
        tag("section", tag("h2", "Last batches"), batches, history, id="batches"),
    )
    return html_document(f"{stream.name} - syncd", head=head, main=join_markup(*parts))


def _summary_section(stream: StreamView, now: datetime) -> Markup:
    source, rows = stream.stream.source, stream.quarantined_rows
    route = f"{source} → {stream.target}" if stream.target else f"{source}, to the lake only"
    promised = f"promised within {format_duration(stream.promised_lag)}" if stream.promised_lag else None
    quarantined = f"{format_count(rows, 'row')} quarantined since the daemon began" if rows else None
    line = tag("p", state_pill(stream.state), " ", small_text(route, stream.schedule, promised, quarantined))
    return tag("section", line, *trouble_lines(stream, now, class_prefix="why "), id="summary")


def _stage_card(stage: StageView, stream: StreamView, now: datetime) -> Markup:
    facts: list[Markup] = []
    for name, texts in _stage_facts(stage, stream, now):
        facts += [tag("dt", name), tag("dd", *texts)]
    promised = stream.promised_lag.total_seconds() if stream.promised_lag and stage is stream.last_stage else None
    line = sparkline(stage.lag_seconds, points=MAX_LAG_POINTS, promised=promised, width=400, height=60)
    title = tag("h2", _STAGE_TITLES[stage.stage], " ", state_pill(stage.state))
    return tag("div", title, tag("div", line, _max_lag_text(stage), class_="wide"), tag("dl", *facts), class_="card")


def _max_lag_text(stage: StageView) -> Markup | None:
    known = [lag for lag in stage.lag_seconds if lag is not None]
    return small_text("behind, over the last half hour", f"at most {format_duration(max(known))}") if known else None


def _stage_facts(stage: StageView, stream: StreamView, now: datetime) -> list[_Fact]:
    facts: list[_Fact] = [
        ("complete up to", completeness_cells(stage.complete, now=now)),
        ("mark", (tag("code", format_cursor(stage.mark) or "-"),)),
        ("speed", (format_rows_per_second(stage.rows_per_second) or NONE,)),
        ("at work", (_running_text(stage, now),)),
        ("last run", (time_element(stage.last_ended_at, now=now) if stage.last_ended_at else NONE,)),
        ("next run", (format_time_until(stage.next_due_at, now=now) if stage.next_due_at else NONE,)),
        ("strategy", (stage.strategy or NONE,)),
    ]
    if stage.stage is Stage.LOAD:
        facts.insert(2, ("to load", (format_count(stream.pending_batches, "batch"),)))
    return facts


def _running_text(stage: StageView, now: datetime) -> Markup:
    if not stage.running:
        return NONE
    return tag("span", ", ".join(filter(None, running_texts(stage, now))), class_="running")


def _notices_section(stream: StreamView, now: datetime) -> Markup:
    if not stream.notices:
        return tag("section", id="notices")
    rows = [table_row(time_element(notice.noticed_at, now=now), notice.text) for notice in stream.notices]
    return tag("section", tag("h2", "Worth knowing"), html_table(("at", "what"), rows, empty=""), id="notices")


HISTORY_COLUMNS = ("revision", "at (UTC)", "change", "extracted", "mark", "loaded", "author", "reason")


def history_page(stream: StreamName, entries: Sequence[MarkHistoryEntry], *, now: datetime) -> str:
    """Return the page of these entries, which come newest first."""
    path, name = stream_path(stream), stream.table_name
    head = tag("h1", tag("a", "syncd", href="/"), " / ", tag("a", name, href=path), " / history")
    older = None
    if entries and entries[-1].revision > 1:
        older = tag("p", tag("a", "Older", href=f"{path}/history?before={entries[-1].revision}"))
    listed = html_table(HISTORY_COLUMNS, [_entry_row(entry, now) for entry in entries], empty="No entry.")
    section = tag("section", tag("h2", "History of the marks"), listed, older, id="history")
    return html_document(f"History of {name} - syncd", head=join_markup(head), main=section)


def history_error_page(stream: StreamName, message: str, hint: str) -> str:
    """Return the page for a history that cannot be read."""
    head = tag("h1", tag("a", "syncd", href="/"), " / ", tag("a", stream.table, href=stream_path(stream)), " / history")
    text = tag("p", tag("b", "The history cannot be read: "), message, " ", tag("span", hint, class_="hint"))
    return html_document("syncd", head=head, main=tag("section", text, id="history", class_="failed"))


def _entry_row(entry: MarkHistoryEntry, now: datetime) -> Markup:
    key = [text.partition(":")[2] for text in entry.after.get("last_mysql_key") or ()]
    mark = ", ".join(part for part in (entry.after.get("last_mysql_data_timestamp") or "", *key) if part)
    by_hand = "by-hand" if entry.change in {"set", "reset", "skip", "undo", "import"} else None
    return table_row(
        entry.revision,
        time_element(entry.changed_at, now=now),
        entry.change,
        entry.last_extracted or "-",
        tag("code", mark or "-"),
        entry.last_loaded or "-",
        entry.author,
        entry.reason,
        class_=by_hand,
    )
