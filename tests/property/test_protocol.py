"""The whole protocol under Hypothesis: the real library, driven effect by effect through every mishap.

What the simulation is, and what its judge looks at, stands in `tests/simulation/`.
"""

import os
import random

import pytest

from tests.simulation import mutants
from tests.simulation.machine import play

pytestmark = pytest.mark.simulation

SHARES = 8
"""Parts of the long proof, for as many cores as there are."""

QUICK = (
    "document before entry",
    "no roll-forward",
    "link of another not adopted",
    "plan of another not adopted",
    "mark before link",
    "mark before ledger",
    "entries of an older epoch",
    "gap in seq",
    "mark past what landed",
    "ledger without load generation",
    "ledger not asked",
    "window forgets the key",
    "abandonment at no key",
    "old owner not ended",
    "replay ranks as new",
    "lost ledger not noticed",
    "load generation not raised",
    "ledger not asked at rest",
    "claim keeps its epoch",
    "release keeps the epoch",
    "silence of the living",
    "further target does not wait",
    "load generation not compared",
)
"""Mutants that some hundred examples catch."""


@pytest.mark.parametrize("share", range(2))
def test_nothing_is_lost_doubled_undone_or_stuck(share: int) -> None:
    chance = random.randrange(2**32)
    print(f"seed {chance}")  # noqa: T201  # shown with a failure

    play(150, chance, shrink=True)


@pytest.mark.long
@pytest.mark.parametrize("share", range(SHARES))
def test_nothing_is_lost_doubled_undone_or_stuck_in_ten_thousand_lives(share: int) -> None:
    chance = int(os.environ.get("SYNCD_SEED", random.randrange(2**32))) + share
    print(f"seed {chance}")  # noqa: T201  # shown with a failure

    play(10_000 // SHARES, chance, shrink=True)


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_fault_is_caught(name: str) -> None:
    """Another version of Hypothesis plays others: where these miss it, two more chances do not."""
    assert any(mutants.caught(name, examples=400, chance=chance) for chance in range(3))


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in mutants.MUTANTS if name not in QUICK])
def test_a_planted_fault_that_hides_is_caught(name: str) -> None:
    assert mutants.caught(name, examples=4000) is not None


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_every_fault_still_finds_its_place(name: str) -> None:
    with mutants.planted(name) as root:
        assert (root / "watermarks").is_dir()
