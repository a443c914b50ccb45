"""Parts that the overview page and the page of one stream share."""

from collections.abc import Iterator
from datetime import datetime
from urllib.parse import quote

from syncd.observe.board_view import CompletenessView, StageState, StageView, StreamView
from syncd.observe.dashboard.markup import Markup, tag
from syncd.observe.dashboard.page_frame import small_text
from syncd.observe.formatting import format_duration, format_number
from watermarks.names import StreamName

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
