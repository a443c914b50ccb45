"""A small line that shows how far behind a stage was over the last half hour."""

from collections.abc import Iterator, Sequence
from typing import Final

from syncd.observe.dashboard.formatting import span
from syncd.observe.dashboard.markup import Markup, joined, tag

CALM: Final = 60.0
"""Seconds: a line whose lags are all smaller stays low, so that only what matters looks like much."""


def spark(
    lags: Sequence[float | None], *, room: int, promised: float | None = None, width: int = 120, height: int = 28
) -> Markup:
    """A line over `room` steps, the newest at the right; a gap where nothing was known."""
    known = [lag for lag in lags if lag is not None]
    if not known:
        return tag("span", "-", class_="none")
    top = max(*known, promised or 0.0, CALM) * 1.1
    runs = list(_runs(lags, room=room, top=top, width=width, height=height))
    said = f"now {span(known[-1])} behind, at most {span(max(known))} in the last half hour"
    shapes = [_area(run, height) for run in runs] + [tag("path", d=_line(run), class_="line") for run in runs]
    if promised is not None:
        y = f"{_y(promised, top, height):.1f}"
        shapes.append(tag("line", x1="0", x2=str(width), y1=y, y2=y, class_="promise"))
    return tag(
        "svg",
        tag("title", said),
        joined(*shapes),
        viewBox=f"0 0 {width} {height}",
        preserveAspectRatio="none",
        role="img",
        aria_label=said,
        class_="spark",
    )


Points = list[tuple[float, float]]


def _runs(lags: Sequence[float | None], *, room: int, top: float, width: int, height: int) -> Iterator[Points]:
    """The points of each stretch that has no gap."""
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


def _line(run: Points) -> str:
    first = run[0]
    ends = run if len(run) > 1 else [(first[0] - 1, first[1]), first]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in ends)


def _area(run: Points, height: int) -> Markup:
    return tag("path", d=f"{_line(run)}L{run[-1][0]:.1f} {height}L{run[0][0]:.1f} {height}Z", class_="area")
