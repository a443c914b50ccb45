"""TLS contexts, and the meaning of a failed handshake."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncd.errors import ConfigError
from watermarks.errors import HintedError

_NOT_YET, _EXPIRED = 9, 10
_NAME_MISMATCH_CODES: Final = frozenset({62, 64})
"""OpenSSL's codes for a host or address that the certificate does not name."""
_OUTDATED_REASONS: Final = frozenset(
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


AUTHORITY_HINT: Final = "Set `ca: FILE` to a PEM file of the authority that signed it."
CERTIFICATE_NAME_HINT: Final = "Use the host name of the certificate, or issue one that names {host}."


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPeer:
    """The server of a handshake, and the classes of its errors."""

    kind: str
    host: str
    port: int
    down_error: type[HintedError]
    unfit_error: type[HintedError]

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def make_verifying_context(ca: Path | None, *, extra_authorities: Path | None = None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a file, or the system's and `extra_authorities`.

    Host names are checked.

    Raises:
        ConfigError: the certificate authority file is invalid.
    """
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except ssl.SSLError as error:
        raise ConfigError(f"{ca} contains no certificate", hint="Set `ca:` to a PEM file of the authority.") from error
    except OSError as error:
        raise ConfigError(
            f"{ca} cannot be read: {error.strerror}", hint="Check `ca:` and the file's permissions."
        ) from error
    if ca is None and extra_authorities is not None:
        context.load_verify_locations(extra_authorities)
    # The authorities of private networks and of MySQL itself lack extensions that Python 3.13 requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def map_handshake_error(error: ssl.SSLError, peer: TlsPeer) -> HintedError:
    """Return our error for a failed handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the certificate of {peer.address} is not trusted: {error.verify_message}"
        return peer.unfit_error(message, hint=_hint(error, peer))
    reason = getattr(error, "reason", None)  # not always present, although documented
    if reason in _OUTDATED_REASONS:
        return peer.unfit_error(
            f"{peer.kind} at {peer.address} and this machine share no TLS version or cipher: {reason}",
            hint="Enable TLS 1.2 or newer on the server.",
        )
    return peer.down_error(
        f"{peer.kind} at {peer.address}: the connection broke during the TLS handshake: {reason or error}"
    )


def _hint(error: ssl.SSLCertVerificationError, peer: TlsPeer) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return "Renew the server's certificate, or set the clock of this machine."
    if code == _NOT_YET:
        return "Set the clock of this machine, or replace the server's certificate."
    if code in _NAME_MISMATCH_CODES:
        return CERTIFICATE_NAME_HINT.format(host=peer.host)
    return AUTHORITY_HINT
