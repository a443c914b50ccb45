"""Authorization of HTTP requests: a token, or a loopback address under a name of this machine."""

import base64
import binascii
import hmac
import ipaddress
from dataclasses import dataclass

from syncd.settings import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAuth:
    """Rule of access: the token, or without one a loopback address called by a loopback name."""

    token: Secret | None
    is_loopback_only: bool
    """True if only this machine can reach the address."""

    def is_authorized(self, authorization: str | None) -> bool:
        """Return whether a request has the token, as a bearer or as the password of a browser's login."""
        if self.token is None:
            return True
        token = _extract_token(authorization or "")
        return hmac.compare_digest(token.encode(), self.token.value.encode())

    def is_host_allowed(self, host: str | None) -> bool:
        """Return whether a request may use this host name.

        A foreign page can make its own name resolve to this machine and read the answers (DNS rebinding). So without
        a token only names of this machine are allowed.
        """
        if self.token is not None or not self.is_loopback_only or host is None:
            return True
        name = host.rpartition(":")[0] if _has_port(host) else host
        name = name.strip("[]").rstrip(".").casefold()
        return name == "localhost" or name.endswith(".localhost") or _is_address(name)


def _extract_token(authorization: str) -> str:
    scheme, _, rest = authorization.partition(" ")
    if scheme.casefold() == "bearer":
        return rest.strip()
    if scheme.casefold() != "basic":
        return ""
    try:
        return base64.b64decode(rest.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _has_port(host: str) -> bool:
    """Return whether a host ends in a port; an IPv6 address with a port is in brackets."""
    return host.rpartition(":")[2].isdecimal() and ("]" in host or host.count(":") == 1)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
