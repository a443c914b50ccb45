"""Instants and the values of order columns."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from syncd.tables.order_clock import OrderClock
from watermarks.cursor import CursorValue, ValueKind

BERLIN = ZoneInfo("Europe/Berlin")
FOLD = datetime(2026, 10, 25, 1, 0, tzinfo=UTC)
"""When Berlin turns its clocks back, from three to two."""

instants = st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # wall times of a server have no zone
clocks = st.one_of(
    st.builds(
        OrderClock,
        kind=st.sampled_from([ValueKind.INSTANT, ValueKind.WALL]),
        steps_per_second=st.sampled_from([10**n for n in range(7)]),
    ),
    st.builds(OrderClock, kind=st.just(ValueKind.INT), steps_per_second=st.sampled_from([1, 1000, 1_000_000])),
)


@given(clocks, instants)
def test_floor_and_ceil_enclose_an_instant_by_one_step(clock: OrderClock, instant: datetime) -> None:
    floor, ceil = clock.to_instant(clock.floor_value(instant)), clock.to_instant(clock.ceil_value(instant))

    assert floor <= instant <= ceil
    assert ceil - floor in {timedelta(), timedelta(seconds=1) / clock.steps_per_second}


@given(st.integers(-5 * 3600, 5 * 3600), st.integers(0, 30 * 3600))
def test_nothing_stamped_after_a_horizon_falls_below_it_when_clocks_are_turned_back(before: int, later: int) -> None:
    """The hour that repeats: what is stamped in its second pass reads as if it came before the end of the first."""
    clock = OrderClock(kind=ValueKind.WALL, steps_per_second=1, zone=BERLIN)
    horizon = FOLD + timedelta(seconds=before)
    stamp = (horizon + timedelta(seconds=later)).astimezone(BERLIN).replace(tzinfo=None, fold=0)

    assert not CursorValue(ValueKind.WALL, stamp).precedes(clock.floor_value(horizon))


@given(st.integers(-30 * 3600, 30 * 3600), st.integers(0, 5 * 3600), st.integers(-5 * 3600, 5 * 3600))
def test_a_range_of_instants_holds_every_stamp_of_its_time_when_clocks_are_turned_back(
    stamped: int, before: int, until: int
) -> None:
    """A stamp of the second pass may read lower than the range's begin, and one of the first higher than its end."""
    clock = OrderClock(kind=ValueKind.WALL, steps_per_second=1, zone=BERLIN)
    instant = FOLD + timedelta(seconds=stamped)
    since, end = clock.ceil_value(instant - timedelta(seconds=before)), clock.end_value(FOLD + timedelta(seconds=until))
    stamp = CursorValue(ValueKind.WALL, instant.astimezone(BERLIN).replace(tzinfo=None, fold=0))

    assert not stamp.precedes(since)
    assert stamp.precedes(end) or stamped >= until


@given(clocks, instants)
def test_where_no_clock_is_turned_back_a_range_ends_where_the_next_begins(clock: OrderClock, instant: datetime) -> None:
    assert clock.end_value(instant) == clock.ceil_value(instant)


def test_far_from_a_turn_of_clocks_the_horizon_is_the_wall_clock() -> None:
    clock = OrderClock(kind=ValueKind.WALL, steps_per_second=1, zone=BERLIN)

    assert clock.floor_value(datetime(2026, 7, 1, 10, 0, 0, 900_000, tzinfo=UTC)).raw == datetime(2026, 7, 1, 12)  # noqa: DTZ001  # wall times of a server have no zone


def test_a_wall_time_that_repeats_means_its_first_instant() -> None:
    clock = OrderClock(kind=ValueKind.WALL, steps_per_second=1, zone=BERLIN)

    assert clock.to_instant(CursorValue(ValueKind.WALL, datetime(2026, 10, 25, 2, 30))) == FOLD - timedelta(minutes=30)  # noqa: DTZ001  # wall times of a server have no zone
