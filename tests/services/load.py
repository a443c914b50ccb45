"""Writers that do to a server what makes cursors lose rows: stamps that are old by the time their rows appear.

Twenty connections change the tables `whole` (seconds) and `fine` (microseconds) of one database: short
transactions and long ones, late commits, prepared transactions whose clients are gone, statements that stamp and
then sleep, wait or run long, ties, savepoints. Beside them: ALTER and LOCK TABLES, reports, an unrelated open
transaction, events that the server carries out, text that MySQL cannot list. Every change adds one to the row's `v`:
whoever has seen the highest `v` of every row has lost nothing.

A load that is `deep` has, among the twenty, one that stamps that many rows alike by one statement, one that changes
rows all over these while they are read, and one that changes the same twenty every tenth of a second; and beside
them a transaction on their table that stays open for a minute.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pymysql

from syncd.sandbox.mysql import MySqlAddress
from tests.services.clients import PATIENT, Client, eventually

TABLES: Final = {"whole": 0, "fine": 6}
ROWS: Final = 400
HOT: Final = range(100_001, 100_021)
HELD: Final = 100_050
"""The row of the minute's transaction; those between keep its lock from the hot ones."""
DEEP: Final = 200_001
"""The first of the rows that are stamped alike."""
HELD_FOR: Final = 60.0
GROWN_AT_MOST: Final = 3
"""How often the rows that are stamped alike are new ones: the table shall end some day."""
PASSING: Final = frozenset({1205, 1213, 1317, 1399, 1402, 1568, 1613, 1614, 3572})
"""Lock waits that ended, deadlocks, and what they make of an XA transaction."""


@dataclass(slots=True)
class Load:
    """The writers, from `start` to `stop`; `longest` is how many seconds a transaction stays open at most."""

    address: MySqlAddress
    longest: float
    seed: int = 1
    deep: int = 0
    """How many rows one statement stamps alike; none in a short run."""
    counts: Counter[str] = field(default_factory=Counter[str])
    """Transactions that were carried through, by what they did."""
    broken: list[BaseException] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _prepared: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def done(self) -> int:
        return self.counts.total()

    def prepare(self) -> None:
        """The tables, a function and a procedure."""
        with Client(self.address) as client:
            for table, digits in TABLES.items():
                now = f"CURRENT_TIMESTAMP({digits})"
                client.run(
                    f"DROP TABLE IF EXISTS {table}",
                    f"CREATE TABLE {table} (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1,"
                    f" update_at DATETIME({digits}) NOT NULL DEFAULT {now} ON UPDATE {now}, KEY (update_at, id))",
                    f"INSERT INTO {table} () VALUES {', '.join(['()'] * ROWS)}",
                    f"DROP FUNCTION IF EXISTS touch_{table}",
                    f"CREATE FUNCTION touch_{table}(which BIGINT, pause DOUBLE) RETURNS INT BEGIN DO SLEEP(pause);"
                    f" UPDATE {table} SET v = v + 1 WHERE id = which; RETURN 1; END",
                    f"DROP PROCEDURE IF EXISTS walk_{table}",
                    f"CREATE PROCEDURE walk_{table}(which BIGINT, pause DOUBLE) BEGIN"
                    f" UPDATE {table} SET v = v + 1 WHERE id = which; DO SLEEP(pause);"
                    f" UPDATE {table} SET v = v + 1 WHERE id = which + 1; END",
                )
                if self.deep:
                    client.run(
                        f"INSERT INTO {table} (id) SELECT {HOT.start} + n FROM {_numbers(2)}",
                        f"INSERT INTO {table} (id) SELECT {DEEP} + n FROM {_numbers(6)} WHERE n < {self.deep}",
                    )
            client.run("DROP TABLE IF EXISTS aside", "CREATE TABLE aside (id INT PRIMARY KEY)")
            client.run("SET GLOBAL event_scheduler = ON")

    def start(self) -> None:
        deeds = (*DEEP_WRITERS, *BYSTANDERS, hold) if self.deep else (*WRITERS, *BYSTANDERS)
        for number, deed in enumerate(deeds):
            rng = random.Random(f"{self.seed} {number}")
            thread = threading.Thread(target=self._work, args=(deed, rng), name=deed.__name__)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Let every writer end what it does, and commit what is left prepared."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        with Client(self.address) as client:
            ended = eventually(lambda: not client.run("SHOW EVENTS") and not _is_asleep(client), within=PATIENT)
            assert ended, "an event does not end"
            for _, _, _, xid in client.run("XA RECOVER"):
                client.run(f"XA COMMIT '{xid if isinstance(xid, str) else xid.decode()}'")

    def run_for(self, seconds: float, *steps: Callable[[], object], every: float) -> None:
        """Write for that long, and repeat each step meanwhile, in a thread of its own."""
        over = threading.Event()

        def repeat(step: Callable[[], object]) -> None:
            try:
                while not over.wait(every):
                    step()
            except BaseException as error:
                self.broken.append(error)
                raise

        self.start()
        followers = [threading.Thread(target=repeat, args=(step,)) for step in steps]
        try:
            for follower in followers:
                follower.start()
            time.sleep(seconds)  # the length of the run, not a wait for anything
        finally:
            self.stop()
            over.set()
            for follower in followers:
                follower.join()

    def pause(self, rng: random.Random, longest: float) -> None:
        """The time that a person or a program takes; cut short at the end."""
        self.rest(rng.uniform(0, longest))

    def rest(self, seconds: float) -> None:
        self._over.wait(seconds)

    def lay_down(self, xid: str) -> None:
        with self._lock:
            self._prepared.append(xid)

    def take_up(self) -> str | None:
        with self._lock:
            return self._prepared.pop(0) if self._prepared else None

    def _work(self, deed: "Deed", rng: random.Random) -> None:
        try:
            while not self._over.is_set():
                self._connected(deed, rng)
        except BaseException as error:  # whoever judges the run raises it there
            self.broken.append(error)
            raise

    def _connected(self, deed: "Deed", rng: random.Random) -> None:
        with Client(self.address) as client:
            client.run("SET SESSION innodb_lock_wait_timeout = 5", "SET SESSION lock_wait_timeout = 5")
            while client.connection.open and not self._over.is_set():
                try:
                    deed(self, client, rng)
                    with self._lock:
                        self.counts[deed.__name__] += 1
                except pymysql.err.MySQLError as error:
                    if error.args[0] not in PASSING:
                        raise
                    return  # a new connection: whatever was open is rolled back


Deed = Callable[[Load, Client, random.Random], None]


def _is_asleep(client: Client) -> bool:
    """Whether a statement sleeps; the writers are gone by now."""
    return any(row[6] == "User sleep" for row in client.run("SHOW PROCESSLIST"))


def _numbers(digits: int) -> str:
    """A table of one column `n` with the numbers of so many digits."""
    ten = "(" + " UNION ALL ".join(f"SELECT {digit} AS i" for digit in range(10)) + ")"
    places = [f"{10**place} * d{place}.i" for place in range(digits)]
    return f"(SELECT {' + '.join(places)} AS n FROM {', '.join(f'{ten} d{place}' for place in range(digits))}) AS ns"


def _table(rng: random.Random) -> str:
    return rng.choice(sorted(TABLES))


def _touch(rng: random.Random, table: str) -> str:
    return f"UPDATE {table} SET v = v + 1 WHERE id = {rng.randint(1, ROWS)}"


def short(load: Load, client: Client, rng: random.Random) -> None:
    client.run(_touch(rng, _table(rng)))
    load.pause(rng, 0.05)


def insert(load: Load, client: Client, rng: random.Random) -> None:
    client.run(f"INSERT INTO {_table(rng)} () VALUES ()")
    load.pause(rng, 0.1)


def late(load: Load, client: Client, rng: random.Random) -> None:
    client.run("BEGIN", _touch(rng, _table(rng)))
    load.pause(rng, load.longest)
    client.run("COMMIT")


def late_without_begin(load: Load, client: Client, rng: random.Random) -> None:
    table = _table(rng)
    client.run("SET autocommit = 0", f"INSERT INTO {table} () VALUES ()")
    load.pause(rng, load.longest)
    client.run(_touch(rng, table), "COMMIT")


def savepoint(load: Load, client: Client, rng: random.Random) -> None:
    touch = _touch(rng, _table(rng))
    client.run("BEGIN", touch)
    load.pause(rng, load.longest / 4)
    client.run("SAVEPOINT s", touch)
    load.pause(rng, load.longest / 4)
    client.run("ROLLBACK TO SAVEPOINT s")
    load.pause(rng, load.longest / 4)
    client.run("COMMIT")


def long_update(load: Load, client: Client, rng: random.Random) -> None:
    first = rng.randint(1, ROWS - 10)
    nap = load.longest / 20
    where = f"id BETWEEN {first} AND {first + 9} AND SLEEP({nap:.3f}) = 0"
    client.run(f"UPDATE {_table(rng)} SET v = v + 1 WHERE {where}")


def sleeping_select(load: Load, client: Client, rng: random.Random) -> None:
    if rng.random() < 0.5:
        client.run("BEGIN", "SELECT COUNT(*) FROM aside")
    client.run(f"INSERT INTO {_table(rng)} (v) SELECT 1 + SLEEP({rng.uniform(0, load.longest / 2):.3f})")
    load.pause(rng, load.longest / 4)
    client.run("COMMIT")


def sleeping_values(load: Load, client: Client, rng: random.Random) -> None:
    client.run(f"INSERT INTO {_table(rng)} (v) VALUES (1 + SLEEP({rng.uniform(0, load.longest / 2):.3f}))")


def function(load: Load, client: Client, rng: random.Random) -> None:
    client.run(f"SELECT touch_{_table(rng)}({rng.randint(1, ROWS)}, {rng.uniform(0, load.longest / 2):.3f})")


def procedure(load: Load, client: Client, rng: random.Random) -> None:
    call = f"CALL walk_{_table(rng)}({rng.randint(1, ROWS - 1)}, {rng.uniform(0, load.longest / 2):.3f})"
    client.run("BEGIN", call, "COMMIT")


def event(load: Load, client: Client, rng: random.Random) -> None:
    """What the server does by itself; an event is gone once it has been carried out."""
    insert = f"INSERT INTO {_table(rng)} (v) SELECT 1 + SLEEP({rng.uniform(0, load.longest / 2):.3f})"
    client.run(f"CREATE EVENT e{rng.getrandbits(60):x} ON SCHEDULE AT CURRENT_TIMESTAMP DO {insert}")
    load.pause(rng, 2)


def prepared(load: Load, client: Client, rng: random.Random) -> None:
    xid = f"x{rng.getrandbits(60):x}"
    client.run(f"XA START '{xid}'", _touch(rng, _table(rng)))
    load.pause(rng, load.longest / 4)
    client.run(f"XA END '{xid}'", f"XA PREPARE '{xid}'")
    if rng.random() < 0.4:
        client.vanish()
        load.lay_down(xid)
        return
    load.pause(rng, load.longest / 4)
    client.run(f"XA COMMIT '{xid}'")


def finish_prepared(load: Load, client: Client, rng: random.Random) -> None:
    """Commit, from another connection, what clients left prepared."""
    load.pause(rng, load.longest / 2)
    xid = load.take_up()
    if xid is None:
        return
    try:
        client.run(f"XA COMMIT '{xid}'")
    except pymysql.err.MySQLError as error:
        if error.args[0] != 1397:  # the server has not noticed yet that its client is gone
            raise
        load.lay_down(xid)


def ties(load: Load, client: Client, rng: random.Random) -> None:
    first = rng.randint(1, ROWS - 60)
    client.run("BEGIN", f"UPDATE {_table(rng)} SET v = v + 1 WHERE id BETWEEN {first} AND {first + 59}")
    load.pause(rng, load.longest / 10)
    client.run("COMMIT")
    load.pause(rng, load.longest / 2)


def deep_ties(load: Load, client: Client, rng: random.Random) -> None:
    """One statement, one stamp: as many new rows, or those that were there, which others change as well.

    New ones first: they stand in nobody's way, where an update of so many may be ended as a deadlock again and again.
    """
    table, last = _table(rng), DEEP + load.deep - 1
    grows = load.counts["deep_ties"] % 3 == 0 and load.counts["deep_ties"] < 3 * GROWN_AT_MOST
    rows = f"WHERE id BETWEEN {DEEP} AND {last}"
    client.run(
        "BEGIN",
        f"INSERT INTO {table} (v) SELECT 1 FROM {_numbers(6)} WHERE n < {load.deep}"
        if grows
        else f"UPDATE {table} SET v = v + 1 {rows}",
    )
    load.pause(rng, load.longest / 10)
    client.run("COMMIT")
    load.pause(rng, load.longest / 4)


def scattered(load: Load, client: Client, rng: random.Random) -> None:
    """Rows all over those that are being read."""
    some = ", ".join(str(rng.randrange(DEEP, DEEP + load.deep)) for _ in range(50))
    client.run(f"UPDATE {_table(rng)} SET v = v + 1 WHERE id IN ({some})")
    load.pause(rng, 0.1)


def hot(load: Load, client: Client, rng: random.Random) -> None:
    client.run(f"UPDATE fine SET v = v + 1 WHERE id BETWEEN {HOT.start} AND {HOT[-1]}")
    load.rest(0.1)


def hold(load: Load, client: Client, rng: random.Random) -> None:
    client.run("BEGIN", f"UPDATE fine SET v = v + 1 WHERE id = {HELD}")
    load.rest(HELD_FOR)
    client.run("COMMIT")


def alter(load: Load, client: Client, rng: random.Random) -> None:
    load.pause(rng, load.longest)
    client.run(f"ALTER TABLE {_table(rng)} COMMENT = '{rng.random()}'")


def lock(load: Load, client: Client, rng: random.Random) -> None:
    load.pause(rng, load.longest)
    client.run(f"LOCK TABLES {_table(rng)} WRITE")
    load.pause(rng, 1)
    client.run("UNLOCK TABLES")


def report(load: Load, client: Client, rng: random.Random) -> None:
    client.run("START TRANSACTION READ ONLY", f"SELECT SUM(v) FROM {_table(rng)}")
    load.pause(rng, load.longest * 2)
    client.run("COMMIT")


def aside(load: Load, client: Client, rng: random.Random) -> None:
    client.run("BEGIN", f"REPLACE INTO aside VALUES ({rng.randint(1, 9)})")
    load.pause(rng, load.longest * 2)
    client.run("ROLLBACK")


def emoji(load: Load, client: Client, rng: random.Random) -> None:
    client.run(f"SELECT SLEEP({rng.uniform(0, 0.3):.3f}), '\N{GRINNING FACE}'")
    load.pause(rng, 2)


WRITERS: Final[Sequence[Deed]] = (
    *(short,) * 4,
    *(insert,) * 2,
    *(late,) * 3,
    *(late_without_begin,) * 2,
    savepoint,
    long_update,
    sleeping_select,
    sleeping_values,
    function,
    procedure,
    *(prepared,) * 2,
    ties,
)
BYSTANDERS: Final[Sequence[Deed]] = (event, finish_prepared, alter, lock, report, aside, emoji)
DEEP_WRITERS: Final[Sequence[Deed]] = (deep_ties, scattered, hot, *WRITERS[3:])
assert len(WRITERS) == len(DEEP_WRITERS) == 20


@dataclass(slots=True)
class Versions:
    """The newest version of each row that a reader has seen."""

    seen: dict[str, dict[int, int]] = field(default_factory=lambda: {table: {} for table in TABLES})

    def see(self, table: str, rows: Sequence[tuple[int, int, object]]) -> None:
        self.seen[table].update((row, version) for row, version, _ in rows)

    def lost(self, client: Client) -> dict[str, int]:
        """How many rows of each table stand at a version that was not the last one seen."""
        return {
            table: sum(
                self.seen[table].get(row) != version for row, version in client.run(f"SELECT id, v FROM {table}")
            )
            for table in TABLES
        }
