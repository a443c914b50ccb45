"""What was removed from the lake on purpose: a record for each removal, written before it, and found again by key.

Whoever meets a file that is gone asks here first: a file that a person removed once it had landed is no loss.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, Self

from syncd.lake.keys import cleaned_key, cleaned_prefix
from watermarks.codec import Fields, Foreign, blamed, printable, seal, unseal
from watermarks.cursor import instant_of, instant_text
from watermarks.names import StreamName

FORMAT: Final = "syncd/cleaned"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lying:
    """An object as a listing shows it."""

    key: str
    bytes: int
    at: datetime
    """When it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Some files of a stream that a person had removed."""

    stream: StreamName
    at: datetime
    who: str
    why: str
    nonce: str
    files: Mapping[str, int]
    """Keys, and the bytes of each."""

    @property
    def key(self) -> str:
        return cleaned_key(self.stream, self.at)

    @property
    def said(self) -> str:
        return f"it was cleaned by {self.who} at {self.at:%Y-%m-%d %H:%M:%S} UTC"

    def to_bytes(self) -> bytes:
        return seal(FORMAT, VERSION, {
            "stream": self.stream.chain_stem,
            "at": instant_text(self.at),
            "who": printable(self.who),
            "why": printable(self.why),
            "nonce": self.nonce,
            "files": dict(self.files),
        })  # fmt: skip

    @classmethod
    def of_bytes(cls, body: bytes, *, at: str, stream: StreamName) -> Self:
        """The record in the bytes.

        Raises:
            StateUnreadable: there is none, or it is another stream's.
        """
        read = Fields(unseal(body, FORMAT, VERSION, at=at), at=at)
        if (found := read.text("stream")) != stream.chain_stem:
            raise Foreign(f"{at} is about {found}")
        held = read.inner("files")
        files = Fields(held, at=at)
        with blamed(at):
            record = cls(
                stream=stream.default,
                at=instant_of(read.text("at")),
                who=read.text("who"),
                why=read.text("why"),
                nonce=read.text("nonce"),
                files={key: files.number(key) for key in held},
            )
        read.known()
        return record


class Records(Protocol):
    """The lake, as far as records are looked for."""

    def stray(self, prefix: str) -> Sequence[tuple[str, datetime]]:
        """Every object below a prefix with the instant of its last change."""
        ...

    def read(self, key: str) -> bytes:
        """All of an object."""
        ...


def record_keys(records: Records, stream: StreamName) -> frozenset[str]:
    """The keys of all records of a stream."""
    return frozenset(key for key, _ in records.stray(cleaned_prefix(stream)))


def records_of(records: Records, stream: StreamName, *, but: AbstractSet[str] = frozenset()) -> Iterator[Cleaned]:
    """Every record of a stream but some, the newest first.

    Raises:
        StateUnreadable: one cannot be believed.
    """
    for key in sorted(record_keys(records, stream) - but, reverse=True):
        yield Cleaned.of_bytes(records.read(key), at=key, stream=stream)


def cleaned_by(records: Records, stream: StreamName, keys: Collection[str]) -> Mapping[str, Cleaned]:
    """Of these files, the record of each that was removed on purpose; nothing is asked where there are none."""
    left, found = set(keys), dict[str, Cleaned]()
    for record in records_of(records, stream) if left else ():
        taken = left & record.files.keys()
        found |= dict.fromkeys(taken, record)
        left -= taken
        if not left:
            break
    return found
