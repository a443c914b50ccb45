"""What was removed from the lake on purpose: a record for each removal, written before it, and found again by key.

Whoever meets a file that is gone asks here first: a file that a person removed once it had landed is no loss.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, Self

from syncd.lake.keys import cleaned_key, cleaned_prefix
from watermarks.codec import FieldReader, ForeignDocument, decode, encode, raise_as_damaged, to_printable
from watermarks.cursor import format_instant, parse_instant
from watermarks.names import StreamName

FORMAT: Final = "syncd/cleaned"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedObject:
    """An object as a listing shows it."""

    key: str
    bytes: int
    at: datetime
    """When it was written."""
    etag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRecord:
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
    def description(self) -> str:
        return f"it was cleaned by {self.who} at {self.at:%Y-%m-%d %H:%M:%S} UTC"

    def to_bytes(self) -> bytes:
        return encode(FORMAT, VERSION, {
            "stream": self.stream.chain_stem,
            "at": format_instant(self.at),
            "who": to_printable(self.who),
            "why": to_printable(self.why),
            "nonce": self.nonce,
            "files": dict(self.files),
        })  # fmt: skip

    @classmethod
    def from_bytes(cls, body: bytes, *, at: str, stream: StreamName) -> Self:
        """The record in the bytes.

        Raises:
            StateUnreadable: there is none, or it is another stream's.
        """
        read = FieldReader(decode(body, FORMAT, VERSION, location=at), location=at)
        if (found := read.text("stream")) != stream.chain_stem:
            raise ForeignDocument(f"{at} is about {found}")
        held = read.mapping("files")
        files = FieldReader(held, location=at)
        with raise_as_damaged(at):
            record = cls(
                stream=stream.default_stream,
                at=parse_instant(read.text("at")),
                who=read.text("who"),
                why=read.text("why"),
                nonce=read.text("nonce"),
                files={key: files.number(key) for key in held},
            )
        read.require_all_read()
        return record


class ObjectReader(Protocol):
    """The lake, as far as it is listed and read."""

    def list_objects(self, prefix: str) -> Sequence[ListedObject]:
        """List every object below a prefix.

        Raises:
            LakeDown, LakeUnfit: the lake gave no listing.
        """
        ...

    def read(self, key: str) -> bytes: ...


def list_record_keys(records: ObjectReader, stream: StreamName) -> frozenset[str]:
    """The keys of all records of a stream."""
    return frozenset(found.key for found in records.list_objects(cleaned_prefix(stream)))


def iter_removal_records(
    records: ObjectReader, stream: StreamName, *, exclude: AbstractSet[str] = frozenset()
) -> Iterator[RemovalRecord]:
    """Every record of a stream but some, the newest first.

    Raises:
        StateUnreadable: one cannot be believed.
    """
    for key in sorted(list_record_keys(records, stream) - exclude, reverse=True):
        yield RemovalRecord.from_bytes(records.read(key), at=key, stream=stream)


def find_removal_records(
    records: ObjectReader, stream: StreamName, keys: Collection[str]
) -> Mapping[str, RemovalRecord]:
    """Of these files, the record of each that was removed on purpose; nothing is asked where there are none."""
    left, found = set(keys), dict[str, RemovalRecord]()
    for record in iter_removal_records(records, stream) if left else ():
        taken = left & record.files.keys()
        found |= dict.fromkeys(taken, record)
        left -= taken
        if not left:
            break
    return found
