"""Records of removed files, each written before its removal, and found again by key.

A file that is missing is no loss if an operator removed it after it was loaded.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, Self

from syncd.lake.object_keys import cleaned_key, cleaned_prefix
from watermarks.codec import FieldReader, ForeignDocument, encode, read_document, to_printable
from watermarks.cursor import format_instant
from watermarks.names import StreamName

FORMAT: Final = "syncd/cleaned"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedObject:
    """An object in a listing."""

    key: str
    bytes: int
    at: datetime
    """When it was written."""
    etag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRecord:
    """Files of a stream that an operator removed."""

    stream: StreamName
    at: datetime
    who: str
    why: str
    nonce: str
    files: Mapping[str, int]
    """Maps keys to bytes."""

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
        """Parse a record.

        Raises:
            StateUnreadable: it is none, or belongs to another stream.
        """
        with read_document(body, FORMAT, VERSION, location=at) as read:
            if (found := read.text("stream")) != stream.chain_stem:
                raise ForeignDocument(f"{at} belongs to {found}")
            sizes = read.mapping("files")
            files = FieldReader(sizes, location=at)
            return cls(
                stream=stream.default_stream,
                at=read.instant("at"),
                who=read.text("who"),
                why=read.text("why"),
                nonce=read.text("nonce"),
                files={key: files.number(key) for key in sizes},
            )


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
    return frozenset(found.key for found in records.list_objects(cleaned_prefix(stream)))


def iter_removal_records(
    records: ObjectReader, stream: StreamName, *, exclude: AbstractSet[str] = frozenset()
) -> Iterator[RemovalRecord]:
    """Yield the records of a stream, newest first.

    Raises:
        StateUnreadable: a record is damaged.
    """
    for key in sorted(list_record_keys(records, stream) - exclude, reverse=True):
        yield RemovalRecord.from_bytes(records.read(key), at=key, stream=stream)


def find_removal_records(
    records: ObjectReader, stream: StreamName, keys: Collection[str]
) -> Mapping[str, RemovalRecord]:
    """Return the record of each of these files that was removed; without files, nothing is read."""
    left, found = set(keys), dict[str, RemovalRecord]()
    for record in iter_removal_records(records, stream) if left else ():
        removed = left & record.files.keys()
        found |= dict.fromkeys(removed, record)
        left -= removed
        if not left:
            break
    return found
