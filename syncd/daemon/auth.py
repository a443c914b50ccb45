"""Who may read what the daemon shows: a token, and the names by which a loopback address may be called."""

import base64
import binascii
import hmac
import ipaddress
from dataclasses import dataclass

from syncd.settings import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAuth:
    """Lets in whoever shows the token; without one, whoever calls a loopback address by a name of loopback."""

    token: Secret | None
    is_loopback_only: bool
    """Whether the address is reached from this machine alone."""

    def is_authorized(self, authorization: str | None) -> bool:
        """Whether what was sent with a request is the token: as a bearer, or as the password of a browser's login."""
        if self.token is None:
            return True
        shown = _extract_token(authorization or "")
        return hmac.compare_digest(shown.encode(), self.token.value.encode())

    def is_host_allowed(self, host: str | None) -> bool:
        """Whether a request may come under this name.

        A page from anywhere can have its own name lead to this machine, and would then read
        what is meant for people here: so without a token only names of this machine count.
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
    """Whether a host ends in a port; the colons of an IPv6 address stand in brackets."""
    return host.rpartition(":")[2].isdecimal() and ("]" in host or host.count(":") == 1)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
