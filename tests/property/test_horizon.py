"""The rule of the horizon against a server made up of instants: no stamp below a bound appears after its poll."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from syncd.horizon import (
    NO_CONNECTION,
    HorizonNotes,
    HorizonPoll,
    ServerThread,
    Visibility,
    WritingTransaction,
    compute_horizons,
)
from syncd.ports.source import HorizonRequest, TableName

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLES = tuple(TableName(database="shop", table=name) for name in "tu")
ONE_SECOND = 1_000_000


def at(tick: int) -> datetime:
    return BEGIN + timedelta(microseconds=tick)


@dataclass(frozen=True, slots=True)
class Statement:
    """It stamps when it begins, locks its table later, and changes a row later still."""

    begun: int
    locked: int
    changed: int
    ended: int
    table: TableName


@dataclass(frozen=True, slots=True)
class Transaction:
    """Statements one after the other on one connection; prepared ones lose it before they end."""

    connection: int
    number: int
    statements: tuple[Statement, ...]
    left: int | None
    ended: int

    def client(self, tick: int) -> int:
        return NO_CONNECTION if self.left is not None and tick >= self.left else self.connection

    def changed_rows(self, tick: int) -> bool:
        return tick < self.ended and any(each.changed <= tick for each in self.statements)

    def locked(self, tick: int) -> frozenset[TableName]:
        return frozenset(each.table.normal_form for each in self.statements if each.locked <= tick < self.ended)


@st.composite
def transactions(draw: st.DrawFn, connection: int) -> tuple[Transaction, ...]:
    """What one connection does, one transaction after the other."""
    gap = st.one_of(st.integers(1, 2000), st.integers(1, 5 * ONE_SECOND))
    now, found = draw(gap), []
    for number in range(draw(st.integers(1, 3))):
        statements = []
        for _ in range(draw(st.integers(1, 3))):
            begun = now
            locked, changed, ended = (begun := begun + draw(gap) for _ in range(3))
            statements.append(Statement(now, locked, changed, ended, draw(st.sampled_from(TABLES))))
            now = ended + draw(gap)
        left = now if draw(st.booleans()) else None
        now += draw(gap)
        found.append(Transaction(connection, connection * 10 + number, tuple(statements), left, now))
        now += draw(gap)
    return tuple(found)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Transaction, ...]:
    return tuple(each for number in range(1, draw(st.integers(2, 5))) for each in draw(transactions(number)))


@dataclass(frozen=True, slots=True)
class Instants:
    """When the reads of one poll happen."""

    t0: int
    a: int
    c1: int
    b: int
    c2: int
    lag: int = 0
    """How far the clock that counts statements' seconds is behind the one that stamps."""


@st.composite
def polls(draw: st.DrawFn) -> tuple[Instants, ...]:
    now, found = 0, []
    step = st.one_of(st.integers(1, 500), st.integers(1, ONE_SECOND))
    for _ in range(draw(st.integers(1, 12))):
        now += draw(st.integers(1, 4 * ONE_SECOND))
        t0 = now
        a, c1, b, c2 = (now := now + draw(step) for _ in range(4))
        found.append(Instants(t0, a, c1, b, c2, draw(st.one_of(st.just(0), st.integers(0, ONE_SECOND)))))
    return tuple(found)


def running(world: tuple[Transaction, ...], tick: int) -> list[tuple[Transaction, Statement]]:
    return [(each, one) for each in world for one in each.statements if one.begun <= tick < one.ended]


def looked(world: tuple[Transaction, ...], when: Instants, *, with_locks: bool, by_table: bool) -> HorizonPoll:
    """What a real server would have answered at those instants."""
    threads = tuple(
        ServerThread(
            connection=each.connection,
            lock_owner=each.connection,
            command="Query",
            running_for=timedelta(seconds=max(0, (when.a - when.lag) // ONE_SECOND - one.begun // ONE_SECOND)),
            whole_seconds=True,
            state="executing" if one.locked <= when.a else "Waiting for table metadata lock",
        )
        for each, one in running(world, when.a)
    )
    idle = tuple(
        ServerThread(connection=number, lock_owner=number, command="Sleep", running_for=None, whole_seconds=True)
        for number in {each.connection for each in world} - {thread.connection for thread in threads}
    )
    locks: dict[int, frozenset[TableName]] = {}
    for tick in (when.c1, when.c2):
        for each in world:
            # A prepared transaction keeps its locks, under a name that no connection has.
            if each.locked(tick) and each.client(tick):
                locks[each.connection] = locks.get(each.connection, frozenset()) | each.locked(tick)
    writers = tuple(
        WritingTransaction(
            trx_id=str(each.number),
            connection=each.client(when.b),
            lock_owner=each.client(when.b),
            table=table,
        )
        for each in world
        for table in (each.locked(when.b) if by_table else [None])
        if by_table or each.changed_rows(when.b)
    )
    return HorizonPoll(
        t0=at(when.t0),
        identity="one",
        visibility=Visibility.TABLES if by_table else Visibility.SERVER,
        threads=(*threads, *idle),
        writers=writers,
        locks=locks if with_locks else None,
        tables=frozenset(TABLES) if by_table else None,
    )


def lowest_to_come(world: tuple[Transaction, ...], tick: int, table: TableName) -> datetime | None:
    """The lowest stamp in the table that a snapshot of this instant does not show."""
    hidden = [one.begun for each in world if each.ended > tick for one in each.statements if one.table == table]
    return at(min(hidden)) if hidden else None


@settings(max_examples=100)
@given(world=worlds(), when=polls(), data=st.data(), with_locks=st.booleans(), by_table=st.booleans())
def test_no_stamp_below_a_bound_appears_after_its_poll(
    world: tuple[Transaction, ...], when: tuple[Instants, ...], data: st.DataObject, *, with_locks: bool, by_table: bool
) -> None:
    notes: HorizonNotes | None = None
    marks: dict[TableName, datetime] = {}
    for each in when:
        if data.draw(st.integers(0, 5)) == 0:
            notes = None  # only the marks are left
        readings = looked(world, each, with_locks=with_locks, by_table=by_table)
        asked = [HorizonRequest(table=table, mark=marks.get(table)) for table in TABLES]

        answers, notes = compute_horizons(readings, notes, asked)

        for table, answer in answers.items():
            to_come = lowest_to_come(world, each.c2, table)
            if answer.bound is None:
                continue
            assert answer.proven
            assert answer.bound <= readings.t0
            assert to_come is None or answer.bound <= to_come, (table, answer, to_come)
            marks[table] = max(answer.bound, marks.get(table, answer.bound))


@settings(max_examples=100)
@given(world=worlds(), when=polls(), with_locks=st.booleans())
def test_skipping_polls_never_makes_a_bound_unsound(
    world: tuple[Transaction, ...], when: tuple[Instants, ...], *, with_locks: bool
) -> None:
    notes: HorizonNotes | None = None
    for number, each in enumerate(when):
        answers, after = compute_horizons(
            looked(world, each, with_locks=with_locks, by_table=False),
            notes,
            [HorizonRequest(table=table) for table in TABLES],
        )
        for table, answer in answers.items():
            to_come = lowest_to_come(world, each.c2, table)
            assert answer.bound is None or to_come is None or answer.bound <= to_come
        if number % 3 == 0:
            notes = after  # the others were kept by nobody


@settings(max_examples=100)
@given(world=worlds(), when=polls())
def test_knowing_the_locks_never_lowers_a_bound_of_the_same_polls(
    world: tuple[Transaction, ...], when: tuple[Instants, ...]
) -> None:
    asked = [HorizonRequest(table=table) for table in TABLES]
    narrow: HorizonNotes | None = None
    wide: HorizonNotes | None = None
    for each in when:
        by_locks, narrow = compute_horizons(looked(world, each, with_locks=True, by_table=False), narrow, asked)
        for_all, wide = compute_horizons(looked(world, each, with_locks=False, by_table=False), wide, asked)
        for table in TABLES:
            low, high = for_all[table].bound, by_locks[table].bound
            assert low is None or (high is not None and low <= high)


@settings(max_examples=100)
@given(world=worlds(), when=polls(), with_locks=st.booleans())
def test_bounds_never_fall(world: tuple[Transaction, ...], when: tuple[Instants, ...], *, with_locks: bool) -> None:
    notes: HorizonNotes | None = None
    last = {table: datetime.min.replace(tzinfo=UTC) for table in TABLES}
    for each in when:
        readings = looked(world, each, with_locks=with_locks, by_table=False)
        answers, notes = compute_horizons(readings, notes, [HorizonRequest(table=table) for table in TABLES])
        for table, answer in answers.items():
            assert answer.bound is None or answer.bound >= last[table]
            last[table] = answer.bound or last[table]


def test_the_model_can_lose_rows() -> None:
    """Notes matter: with a bound of its own start for a new transaction, the model finds a row below the bound."""
    statement = Statement(ONE_SECOND, ONE_SECOND + 1, ONE_SECOND + 2, ONE_SECOND + 3, TABLES[0])
    world = (Transaction(1, 10, (statement,), None, 9 * ONE_SECOND),)
    when = Instants(*range(2 * ONE_SECOND, 2 * ONE_SECOND + 5))

    careless, _ = compute_horizons(
        looked(world, when, with_locks=True, by_table=False),
        HorizonNotes(identity="one", t0=at(when.t0 - 10), first_stamps={"10": at(when.t0)}),
        [HorizonRequest(table=TABLES[0])],
    )

    to_come = lowest_to_come(world, when.c2, TABLES[0])
    assert to_come is not None
    assert careless[TABLES[0]].bound == at(when.t0)
    assert at(when.t0) > to_come
