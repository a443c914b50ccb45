"""The state machine: Hypothesis decides what happens to the world, the judge says whether the promise held.

python -m tests.simulation.machine EXAMPLES [SEED]   plays so many examples, and ends with 1 at the first violation
"""

import sys

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.simulation.world import World

WORKERS = st.integers(0, 1)
WRITES = st.sampled_from(["plans/", "batches/", "history/", "claims/", "commit"])
CHANGES = st.sampled_from(
    [
        "reset",
        "back",
        "forward",
        "undo",
        "undo",
        "reload",
        "import",
        "reload second",
        "undo second",
        "again",
        "again second",
        "both",
        "anew",
    ]
)


class Protocol(RuleBasedStateMachine):
    """One life of a stream, from its first row to the day when everything has settled."""

    world: World

    @initialize(chance=st.integers(0, 2**32))
    def begin(self, chance: int) -> None:
        self.world = World(chance)

    @rule(events=st.integers(1, 12))
    def source_changes(self, events: int) -> None:
        self.world.change_source(events)

    @rule(effects=st.integers(1, 30))
    def go_on(self, effects: int) -> None:
        self.world.go(effects, mishaps=0.06)

    @rule(effects=st.integers(60, 300))
    def go_far(self, effects: int) -> None:
        self.world.go(effects, mishaps=0.03)

    @rule(which=WORKERS, seen=st.booleans())
    def crash(self, which: int, *, seen: bool) -> None:
        self.world.crash(which, seen=seen)

    @rule(which=WORKERS, effects=st.integers(30, 1200))
    def doze(self, which: int, effects: int) -> None:
        self.world.doze(which, effects)

    @rule(which=WORKERS, about=WRITES, effects=st.integers(100, 700))
    def doze_before(self, which: int, about: str, effects: int) -> None:
        self.world.doze_before(which, about, effects)

    @rule(what=CHANGES)
    def person_changes(self, what: str) -> None:
        if len(self.world.people) < 2 and self.world.asked < 6:
            self.world.ask(what)

    @rule(which=st.sampled_from(["", "second"]))
    def save_or_restore(self, which: str) -> None:
        if self.world.warehouses[which].restores < 2:
            self.world.warehouses[which].save_or_restore()

    def teardown(self) -> None:
        if hasattr(self, "world") and not self.world.broken:
            self.world.settle()


def play(examples: int, chance: int = 0, *, shrink: bool) -> None:
    """Play examples until one breaks the promise."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    wanted = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=phases,
        print_blob=shrink,
        verbosity=Verbosity.normal,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(chance)(Protocol), settings=wanted)


if __name__ == "__main__":
    play(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, shrink=False)
