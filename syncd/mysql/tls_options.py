"""How far a connection to a source is encrypted and its server believed."""

import ssl
from typing import Any

from syncd.errors import SourceDown, SourceUnfit
from syncd.settings import SourceSettings, Tls
from syncd.tls import TlsPeer, make_verifying_context
from syncd.tls import map_handshake_error as _handshake_error
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
            return {"ssl": make_unverified_context()}
        case Tls.VERIFY:
            return {"ssl": make_verifying_context(settings.ca)}


def make_unverified_context() -> ssl.SSLContext:
    """Encrypts, and believes every server; the host's authorities, which take long to load, stay out of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def handshake_error(error: ssl.SSLError, settings: SourceSettings) -> HintedError:
    """What a handshake that failed says about the source."""
    peer = TlsPeer(kind="MySQL", host=settings.host, port=settings.port, down_error=SourceDown, unfit_error=SourceUnfit)
    return _handshake_error(error, peer)
