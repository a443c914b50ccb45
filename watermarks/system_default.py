"""System-wide default: the instant from which streams without one of their own start."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Self

from watermarks.codec import ForeignDocument, encode, read_document
from watermarks.cursor import format_instant
from watermarks.names import SYSTEM_STEM

SYSTEM_DEFAULT_FORMAT_NAME: Final = "watermarks/system"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemDefault:
    """The one document of this kind in a lake. It does not move a stream that has begun."""

    revision: int = 0
    start: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def stem(self) -> str:
        return SYSTEM_STEM

    def with_revision(self, revision: int, *, updated_at: datetime) -> Self:
        """Return this content as a revision of the document."""
        return replace(self, revision=revision, updated_at=updated_at)

    def to_bytes(self) -> bytes:
        return encode(SYSTEM_DEFAULT_FORMAT_NAME, FORMAT_VERSION, self.to_fields())

    def to_fields(self) -> dict[str, Any]:
        """Return the content under the names of the document."""
        return {
            "revision": self.revision,
            "last_run_timestamp": format_instant(self.start) if self.start else None,
            "created_at": format_instant(self.created_at),
            "updated_at": format_instant(self.updated_at),
        }

    @classmethod
    def from_bytes(cls, body: bytes, *, location: str, stem: str) -> Self:
        """Decode the default. Raises StateUnreadable if it is no such document."""
        if stem != SYSTEM_STEM:
            raise ForeignDocument(f"{location} cannot be the system-wide default")
        with read_document(body, SYSTEM_DEFAULT_FORMAT_NAME, FORMAT_VERSION, location=location) as read:
            return cls(
                revision=read.number("revision"),
                start=read.optional_instant("last_run_timestamp"),
                created_at=read.instant("created_at"),
                updated_at=read.instant("updated_at"),
            )
