"""What a demonstration of a test is watched by, and what it must leave behind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from syncd.events import Event
from syncd.sandbox.demo.demonstration import Score
from syncd.sandbox.process import ProcessId, find_marked


@dataclass
class Watching:
    """Remembers what it was told."""

    said: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def say(self, line: str) -> None:
        self.said.append(line)

    def see(self, event: Event) -> None:
        self.events.append(event)

    def show(self, scores: Sequence[Score], *, written: Callable[[], int], left: float | None) -> None:
        return


@pytest.fixture
def watching() -> Watching:
    return Watching()


@pytest.fixture
def remains() -> Callable[[Path], list[ProcessId]]:
    """What still runs for a sandbox's directory, whoever started it."""
    return lambda directory: [process for _, process in find_marked(f"@{directory}")]
