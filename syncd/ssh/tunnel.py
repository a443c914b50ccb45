"""A way to a server through a bastion: SSH, kept alive, and dialled again when it was lost."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self

from syncd.errors import SourceDown
from syncd.settings import TunnelSettings
from syncd.ssh.bastion import Bastion, FarReader, FarWriter, Login, Stream
from syncd.ssh.socks import GRANTED, NotAsked, require_asks
from watermarks.errors import HintedError

LOOPBACK: Final = "127.0.0.1"
PIECE: Final = 262_144
ENDED_WITHIN: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a bastion may be silent, in seconds."""

    keepalive: float = 10.0
    """After so much silence it is asked for a sign of life."""
    unanswered: int = 2
    """So many of these it may owe us; one more, and it is dead."""
    opened_within: float = 15.0
    """For one login, and for one connection beyond it."""


class Tunnel:
    """A port of this machine that leads to a source behind a bastion, while the `with` lasts.

    The port stays the same. A bastion that went away breaks the connections that
    went through it; the next one dials it again, and nothing dials while nobody
    connects. Whoever may connect to loopback may use the port, as with `ssh -L`.
    """

    def __init__(self, settings: TunnelSettings, *, to: tuple[str, int], patience: Patience | None = None) -> None:
        self._bastion = Bastion(settings, to=to)
        self._patience = patience or Patience()
        self._to = to
        self._opened: Future[tuple[int, int]] = Future()
        self._thread = threading.Thread(target=self._run, name=f"tunnel to {to[0]}", daemon=True)
        self._connection: Login | None = None
        self._dialling: asyncio.Task[Login] | None = None
        self._flows: set[asyncio.Task[None]] = set()
        self._trouble: HintedError | None = None
        self._port = 0
        self._proxy_port = 0

    def __enter__(self) -> Self:
        """Log in once, so that a bastion that refuses us is known before any work begins.

        Raises:
            SourceDown: there is no bastion, or it does not answer.
            SourceUnfit: it, or its key, or ours is refused.
        """
        self._thread.start()
        try:
            self._port, self._proxy_port = self._opened.result(2 * self._patience.opened_within)
        except NotInTime:
            self._close()
            raise self._bastion.silent() from None
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def near_end(self) -> tuple[str, int]:
        """Where to connect to, with the bastion there at this moment.

        Raises:
            SourceDown, SourceUnfit: it is not, and could not be dialled again.
        """
        try:
            asyncio.run_coroutine_threadsafe(self._way(), self._loop).result(2 * self._patience.opened_within)
        except NotInTime:
            raise self._bastion.silent() from None
        return LOOPBACK, self._port

    def proxy(self) -> tuple[str, int]:
        """A SOCKS 5 proxy that leads to the source alone, for a client that checks the name which it dials.

        Raises:
            SourceDown, SourceUnfit: as `near_end`.
        """
        return self.near_end()[0], self._proxy_port

    @property
    def trouble(self) -> HintedError | None:
        """Why the last connection was not let through; none if it was."""
        found = self._trouble
        return found and type(found)(found.message, hint=found.hint)

    def _run(self) -> None:
        asyncio.run(self._live())

    def _close(self) -> None:
        with contextlib.suppress(AttributeError, RuntimeError):  # it has not begun, or is over
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(ENDED_WITHIN)

    async def _live(self) -> None:
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            with self._listening(proxied=False) as port, self._listening(proxied=True) as proxy_port:
                await self._way()
                self._opened.set_result((port, proxy_port))
                await self._over.wait()
        except BaseException as error:  # noqa: BLE001 - it is raised where the tunnel is opened
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:
            await self._end()

    @contextlib.contextmanager
    def _listening(self, *, proxied: bool) -> Iterator[int]:
        """A port where clients are let in, until the end and not once more.

        Not `asyncio.start_server`: on Python 3.11 it drops what it accepts while it closes, and leaves it open.
        """
        with socket.create_server((LOOPBACK, 0)) as listener:
            listener.settimeout(0)
            self._loop.add_reader(listener, self._let_in, listener, proxied)
            try:
                yield int(listener.getsockname()[1])
            finally:
                self._loop.remove_reader(listener)

    def _let_in(self, listener: socket.socket, proxied: bool) -> None:  # noqa: FBT001 - the loop gives it so
        try:
            client, _ = listener.accept()
        except OSError:  # it went away again; or we are out of descriptors, and it waits
            return
        flow = asyncio.create_task(self._lead(client, proxied=proxied))
        self._flows.add(flow)
        flow.add_done_callback(partial(self._let_go, client=client))

    def _let_go(self, flow: asyncio.Task[None], *, client: socket.socket) -> None:
        """Whatever ended a flow, even before its first step: its client is not left holding on."""
        self._flows.discard(flow)
        client.close()

    async def _end(self) -> None:
        for flow in self._flows:
            flow.cancel()
        await asyncio.gather(*self._flows, return_exceptions=True)
        if self._connection is not None:
            self._connection.abort()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._connection.wait_closed(), ENDED_WITHIN / 2)

    async def _way(self) -> Login:
        """The living connection to the bastion; whoever needs one while it is dialled waits for that one."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        if self._dialling is None or self._dialling.done():
            self._dialling = asyncio.create_task(self._dial())
        return await asyncio.shield(self._dialling)

    async def _dial(self) -> Login:
        patience = self._patience
        self._connection = await self._bastion.login(
            within=patience.opened_within, keepalive=patience.keepalive, unanswered=patience.unanswered
        )
        return self._connection

    async def _lead(self, client: socket.socket, *, proxied: bool) -> None:
        client.settimeout(0)
        with contextlib.suppress(OSError):  # the client went away
            reader, writer = await asyncio.open_connection(sock=client)
            try:
                far = await self._found(reader, writer, proxied=proxied)
                if far is not None:
                    await _join((reader, writer), far)
            finally:
                writer.transport.abort()

    async def _found(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, proxied: bool
    ) -> Stream | None:
        """The connection beyond for a client that may have one."""
        try:
            if proxied:
                await asyncio.wait_for(require_asks(reader, writer, place=self._to), self._patience.opened_within)
            far = await self._beyond()
        except HintedError as error:
            # Before the client sees its end: it asks for the reason then.
            self._trouble = error
            return None
        except (NotAsked, TimeoutError):
            return None
        self._trouble = None
        if proxied:
            writer.write(GRANTED)
        return far

    async def _beyond(self) -> Stream:
        """A connection from the bastion to the source."""
        connection = await self._way()
        try:
            return await self._bastion.reach(connection, within=self._patience.opened_within)
        except SourceDown:
            if not connection.is_closed():
                raise
            # It was lost between the look and the use.
            return await self._bastion.reach(await self._way(), within=self._patience.opened_within)


async def _join(near: tuple[asyncio.StreamReader, asyncio.StreamWriter], far: Stream) -> None:
    """Carry both ways until one side ends: MySQL has no use for half a connection."""
    ways = {asyncio.create_task(_carry(near[0], far[1])), asyncio.create_task(_carry(far[0], near[1]))}
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


async def _carry(reader: asyncio.StreamReader | FarReader, writer: asyncio.StreamWriter | FarWriter) -> None:
    while piece := await reader.read(PIECE):
        writer.write(piece)
        await writer.drain()
