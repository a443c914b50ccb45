"""Somebody who changes tables while daemons keep them."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from tests.integration.daemon.conftest import Place


@contextmanager
def writing(place: Place, *, seed: int, every: float, away: tuple[type[Exception], ...] = ()) -> Iterator[list[str]]:
    """Rows that come and change in a table that chance picks; what is given has an entry for each time it was done.

    `away` is what a server that restarts meanwhile may say; whatever else goes wrong fails the test.
    """
    over, done, chance = threading.Event(), list[str](), random.Random(seed)

    def write() -> None:
        while not over.wait(every):
            table = chance.choice(place.tables)
            with suppress(*away):
                place.sql(
                    f"INSERT INTO {table} (body) VALUES (UUID()), (UUID())",
                    f"UPDATE {table} SET body = UUID() ORDER BY RAND() LIMIT 2",
                )
                done.append(table)

    with ThreadPoolExecutor(max_workers=1) as pool:
        writer = pool.submit(write)
        try:
            yield done
        finally:
            over.set()
        writer.result()
