"""A writer that keeps the shop busy: inserts, updates and deletes at a given rate, with counts."""

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from syncd.sandbox.mysql import MySqlAddress, refusal_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from syncd.sandbox.mysql import Connection, Cursor

MAX_TRANSACTIONS: Final = 10_000_000
STOP_TIMEOUT_SECONDS: Final = 30.0
READ_TIMEOUT_SECONDS: Final = 30.0
ORDER_NOTES: Final = (None, "", "leave at the door", "schnell, bitte", "ありがとう 🎉")
# The shop grows, changes more than it grows, and loses a few rows.
INSERT_PERCENT: Final = 35
DELETE_PERCENT: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSummary:
    """Counts of a writer, as the server confirmed them.

    For `unknown` transactions the COMMIT got no answer: each may be committed or not.
    `failed` ones were refused and changed nothing.
    """

    inserted: Mapping[str, int]
    updated: Mapping[str, int]
    deleted: Mapping[str, int]
    transactions: int
    unknown: int
    failed: int
    seconds: float

    @property
    def rows(self) -> int:
        return sum(sum(counts.values()) for counts in (self.inserted, self.updated, self.deleted))


class ShopWriter:
    """One writer over one connection, in a thread; several may run, each with a seed of its own.

    The rate, in transactions a second, is kept over time: after a pause of the server the
    writer catches up. It ends on `stop`, or after `at_most` transactions.
    """

    def __init__(
        self,
        address: MySqlAddress,
        *,
        rate: float,
        seed: int = 1,
        at_most: int = MAX_TRANSACTIONS,
        deletes: int = DELETE_PERCENT,
    ) -> None:
        """Prepare; `deletes` percent of the transactions delete."""
        self._address = address
        self._deletes = deletes
        self._rate = rate
        self._dice = random.Random(seed)
        self._at_most = at_most
        self._stop_requested = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shop-writer", daemon=True)
        self._counts: dict[str, Counter[str]] = {"insert": Counter(), "update": Counter(), "delete": Counter()}
        self._outcomes: Counter[str] = Counter()
        self._began = 0.0
        self._ended: float | None = None
        self._refusals = refusal_errors()
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def stop(self) -> WriteSummary:
        """Let the current transaction end and return the summary."""
        self._stop_requested.set()
        return self.wait(STOP_TIMEOUT_SECONDS)

    def wait(self, timeout_seconds: float) -> WriteSummary:
        """Wait until the writer has reached `at_most` transactions."""
        self._thread.join(timeout_seconds)
        if self._error is not None:
            raise self._error
        return self.summary()

    def summary(self) -> WriteSummary:
        return WriteSummary(
            inserted=dict(self._counts["insert"]),
            updated=dict(self._counts["update"]),
            deleted=dict(self._counts["delete"]),
            transactions=self._outcomes["done"],
            unknown=self._outcomes["unknown"],
            failed=self._outcomes["failed"],
            seconds=(self._ended or time.monotonic()) - self._began,
        )

    def _run(self) -> None:
        try:
            self._write_until_stopped()
        except BaseException as bug:  # noqa: BLE001  # raised again by `wait`, since a thread dies unseen
            self._error = bug
        finally:
            self._ended = time.monotonic()

    def _write_until_stopped(self) -> None:
        connection: Connection | None = None
        try:
            for number in range(self._at_most):
                due = self._began + number / self._rate
                if self._stop_requested.wait(max(0.0, due - time.monotonic())):
                    return
                try:
                    connection = connection or self._address.connect(timeout_seconds=READ_TIMEOUT_SECONDS)
                except self._refusals:
                    self._outcomes["failed"] += 1
                    continue
                if not self._run_transaction(connection):
                    _close(connection)
                    connection = None
        finally:
            if connection is not None:
                _close(connection)

    def _run_transaction(self, connection: "Connection") -> bool:
        """Run one transaction; return whether the connection is still usable."""
        committing = False
        try:
            connection.begin()
            with connection.cursor() as cursor:
                kind, counts = self._choose_action()(cursor)
            committing = True
            connection.commit()
        except self._refusals:
            # A deadlock or a lost connection: before COMMIT it changed nothing, after it the outcome is unknown.
            self._outcomes["unknown" if committing else "failed"] += 1
            return False
        self._counts[kind].update(counts)
        self._outcomes["done"] += 1
        return True

    def _choose_action(self) -> "Callable[[Cursor], tuple[str, dict[str, int]]]":
        number = self._dice.randrange(100)
        if number < INSERT_PERCENT:
            return self._insert
        return self._delete if number < INSERT_PERCENT + self._deletes else self._update

    def _insert(self, cursor: "Cursor") -> tuple[str, dict[str, int]]:
        dice = self._dice
        cursor.execute(
            "INSERT INTO orders (customer_id, status, total, currency, is_gift, flags, placed_at, note, details)"
            " VALUES (%s, 'new', %s, 'EUR', %s, %s, NOW(6), %s, %s)",
            (
                dice.randrange(1, 1000),
                f"{dice.randrange(10**9)}.{dice.randrange(10**4):04}",
                dice.randrange(2),
                dice.randrange(256),
                dice.choice(ORDER_NOTES),
                f'{{"points": {dice.randrange(500)}}}',
            ),
        )
        order, lines = cursor.lastrowid, dice.randrange(1, 4)
        cursor.executemany(
            "INSERT INTO order_lines (order_id, line_no, sku, quantity, price, discount, weight)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [
                (order, no, f"SKU-{dice.randrange(10**5):05}", dice.randrange(1, 9), dice.randrange(10**4), 0.05, None)
                for no in range(1, lines + 1)
            ],
        )
        cursor.execute(
            "INSERT INTO events (customer_id, kind, fingerprint, took) VALUES (%s, 'order', %s, '00:00:01.250')",
            (dice.randrange(1, 1000), dice.getrandbits(64)),
        )
        return "insert", {"orders": 1, "order_lines": lines, "events": 1}

    def _update(self, cursor: "Cursor") -> tuple[str, dict[str, int]]:
        if self._dice.randrange(5) == 0:
            # MySQL counts changed rows, not matched ones: adding to the credit always changes one.
            changed = cursor.execute(
                "UPDATE customers SET credit = COALESCE(credit, 0) + 0.01 WHERE id = %s",
                (self._random_key(cursor, "customers"),),
            )
            return "update", {"customers": changed}
        changed = cursor.execute(
            "UPDATE orders SET status = ELT(1 + (status + 0) %% 5, 'new', 'paid', 'packed', 'sent', 'returned')"
            " WHERE id = %s",
            (self._random_key(cursor, "orders"),),
        )
        return "update", {"orders": changed}

    def _delete(self, cursor: "Cursor") -> tuple[str, dict[str, int]]:
        order = self._random_key(cursor, "orders")
        lines = cursor.execute("DELETE FROM order_lines WHERE order_id = %s", (order,))
        return "delete", {"orders": cursor.execute("DELETE FROM orders WHERE id = %s", (order,)), "order_lines": lines}

    def _random_key(self, cursor: "Cursor", table: str) -> int:
        """Return the key of the first row at or after a random point."""
        cursor.execute(f"SELECT MIN(id), MAX(id) FROM {table}")
        low, high = cursor.fetchone() or (None, None)
        if low is None or high is None:
            return 0
        cursor.execute(
            f"SELECT id FROM {table} WHERE id >= %s ORDER BY id LIMIT 1",
            (self._dice.randint(low, high),),
        )
        found = cursor.fetchone()
        return int(found[0]) if found else 0


def _close(connection: "Connection") -> None:
    if connection.open:
        connection.close()
