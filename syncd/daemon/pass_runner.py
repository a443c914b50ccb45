"""What the daemon asks of whoever does the work, and of those who watch it."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from syncd.app import PassOptions
from syncd.events import EventListener
from syncd.extract.extract_pass import ExtractOutcome
from syncd.load.load_pass import LoadOutcome
from syncd.settings import Settings, StreamSettings
from watermarks.document import Stage
from watermarks.names import StreamName


class PassRunner(Protocol):
    """Runs passes; several at once, of different streams and stages. Inside a `with` alone."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def extract(self, settings: StreamSettings, options: PassOptions) -> ExtractOutcome:
        """One pass of the extract stage; what goes wrong is part of the outcome."""
        ...

    def load(self, settings: StreamSettings, options: PassOptions) -> LoadOutcome:
        """The same of the load stage."""
        ...

    def end_pass(self, stream: StreamName, stage: Stage, *, why: str, overran: bool) -> bool:
        """End a pass that is under way, its job cancelled and its connections closed; whether there was one.

        It has failed if it `overran`, and else says nothing of its stream.
        """
        ...

    def release_idle(self) -> None:
        """Let go of what nobody has used for long."""
        ...


MakePassRunner: TypeAlias = Callable[[Settings, EventListener, Callable[[], None]], PassRunner]
"""Makes the works of a configuration: who is told of what happens, and who is called when its lease was ended."""
