"""A bastion for tests: a real SSH server on loopback, with keys of its own and moods to try a client with."""

import asyncio
import threading
from collections.abc import Awaitable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias, TypeVar, cast

import asyncssh

from syncd.sandbox.process import LOOPBACK
from syncd.settings import TunnelSettings

USER: Final = "ops"
DONE_WITHIN: Final = 60.0
T = TypeVar("T")
Forwarding: TypeAlias = Awaitable[asyncssh.SSHTCPSession[bytes]]


class BastionServer:
    """Lets one key in, and forwards to the places it is told of.

    `names` are hosts that only it can resolve, as a private network's are: each is
    the address that it connects to instead. A way to hang without closing is a
    `TcpProxy` before it.
    """

    def __init__(self, folder: Path, *, names: Mapping[str, str] | None = None, forwards: bool = True) -> None:
        self.names = dict(names or {})
        self.forwards = forwards
        self.port = 0
        self.logins = 0
        self.key_file = folder / "id_ed25519"
        self.known_hosts = folder / "known_hosts"
        self.asked: list[tuple[str, int]] = []
        self._folder = folder
        self._host_key = asyncssh.generate_private_key("ssh-ed25519")
        self._client_key = asyncssh.generate_private_key("ssh-ed25519")
        self._client_key.write_private_key(self.key_file)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        self.know()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DONE_WITHIN)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def settings(self, *, port: int | None = None) -> TunnelSettings:
        """How a client is told of it; `port` is that of a proxy before it."""
        return TunnelSettings(
            host=LOOPBACK, port=port or self.port, user=USER, key_file=self.key_file, known_hosts=self.known_hosts
        )

    def know(self, *, port: int | None = None) -> None:
        """Write its key into the file of known hosts, under the port where clients meet it."""
        public = self._host_key.export_public_key().decode().strip()
        self.known_hosts.write_text(f"[{LOOPBACK}]:{port or self.port} {public}\n")

    def renew_key(self) -> None:
        """Show another key from the next start on."""
        self._host_key = asyncssh.generate_private_key("ssh-ed25519")

    def forget_client(self) -> None:
        """Let nobody in from the next start on whom it let in until now."""
        self._client_key = asyncssh.generate_private_key("ssh-ed25519")

    def start(self) -> None:
        """Serve, on the port it had."""
        self._do(self._start())

    def stop(self) -> None:
        """End, and drop everybody."""
        self._do(self._stop())

    def drop(self) -> int:
        """Abort every connection; how many there were."""
        return self._do(self._drop())

    def connections(self) -> int:
        """How many clients are in now."""
        return len(self._connections)

    async def _start(self) -> None:
        self._acceptor = await asyncssh.listen(
            LOOPBACK,
            self.port,
            server_factory=lambda: _Server(self),
            server_host_keys=[self._host_key],
            authorized_client_keys=asyncssh.import_authorized_keys(self._client_key.export_public_key().decode()),
            config=None,
            gss_host=None,
        )
        self.port = self._acceptor.get_port()

    async def _stop(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
            await self._acceptor.wait_closed()
            self._acceptor = None
        await self._drop()

    async def _drop(self) -> int:
        standing = list(self._connections)
        for connection in standing:
            connection.abort()
        for connection in standing:
            await connection.wait_closed()
        return len(standing)

    def _do(self, work: Awaitable[T]) -> T:
        async def done() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(DONE_WITHIN)


class _Server(asyncssh.SSHServer):
    def __init__(self, bastion: BastionServer) -> None:
        self._bastion = bastion
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._bastion._connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._bastion._connections.discard(self._connection)

    def auth_completed(self) -> None:
        self._bastion.logins += 1

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> Forwarding:
        self._bastion.asked.append((dest_host, dest_port))
        if not self._bastion.forwards:
            # As sshd says it; `False` would be a refusal by the source.
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "open failed")
        assert self._connection is not None
        place = self._bastion.names.get(dest_host, dest_host)
        return cast("Forwarding", self._connection.forward_connection(place, dest_port))
