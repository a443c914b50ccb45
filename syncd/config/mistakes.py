"""Mistakes of the configuration: their places, their texts, and how much of a value they may show."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from syncd.errors import ConfigError

KeyPath: TypeAlias = tuple[str | int, ...]
"""Place of a value in the document: keys and list positions from the top."""

_MAX_SHOWN_CHARACTERS: Final = 60
_SHORT_SECRET_CHARACTERS: Final = 4
"""Shorter secrets are masked in quotes only, because they may be part of any word."""
_SECRET_KEY_PATTERN: Final = re.compile(r"token|passw|secret|credential|access.?key", re.IGNORECASE)
_SECRET_SECTIONS: Final = frozenset({"notify", "conf"})
"""Sections whose values may hold a token."""
_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*://)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMistake:
    """One mistake of the configuration, and how to correct it."""

    line: int
    column: int = 1
    key: str
    message: str
    value: str = ""
    """The value as written; empty where there is none, or none that may be shown."""
    remedy: str = ""

    @property
    def description(self) -> str:
        """The mistake without its place."""
        value = f"; found {self.value!r}" if self.value and repr(self.value) not in self.message else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.message}{value}{remedy}"

    def format_with_location(self, path: str) -> str:
        """Return the mistake in one line, with its place in the form that editors and terminals open."""
        key = f"{self.key}: " if self.key else ""
        return f"{path}:{self.line}:{self.column}: {key}{self.description}"


class Misconfigured(ConfigError):
    """All mistakes of one configuration file."""

    mistakes: tuple[ConfigMistake, ...] = ()

    @classmethod
    def from_mistakes(cls, path: str, mistakes: Sequence[ConfigMistake]) -> Self:
        """Build the error that lists the mistakes of a file in the order of their lines."""
        ordered = tuple(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))
        lines = [mistake.format_with_location(path) for mistake in ordered]
        error = cls(lines[0] if len(lines) == 1 else "\n  ".join((f"{len(lines)} mistakes", *lines)))
        error.mistakes = ordered
        return error


def redact_value(key_path: KeyPath, written: str) -> str:
    """Return a value as written, cut where it is long; empty where it may hold a secret.

    Of an address with a user only the scheme is shown: in a malformed address, any part may be the password.
    """
    keys = [part for part in key_path if isinstance(part, str)]
    if not keys or _SECRET_KEY_PATTERN.search(keys[-1]) or _SECRET_SECTIONS & set(keys[:2]):
        return ""
    scheme = _SCHEME.match(written)
    rest = written[scheme.end() :] if scheme else written
    if "@" in rest or ((scheme or keys[-1] == "url") and {":", "?"} & set(rest)):
        return f"{scheme[1]}..." if scheme else ""
    line = written.strip().partition("\n")[0]
    return line if len(line) <= _MAX_SHOWN_CHARACTERS else f"{line[:_MAX_SHOWN_CHARACTERS]}..."


def mask_secret(secret: str, text: str) -> str:
    text = text.replace(repr(secret), "***")
    return text if len(secret) < _SHORT_SECRET_CHARACTERS else text.replace(secret, "***")
