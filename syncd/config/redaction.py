"""How much of a value of the configuration may be shown, and how its place is written."""

import re
from typing import Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value stands in the document: keys and positions from the top."""

MAX_SHOWN_CHARACTERS: Final = 60
_SHORT_SECRET_CHARACTERS: Final = 4
"""A secret of fewer characters is looked for in quotes only: it may be a piece of any word."""
_SECRET_KEY_PATTERN: Final = re.compile(r"token|passw|secret|credential|access.?key", re.IGNORECASE)
_SECRET_SECTIONS: Final = frozenset({"notify", "conf"})
"""Parts whose values may hold a token."""
_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*://)")


def format_key_path(key_path: KeyPath) -> str:
    """A place as one writes it: `tables.shop.orders.cursor`."""
    return ".".join(str(part) for part in key_path)


def redact_value(key_path: KeyPath, written: str) -> str:
    """A value as it is written, cut where it is long; empty where it may hold a secret.

    Of an address with a user nothing is shown but its scheme: where it is wrong, nobody knows which piece of it is the
    password.
    """
    keys = [part for part in key_path if isinstance(part, str)]
    if not keys or _SECRET_KEY_PATTERN.search(keys[-1]) or _SECRET_SECTIONS & set(keys[:2]):
        return ""
    scheme = _SCHEME.match(written)
    rest = written[scheme.end() :] if scheme else written
    if "@" in rest or ((scheme or keys[-1] == "url") and {":", "?"} & set(rest)):
        return f"{scheme[1]}..." if scheme else ""
    line = written.strip().partition("\n")[0]
    return line if len(line) <= MAX_SHOWN_CHARACTERS else f"{line[:MAX_SHOWN_CHARACTERS]}..."


def mask_secret(secret: str, text: str) -> str:
    """A text without a secret."""
    text = text.replace(repr(secret), "***")
    return text if len(secret) < _SHORT_SECRET_CHARACTERS else text.replace(secret, "***")
