"""Services of a sandbox, as the supervisor sees them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from watermarks.errors import HintedError


class SandboxService(Protocol):
    """One server of the sandbox: its preparation, its command and its address."""

    @property
    def name(self) -> str:
        """Name in status and logs."""
        ...

    @property
    def is_external(self) -> bool:
        """True for a server that the sandbox uses and never starts or ends."""
        ...

    @property
    def port(self) -> int | None:
        """The requested port; None leaves the choice to the supervisor."""
        ...

    @property
    def start_error(self) -> type[HintedError]:
        """Error for a failed start; it decides the exit code."""
        ...

    @property
    def environ(self) -> Mapping[str, str]:
        """Environment of its process, beside the sandbox's own."""
        ...

    def prepare(self) -> None:
        """Make what must exist before the first start; safe to repeat, and after a kill at any line."""
        ...

    def command(self, port: int) -> Sequence[str]:
        """Return the command to run; never called for an external server."""
        ...

    def probe(self, port: int) -> str | None:
        """Return the server's version text once it serves, else None; takes a few seconds at most."""
        ...

    def url(self, port: int) -> str:
        """Return the address for clients."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalService:
    """A server that an environment variable names: the sandbox probes it and never starts or ends it."""

    name: str
    location: str
    ask: Callable[[], str | None]
    start_error: type[HintedError]
    is_external: bool = True
    port: int | None = None
    environ: Mapping[str, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Do nothing: the server exists, or it does not."""

    def command(self, port: int) -> Sequence[str]:
        raise NotImplementedError(f"{self.name} on port {port} is external and has no command")

    def probe(self, port: int) -> str | None:  # noqa: ARG002  # its address holds the port
        return self.ask()

    def url(self, port: int) -> str:  # noqa: ARG002  # as above
        return self.location
