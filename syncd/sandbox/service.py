"""What the supervisor must know of a server to run it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from watermarks.errors import HintedError


class SandboxService(Protocol):
    """One server of the sandbox: how it is prepared, started, asked and named."""

    @property
    def name(self) -> str:
        """What status and logs call it."""
        ...

    @property
    def is_external(self) -> bool:
        """Whether it is somebody else's server: asked, never started or ended."""
        ...

    @property
    def port(self) -> int | None:
        """The port that was asked for; none leaves the choice to the supervisor."""
        ...

    @property
    def start_error(self) -> type[HintedError]:
        """What is raised when it does not come up: it decides the exit code."""
        ...

    def prepare(self) -> None:
        """Make what must exist before the first start; safe to repeat, and after a kill at any line."""
        ...

    def command(self, port: int) -> Sequence[str]:
        """What to run; never asked of a given server."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """What its process finds in its environment beside our own."""
        ...

    def probe(self, port: int) -> str | None:
        """What the server says of itself once it really serves; none until then. Bounded by a few seconds."""
        ...

    def url(self, port: int) -> str:
        """Where its clients connect."""
        ...
