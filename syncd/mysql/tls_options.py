"""How far a connection to a source is encrypted and its server believed."""

import ssl
from typing import Any

from syncd.errors import SourceDown, SourceUnfit
from syncd.settings import SourceSettings, Tls
from syncd.tls import Peer, checking
from syncd.tls import handshake_error as _handshake_error
from watermarks.errors import HintedError


def tls_options(settings: SourceSettings) -> dict[str, Any]:
    """What the driver is told.

    Raises:
        ConfigError: the file of the certificate authority is none.
    """
    match settings.tls:
        case Tls.DISABLE:
            return {"ssl_disabled": True}
        case Tls.PREFER:
            return {}
        case Tls.REQUIRE:
            return {"ssl": unchecked()}
        case Tls.VERIFY:
            return {"ssl": checking(settings.ca)}


def unchecked() -> ssl.SSLContext:
    """Encrypts, and believes every server; the host's authorities, which take long to load, stay out of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def handshake_error(error: ssl.SSLError, settings: SourceSettings) -> HintedError:
    """What a handshake that failed says about the source."""
    peer = Peer(kind="MySQL", host=settings.host, port=settings.port, down=SourceDown, unfit=SourceUnfit)
    return _handshake_error(error, peer)
