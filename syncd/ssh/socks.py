"""The part of SOCKS 5 that a JDBC driver uses, for one destination only.

Connector/J checks a certificate against the host of its URL. Through a proxy that URL names the host beyond the
tunnel; with a plain port it could only name 127.0.0.1.
"""

import asyncio
from ipaddress import IPv4Address, IPv6Address
from typing import Final

VERSION: Final = 5
GRANTED_REPLY: Final = bytes([VERSION, 0, 0, 1, 0, 0, 0, 0, 0, 0])
_WITHOUT_PASSWORD: Final = 0
_CONNECT: Final = 1
_V4, _NAME, _V6 = 1, 3, 4


class ProxyRequestRefused(Exception):
    """The client speaks another protocol, or requests another destination."""


async def read_connect_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, server: tuple[str, int]
) -> None:
    """Read a client's request; the caller sends the reply after connecting.

    Raises:
        ProxyRequestRefused: it does not request this destination.
    """
    try:
        version, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        if version != VERSION or _WITHOUT_PASSWORD not in methods:
            raise ProxyRequestRefused
        writer.write(bytes([VERSION, _WITHOUT_PASSWORD]))
        version, command, _, kind = await reader.readexactly(4)
        host = await _read_host(reader, kind)
        port = int.from_bytes(await reader.readexactly(2), "big")
    except (asyncio.IncompleteReadError, OSError, UnicodeDecodeError) as error:
        raise ProxyRequestRefused from error
    if (version, command) != (VERSION, _CONNECT) or (host.casefold(), port) != (server[0].casefold(), server[1]):
        raise ProxyRequestRefused


async def _read_host(reader: asyncio.StreamReader, kind: int) -> str:
    if kind == _V4:
        return str(IPv4Address(await reader.readexactly(4)))
    if kind == _V6:
        return str(IPv6Address(await reader.readexactly(16)))
    if kind == _NAME:
        return (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii")
    raise ProxyRequestRefused
