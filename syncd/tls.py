"""Whom we believe on an encrypted connection, and what a failed handshake means."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncd.errors import ConfigError
from watermarks.errors import HintedError

_NOT_YET, _EXPIRED = 9, 10
_NAME_MISMATCH_CODES: Final = frozenset({62, 64})
"""OpenSSL's numbers for a host or an address that the certificate does not name."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPeer:
    """The server of a handshake, and the errors that are told of it."""

    kind: str
    host: str
    port: int
    down_error: type[HintedError]
    unfit_error: type[HintedError]

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def make_verifying_context(ca: Path | None, *, extra_authorities: Path | None = None) -> ssl.SSLContext:
    """A context that believes the authorities of a file, or else the system's and `also`; host names are checked.

    Raises:
        ConfigError: the file of the certificate authority is none.
    """
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except ssl.SSLError as error:
        raise ConfigError(f"{ca} holds no certificate", hint="Name a PEM file of the authority in `ca:`.") from error
    except OSError as error:
        raise ConfigError(f"{ca} cannot be read: {error.strerror}", hint="Mend `ca:`, or the file's rights.") from error
    if ca is None and extra_authorities is not None:
        context.load_verify_locations(extra_authorities)
    # The authorities of private networks and of MySQL itself lack extensions that Python 3.13 insists on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def map_handshake_error(error: ssl.SSLError, peer: TlsPeer) -> HintedError:
    """What a handshake that failed says about the server."""
    if isinstance(error, ssl.SSLCertVerificationError):
        told = error.verify_message
        return peer.unfit_error(f"the certificate of {peer.address} is not believed: {told}", hint=_hint(error, peer))
    reason = getattr(error, "reason", None)  # the standard library promises it, and does not always keep that
    if reason in _OUTDATED_REASONS:
        return peer.unfit_error(
            f"{peer.kind} at {peer.address} and this machine have no way to encrypt in common: {reason}",
            hint="Let the server speak TLS 1.2 or newer.",
        )
    return peer.down_error(
        f"{peer.kind} at {peer.address}: the connection broke while it was encrypted: {reason or error}"
    )


def _hint(error: ssl.SSLCertVerificationError, peer: TlsPeer) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return "Renew the server's certificate, or mend the clock of this machine."
    if code == _NOT_YET:
        return "Mend the clock of this machine, or the server's certificate."
    if code in _NAME_MISMATCH_CODES:
        return f"Name the host as its certificate does, or issue one that names {peer.host}."
    return "Name the authority that signed it: `ca: FILE`, a PEM file as its owner publishes it."
