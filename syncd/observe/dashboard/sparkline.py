"""Sparkline of a stage's lag over the last half hour."""

from collections.abc import Iterator, Sequence
from typing import Final

from syncd.observe.dashboard.markup import Markup, join_markup, tag
from syncd.observe.formatting import format_duration

MIN_SCALE_SECONDS: Final = 60.0
"""Lower bound of the scale, so that a line of small lags stays low."""


def sparkline(
    lags: Sequence[float | None], *, points: int, promised: float | None = None, width: int = 120, height: int = 28
) -> Markup:
    """Return a line over `points` steps, the newest at the right, with gaps where the lag was unknown."""
    known = [lag for lag in lags if lag is not None]
    if not known:
        return tag("span", "-", class_="none")
    top = max(*known, promised or 0.0, MIN_SCALE_SECONDS) * 1.1
    runs = list(_segments(lags, room=points, top=top, width=width, height=height))
    text = f"now {format_duration(known[-1])} behind, at most {format_duration(max(known))} in the last half hour"
    shapes = [_area_path(run, height) for run in runs] + [tag("path", d=_path_data(run), class_="line") for run in runs]
    if promised is not None:
        y = f"{_y(promised, top, height):.1f}"
        shapes.append(tag("line", x1="0", x2=str(width), y1=y, y2=y, class_="promise"))
    return tag(
        "svg",
        tag("title", text),
        join_markup(*shapes),
        viewBox=f"0 0 {width} {height}",
        preserveAspectRatio="none",
        role="img",
        aria_label=text,
        class_="spark",
    )


Points = list[tuple[float, float]]


def _segments(lags: Sequence[float | None], *, room: int, top: float, width: int, height: int) -> Iterator[Points]:
    """Return the points of each stretch without a gap."""
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


def _path_data(segment: Points) -> str:
    first = segment[0]
    ends = segment if len(segment) > 1 else [(first[0] - 1, first[1]), first]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in ends)


def _area_path(segment: Points, height: int) -> Markup:
    return tag(
        "path", d=f"{_path_data(segment)}L{segment[-1][0]:.1f} {height}L{segment[0][0]:.1f} {height}Z", class_="area"
    )
