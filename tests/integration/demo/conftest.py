"""What a demonstration of a test is watched by, and what it must leave behind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from syncd.events import StreamEvent
from syncd.sandbox.demo.demonstration import TableProgress
from syncd.sandbox.process import ProcessId, find_marked


@dataclass
class Watching:
    """Remembers what it was told."""

    said: list[str] = field(default_factory=list)
    events: list[StreamEvent] = field(default_factory=list)

    def print_message(self, line: str) -> None:
        self.said.append(line)

    def on_event(self, event: StreamEvent) -> None:
        self.events.append(event)

    def show_progress(self, scores: Sequence[TableProgress], *, written: Callable[[], int], left: float | None) -> None:
        return


@pytest.fixture
def watching() -> Watching:
    return Watching()


@pytest.fixture
def remains() -> Callable[[Path], list[ProcessId]]:
    """What still runs for a sandbox's directory, whoever started it."""
    return lambda directory: [process for _, process in find_marked(f"@{directory}")]
