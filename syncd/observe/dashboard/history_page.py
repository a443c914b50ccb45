"""The page of one stream's history: who moved which mark, when and why."""

from collections.abc import Sequence
from datetime import datetime

from syncd.observe.dashboard.formatting import clock
from syncd.observe.dashboard.links import path_of
from syncd.observe.dashboard.markup import Markup, joined, tag
from syncd.observe.dashboard.page_frame import document, row, table
from syncd.observe.mark_history import Move
from watermarks.names import StreamName

COLUMNS = ("revision", "at (UTC)", "change", "extracted", "mark", "loaded", "who", "why")


def history_page(stream: StreamName, moves: Sequence[Move], *, now: datetime) -> str:
    """The page of some entries, the newest first."""
    path, name = path_of(stream), f"{stream.database}.{stream.table}"
    head = tag("h1", tag("a", "syncd", href="/"), " / ", tag("a", name, href=path), " / history")
    older = None
    if moves and moves[-1].revision > 1:
        older = tag("p", tag("a", "Older", href=f"{path}/history?before={moves[-1].revision}"))
    listed = table(COLUMNS, [_entry(move, now) for move in moves], empty="No entry.")
    section = tag("section", tag("h2", "History of the marks"), listed, older, id="history")
    return document(f"History of {name} - syncd", head=joined(head), main=section)


def no_history_page(stream: StreamName, message: str, hint: str) -> str:
    """The page that says why there is none."""
    head = tag("h1", tag("a", "syncd", href="/"), " / ", tag("a", stream.table, href=path_of(stream)), " / history")
    said = tag("p", tag("b", "The history cannot be read: "), message, " ", tag("span", hint, class_="hint"))
    return document("syncd", head=head, main=tag("section", said, id="history", class_="failed"))


def _entry(move: Move, now: datetime) -> Markup:
    key = [text.partition(":")[2] for text in move.after.get("last_mysql_key") or ()]
    mark = ", ".join(part for part in (move.after.get("last_mysql_data_timestamp") or "", *key) if part)
    by_hand = "by-hand" if move.change in {"set", "reset", "skip", "undo", "import"} else None
    return row(
        move.revision,
        clock(move.at, now=now),
        move.change,
        move.extracted or "-",
        tag("code", mark or "-"),
        move.loaded or "-",
        move.who,
        move.why,
        class_=by_hand,
    )
