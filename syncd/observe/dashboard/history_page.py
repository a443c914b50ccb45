"""Page of one stream's history: who moved which mark, when and why."""

from collections.abc import Sequence
from datetime import datetime

from syncd.observe.dashboard.markup import Markup, join_markup, tag
from syncd.observe.dashboard.page_frame import html_document, html_table, table_row
from syncd.observe.dashboard.stream_parts import stream_path, time_element
from syncd.observe.mark_history import MarkHistoryEntry
from watermarks.names import StreamName

HISTORY_COLUMNS = ("revision", "at (UTC)", "change", "extracted", "mark", "loaded", "who", "why")


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
        entry.who,
        entry.why,
        class_=by_hand,
    )
