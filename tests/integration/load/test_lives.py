"""Random lives: however batches land, what stands in the warehouse is what an oracle says that they come to.

All of a life follows from its seed: one that failed in the long run is played again as one more of `SEEDS`.
"""

from collections import Counter
from collections.abc import Callable
from itertools import product

import pytest

from syncd.settings import Deletes, Mode
from tests.integration.load.conftest import Loader, Reader
from tests.services.lives import Life, Oracle
from tests.services.prepared import Prepared

pytestmark = pytest.mark.services

KINDS = list(product([Mode.UPSERT, Mode.APPEND, Mode.HISTORY], Deletes))
SEEDS = range(len(KINDS))
"""One of each kind."""
EACH = 36
"""Lives of one long proof."""
STEPS = 12


def play(prepared: Callable[..., Prepared], loader: Loader, warehouse: Reader, seed: int) -> Life:
    mode, deletes = KINDS[seed % len(KINDS)]
    life = Life(prepared, loader, warehouse, seed, Oracle(mode, deletes))
    try:
        life.live(STEPS)
    except Exception as error:
        error.add_note("\n".join(life.log))
        raise
    return life


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_target_holds_what_its_batches_come_to(
    prepared: Callable[..., Prepared], loader: Loader, warehouse: Reader, seed: int
) -> None:
    play(prepared, loader, warehouse, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 100 + 10 * EACH, EACH))
def test_many_targets_hold_what_their_batches_come_to(
    prepared: Callable[..., Prepared], loader: Loader, warehouse: Reader, report: Callable[[str], None], first: int
) -> None:
    lives, steps = Counter[str](), Counter[str]()

    for seed in range(first, first + EACH):
        life = play(prepared, loader, warehouse, seed)
        lives[f"{life.oracle.mode}/{life.oracle.deletes}"] += 1
        steps += life.played

    told = (", ".join(f"{count} {what}" for what, count in sorted(some.items())) for some in (lives, steps))
    report(f"seeds from {first}: lives {'; in them '.join(told)}")
