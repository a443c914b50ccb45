"""Names of streams and targets, and the key of every object that belongs to them.

In a key, every character of a name except letters, digits, `_` and `-` is
written as %XX. So the one `.` of a stem separates database and table, the one
`@` separates stream and target, and no two names share a key.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Self
from urllib.parse import unquote_to_bytes

from watermarks.errors import Misuse

MAX_STEM_BYTES: Final = 1024 - 124
"""Limit for a stem, of the 1,024 bytes that S3 allows; the rest is for the prefix and suffix of the key."""

SYSTEM_STEM: Final = "_system"
"""Stem of the system-wide default. It has no `/`, so no stream has it."""

_UNESCAPED_BYTES: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_STEM: Final = re.compile(r"([^/.@]+)/([^/.@]+)\.([^/.@]+)(?:@([^/.@]+))?")


class BadName(Misuse):
    """A name that cannot be part of a key."""


@lru_cache(maxsize=4096)
def escape_name(name: str) -> str:
    """Return a name as it is written in a key. Raises BadName if it is empty, or no valid Unicode."""
    try:
        raw = name.encode()
    except UnicodeEncodeError as error:
        raise BadName(f"name {name!r} is not Unicode text", hint="Use a name without lone surrogates.") from error
    if not raw:
        raise BadName("a name is empty", hint="Source, database and table each need a name.")
    return "".join(chr(byte) if byte in _UNESCAPED_BYTES else f"%{byte:02X}" for byte in raw)


def unescape_name(text: str) -> str:
    """Return the name that `escape_name` wrote as this text. Raises BadName if no name is written like this."""
    try:
        name = unquote_to_bytes(text).decode()
    except UnicodeError as error:
        raise BadName(f"{text!r} is not an escaped name") from error
    if not name or escape_name(name) != text:
        raise BadName(f"{text!r} is not an escaped name")
    return name


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class StreamName:
    """One source table on its way to one target; `target` is empty for the default one."""

    source: str
    database: str
    table: str
    target: str = ""

    def __post_init__(self) -> None:
        if self.source == SYSTEM_STEM:
            # Its history would be inside that of the system-wide default and be mistaken for it.
            raise BadName(f"no source can be named {SYSTEM_STEM!r}", hint="Give the source another name.")
        if len(self.stem.encode()) > MAX_STEM_BYTES:
            raise BadName(
                f"the names of {self} take {len(self.stem.encode())} bytes in a key; at most {MAX_STEM_BYTES}"
                " are allowed",
                hint="Give the source or the target a shorter name in the configuration.",
            )

    def __str__(self) -> str:
        at = f"@{self.target}" if self.target else ""
        return f"{self.source}/{self.table_name}{at}"

    @property
    def table_name(self) -> str:
        """`database.table`, as operators write it."""
        return f"{self.database}.{self.table}"

    @property
    def stem(self) -> str:
        """Part of all keys of this stream and target."""
        return self._stem_for_target(self.target)

    @property
    def chain_stem(self) -> str:
        """Part of all keys of the chain; a chain belongs to the source table, not to a target."""
        return self._stem_for_target("")

    @property
    def default_stream(self) -> Self:
        return replace(self, target="") if self.target else self

    def with_target(self, target: str) -> Self:
        return replace(self, target=target)

    @classmethod
    def from_stem(cls, stem: str) -> Self:
        """Return the name of a stem. Raises BadName if it is no stem of a stream."""
        match = _STEM.fullmatch(stem)
        if match is None:
            raise BadName(f"{stem!r} is not the stem of a stream")
        source, database, table, target = match.groups()
        return cls(
            source=unescape_name(source),
            database=unescape_name(database),
            table=unescape_name(table),
            target=unescape_name(target) if target else "",
        )

    def _stem_for_target(self, target: str) -> str:
        stem = f"{escape_name(self.source)}/{escape_name(self.database)}.{escape_name(self.table)}"
        return f"{stem}@{escape_name(target)}" if target else stem


def document_key(stem: str) -> str:
    return f"watermarks/{stem}.json"


def history_prefix(stem: str) -> str:
    return f"history/{stem}/"


def history_key(stem: str, revision: int) -> str:
    return f"{history_prefix(stem)}{revision}.json"


def plan_key(stream: StreamName, batch: object) -> str:
    return f"plans/{stream.chain_stem}/{batch}.json"


def link_key(stream: StreamName, batch: object) -> str:
    return f"batches/{stream.chain_stem}/{batch}.json"


def owner_key(process: str) -> str:
    return f"owners/{escape_name(process)}.json"


def claim_key(stream: StreamName, stage: str) -> str:
    at = f"@{escape_name(stream.target)}" if stream.target else ""
    return f"claims/{stream.chain_stem}/{escape_name(stage)}{at}.json"


def trace_prefixes(stream: StreamName) -> tuple[str, ...]:
    """Return the prefixes under which a stream that ever ran has objects."""
    own = (history_prefix(stream.stem),)
    chain = tuple(f"{what}/{stream.chain_stem}/" for what in ("plans", "batches", "data"))
    return own if stream.target else own + chain
