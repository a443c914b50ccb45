"""SSH tunnel to a server through a bastion: kept alive, and reconnected after a loss."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from syncd.errors import SourceDown, SourceUnfit
from syncd.settings import TunnelSettings
from syncd.ssh.bastion import Bastion, BastionConnection, FarReader, FarWriter, ForwardedConnection
from syncd.ssh.socks import GRANTED_REPLY, ProxyRequestRefused, read_connect_request
from watermarks.errors import HintedError

LOOPBACK: Final = "127.0.0.1"
PIECE_BYTES: Final = 262_144
CLOSE_TIMEOUT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelTimeouts:
    """Time limits for a bastion, in seconds."""

    keepalive_seconds: float = 10.0
    """After this silence a keepalive is sent."""
    max_unanswered: int = 2
    """One more unanswered keepalive means a dead bastion."""
    open_timeout_seconds: float = 15.0
    """For one login, and for one connection beyond it."""


class SshTunnel:
    """A local port that leads to a server behind a bastion, while the `with` lasts.

    The port stays the same. If the bastion goes away, the connections through it break. The next one reconnects to
    it, and nothing reconnects while no client connects. Any local user may use the port, as with `ssh -L`.
    """

    def __init__(
        self,
        settings: TunnelSettings,
        *,
        server: tuple[str, int],
        timeouts: TunnelTimeouts | None = None,
        down_error: type[HintedError] = SourceDown,
        unfit_error: type[HintedError] = SourceUnfit,
    ) -> None:
        """Prepare a tunnel to `server`; its errors are of these two classes."""
        self._bastion = Bastion(settings, server=server, down_error=down_error, unfit_error=unfit_error)
        self._down_error = down_error
        self._timeouts = timeouts or TunnelTimeouts()
        self._server = server
        self._opened: Future[tuple[int, int]] = Future()
        self._thread = threading.Thread(target=self._run, name=f"tunnel to {server[0]}", daemon=True)
        self._connection: BastionConnection | None = None
        self._dialling: asyncio.Task[BastionConnection] | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._last_error: HintedError | None = None
        self._port = 0
        self._proxy_port = 0

    def __enter__(self) -> Self:
        """Log in once, so that a refusal is known before any work begins.

        Raises:
            down_error: the bastion does not answer.
            unfit_error: the bastion, its key or our key is refused.
        """
        self._thread.start()
        try:
            self._port, self._proxy_port = self._opened.result(2 * self._timeouts.open_timeout_seconds)
        except NotInTime:
            self._close()
            raise self._bastion.no_answer_error() from None
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def local_address(self) -> tuple[str, int]:
        """Return the local address of the tunnel, after making sure that the bastion is connected.

        Raises:
            down_error, unfit_error: it cannot be connected.
        """
        try:
            asyncio.run_coroutine_threadsafe(self._live_connection(), self._loop).result(
                2 * self._timeouts.open_timeout_seconds
            )
        except NotInTime:
            raise self._bastion.no_answer_error() from None
        return LOOPBACK, self._port

    def proxy_address(self) -> tuple[str, int]:
        """Return a SOCKS 5 proxy that leads to the server only, for a client that checks the name it dials.

        Raises:
            down_error, unfit_error: as `local_address`.
        """
        return self.local_address()[0], self._proxy_port

    @property
    def last_error(self) -> HintedError | None:
        """Return why the last client was not connected; None if it was."""
        error = self._last_error
        return error and type(error)(error.message, hint=error.hint)

    def _run(self) -> None:
        asyncio.run(self._serve())

    def _close(self) -> None:
        with contextlib.suppress(AttributeError, RuntimeError):  # it has not started, or is over
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(CLOSE_TIMEOUT_SECONDS)

    async def _serve(self) -> None:
        self._closing = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            with self._listening(proxied=False) as port, self._listening(proxied=True) as proxy_port:
                await self._live_connection()
                self._opened.set_result((port, proxy_port))
                await self._closing.wait()
        except BaseException as error:  # noqa: BLE001 - it is raised where the tunnel is opened
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:
            await self._end()

    @contextlib.contextmanager
    def _listening(self, *, proxied: bool) -> Iterator[int]:
        """Yield a port that accepts clients until the end and not once more.

        `asyncio.start_server` does not serve: on Python 3.11 it drops and leaks a connection that it accepts while it
        closes.
        """
        with socket.create_server((LOOPBACK, 0)) as listener:
            listener.settimeout(0)
            self._loop.add_reader(listener, self._accept_client, listener, proxied)
            try:
                yield int(listener.getsockname()[1])
            finally:
                self._loop.remove_reader(listener)

    def _accept_client(self, listener: socket.socket, proxied: bool) -> None:  # noqa: FBT001 - the loop gives it so
        try:
            client, _ = listener.accept()
        except OSError:  # it has disconnected; or we are out of descriptors, and it waits
            return
        flow = asyncio.create_task(self._forward_client(client, proxied=proxied))
        self._clients.add(flow)
        flow.add_done_callback(partial(self._release_client, client=client))

    def _release_client(self, flow: asyncio.Task[None], *, client: socket.socket) -> None:
        """Close the client's socket, however its flow ended, even before its first step."""
        self._clients.discard(flow)
        client.close()

    async def _end(self) -> None:
        for flow in self._clients:
            flow.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        if self._connection is not None:
            self._connection.abort()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._connection.wait_closed(), CLOSE_TIMEOUT_SECONDS / 2)

    async def _live_connection(self) -> BastionConnection:
        """Return the open connection to the bastion; callers share one pending connect."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        if self._dialling is None or self._dialling.done():
            self._dialling = asyncio.create_task(self._dial())
        return await asyncio.shield(self._dialling)

    async def _dial(self) -> BastionConnection:
        timeouts = self._timeouts
        self._connection = await self._bastion.connect(
            within=timeouts.open_timeout_seconds,
            keepalive=timeouts.keepalive_seconds,
            max_unanswered=timeouts.max_unanswered,
        )
        return self._connection

    async def _forward_client(self, client: socket.socket, *, proxied: bool) -> None:
        client.settimeout(0)
        with contextlib.suppress(OSError):  # the client went away
            reader, writer = await asyncio.open_connection(sock=client)
            try:
                far = await self._open_for_client(reader, writer, proxied=proxied)
                if far is not None:
                    await _relay((reader, writer), far)
            finally:
                writer.transport.abort()

    async def _open_for_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, proxied: bool
    ) -> ForwardedConnection | None:
        """Return a forwarded connection for an accepted client."""
        try:
            if proxied:
                await asyncio.wait_for(
                    read_connect_request(reader, writer, server=self._server), self._timeouts.open_timeout_seconds
                )
            far = await self._connect_to_server()
        except HintedError as error:
            # Before the client's socket is closed: it asks for the reason then.
            self._last_error = error
            return None
        except (ProxyRequestRefused, TimeoutError):
            return None
        self._last_error = None
        if proxied:
            writer.write(GRANTED_REPLY)
        return far

    async def _connect_to_server(self) -> ForwardedConnection:
        """Return a connection from the bastion to the server."""
        connection = await self._live_connection()
        try:
            return await self._bastion.open_forwarded(connection, within=self._timeouts.open_timeout_seconds)
        except self._down_error:
            if not connection.is_closed():
                raise
            # The connection was lost after the check.
            return await self._bastion.open_forwarded(
                await self._live_connection(), within=self._timeouts.open_timeout_seconds
            )


async def _relay(near: tuple[asyncio.StreamReader, asyncio.StreamWriter], far: ForwardedConnection) -> None:
    """Copy both ways until one side ends: MySQL has no half-closed connections."""
    ways = {asyncio.create_task(_copy_bytes(near[0], far[1])), asyncio.create_task(_copy_bytes(far[0], near[1]))}
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        far[1].close()
    if all(way.exception() is None for way in done):
        near[1].close()
        with contextlib.suppress(OSError):  # it ended first
            await near[1].wait_closed()


async def _copy_bytes(reader: asyncio.StreamReader | FarReader, writer: asyncio.StreamWriter | FarWriter) -> None:
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
