"""`syncd run --strict` where the warehouse refuses rows: the run that moves the mark over them says so."""

import signal
from collections.abc import Callable, Iterator

import pytest

from tests.integration.load.conftest import Loader, Reader, loader
from tests.integration.run.conftest import Command
from tests.services.load_victim import BEFORE_WORDS, Victims, job_of
from tests.services.prepared import ID, NAME, UPDATE_AT, Prepared, json_column, row

pytestmark = pytest.mark.services
__all__ = ["loader"]

Make = Callable[..., Command]
POINTS = {
    "with its amendment made": "after create amended",
    "before COMMIT": f"{BEFORE_WORDS}1 COMMIT",
    "before the mark follows": "before create history {landed}",
}


@pytest.fixture
def orders(prepared: Callable[..., Prepared]) -> Prepared:
    """A batch of five rows, two of which the warehouse refuses, and one that is well."""
    made = prepared(columns=(ID, NAME, UPDATE_AT, json_column("doc")))
    made.increment(*(row(key, key, doc=b"{" if key in {2, 4} else b"{}") for key in range(1, 6)), parts=2)
    made.increment(row(6, 6, doc=b"[]"))
    made.let_go()
    return made


@pytest.fixture
def kill(loader: Loader, orders: Prepared) -> Iterator[Callable[[str], None]]:
    """Lands in a process that is killed at a point."""

    def kill(point: str) -> None:
        state, settings = loader.journal.read_newest(orders.stream.stem), orders.settings
        assert state
        assert settings.target
        told = {"point": point.format(landed=state.revision + 2), "signal": signal.SIGKILL}  # behind that of its claim
        job = job_of(loader.lake, loader.warehouse, orders.stream, settings.mode, settings.target, **told)
        assert victims.run(job).status == -signal.SIGKILL

    with Victims() as victims:
        yield kill


def strict(syncd: Command) -> tuple[int, int, int]:
    """One run: its exit code, and the rows that it landed and that were refused."""
    ran = syncd.run("--all", "--load-only", "--strict", "--json")
    load = ran.told(syncd.tables[0].table)["load"]
    assert load["error"] is None, load
    return ran.code, load["rows"], load["quarantined"]


def test_the_run_that_lands_a_batch_without_some_of_its_rows_says_so_once(orders: Prepared, command: Make) -> None:
    syncd = command(orders)

    assert [strict(syncd), strict(syncd)] == [(7, 4, 2), (0, 0, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("place", POINTS)
def test_what_a_killed_landing_put_aside_is_told_by_the_run_that_moves_the_mark(
    orders: Prepared, command: Make, warehouse: Reader, kill: Callable[[str], None], place: str
) -> None:
    kill(POINTS[place])
    syncd = command(orders)

    assert [strict(syncd), strict(syncd)] == [(7, 4, 2), (0, 0, 0)]
    assert [key for (key,) in warehouse.rows(orders, "id", order="1")] == [1, 3, 5, 6]
