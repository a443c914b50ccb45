"""What the daemon asks of whoever does the work, and of those who watch it."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from syncd.core.events import Tell
from syncd.core.settings import Settings, StreamSettings
from syncd.stages.load import LoadOutcome
from syncd.stages.run import Outcome
from syncd.wiring import Pass, Service
from watermarks.document import Stage
from watermarks.names import StreamName


class Works(Protocol):
    """Runs passes; several at once, of different streams and stages. Inside a `with` alone."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def extract(self, settings: StreamSettings, wanted: Pass) -> Outcome:
        """One pass of the extract stage; what goes wrong is part of the outcome."""
        ...

    def load(self, settings: StreamSettings, wanted: Pass) -> LoadOutcome:
        """The same of the load stage."""
        ...

    def end(self, stream: StreamName, stage: Stage, *, why: str) -> bool:
        """End a pass that is under way, its job cancelled and its connections closed; whether there was one."""
        ...

    def rest(self) -> None:
        """Let go of what nobody has used for long."""
        ...


Make: TypeAlias = Callable[[Settings, Tell, Callable[[], None]], Works]
"""Makes the works of a configuration: who is told of what happens, and who is called when its lease was ended."""


class OneAtATime:
    """A service whose stages run one pass each at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._one = {stage: threading.Lock() for stage in Stage}

    def __enter__(self) -> Self:
        self._service.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._service.__exit__(kind, error, trace)

    def extract(self, settings: StreamSettings, wanted: Pass) -> Outcome:
        with self._one[Stage.EXTRACT]:
            return self._service.extract(settings, wanted)

    def load(self, settings: StreamSettings, wanted: Pass) -> LoadOutcome:
        with self._one[Stage.LOAD]:
            return self._service.load(settings, wanted)

    def end(self, stream: StreamName, stage: Stage, *, why: str) -> bool:
        return self._service.end(stream, stage, why=why)

    def rest(self) -> None:
        self._service.rest()
