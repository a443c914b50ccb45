"""How far a connection to a source is encrypted and its server believed, and what a failed handshake means."""

import ssl
from pathlib import Path
from typing import Any, Final

from syncd.core.errors import ConfigError, SourceDown, SourceUnfit
from syncd.core.settings import SourceSettings, Tls
from watermarks.errors import HintedError

_NOT_YET, _EXPIRED = 9, 10
_NAMES: Final = frozenset({62, 64})
"""OpenSSL's numbers for a host or an address that the certificate does not name."""
_OUTDATED: Final = frozenset(
    {
        "UNSUPPORTED_PROTOCOL",
        "NO_PROTOCOLS_AVAILABLE",
        "TLSV1_ALERT_PROTOCOL_VERSION",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "DH_KEY_TOO_SMALL",
        "EE_KEY_TOO_SMALL",
        "LEGACY_SIGALG_DISALLOWED_OR_UNSUPPORTED",
    }
)


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
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            return {"ssl": context}
        case Tls.VERIFY:
            return {"ssl": _checking(settings.ca)}


def _checking(ca: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except ssl.SSLError as error:
        raise ConfigError(f"{ca} holds no certificate", hint="Name a PEM file of the authority in `ca:`.") from error
    except OSError as error:
        raise ConfigError(f"{ca} cannot be read: {error.strerror}", hint="Mend `ca:`, or the file's rights.") from error
    # The authorities of private networks and of MySQL itself lack extensions that Python 3.13 insists on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def handshake_error(error: ssl.SSLError, settings: SourceSettings) -> HintedError:
    """What a handshake that failed says about the source."""
    place = f"{settings.host}:{settings.port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        told = error.verify_message
        return SourceUnfit(f"the certificate of {place} is not believed: {told}", hint=_hint(error, settings))
    reason = getattr(error, "reason", None)  # the standard library promises it, and does not always keep that
    if reason in _OUTDATED:
        return SourceUnfit(
            f"MySQL at {place} and this machine have no way to encrypt in common: {reason}",
            hint="Let the server speak TLS 1.2 or newer.",
        )
    return SourceDown(f"MySQL at {place}: the connection broke while it was encrypted: {reason or error}")


def _hint(error: ssl.SSLCertVerificationError, settings: SourceSettings) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return "Renew the server's certificate, or mend the clock of this machine."
    if code == _NOT_YET:
        return "Mend the clock of this machine, or the server's certificate."
    if code in _NAMES:
        return f"Name the host as its certificate does, or issue one that names {settings.host}."
    return "Name the authority that signed it: `ca: FILE`, a PEM file as its owner publishes it."
