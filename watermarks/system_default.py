"""The system-wide default: the instant from which streams start that were told no other."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Self

from watermarks.codec import Fields, Foreign, blamed, seal, unseal
from watermarks.cursor import instant_of, instant_text
from watermarks.names import SYSTEM

FORMAT: Final = "watermarks/system"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemDefault:
    """One document for the whole lake; it moves no stream that has begun."""

    revision: int = 0
    start: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def stem(self) -> str:
        return SYSTEM

    def stamped(self, revision: int, *, at: datetime) -> Self:
        """This content as a revision of the document."""
        return replace(self, revision=revision, updated_at=at)

    def to_bytes(self) -> bytes:
        return seal(FORMAT, VERSION, self.fields())

    def fields(self) -> dict[str, Any]:
        """The content in the document's own words."""
        return {
            "revision": self.revision,
            "last_run_timestamp": instant_text(self.start) if self.start else None,
            "created_at": instant_text(self.created_at),
            "updated_at": instant_text(self.updated_at),
        }

    @classmethod
    def of_bytes(cls, body: bytes, *, at: str, stem: str) -> Self:
        """The default in the bytes.

        Raises:
            StateUnreadable: there is none.
        """
        if stem != SYSTEM:
            raise Foreign(f"{at} cannot be the system-wide default")
        read = Fields(unseal(body, FORMAT, VERSION, at=at), at=at)
        with blamed(at):
            start = read.maybe_text("last_run_timestamp")
            default = cls(
                revision=read.number("revision"),
                start=instant_of(start) if start else None,
                created_at=instant_of(read.text("created_at")),
                updated_at=instant_of(read.text("updated_at")),
            )
        read.known()
        return default
