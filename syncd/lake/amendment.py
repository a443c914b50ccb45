"""Amendments: files that replace those of a batch after the warehouse refused rows of them.

A link never changes, and neither do the files that it names. If the warehouse refuses single rows, an amendment
beside the link names files without these rows, and the files in quarantine that hold them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from syncd.lake.manifest import Manifest
from syncd.lake.read_requests import Part
from watermarks.batch import BatchId
from watermarks.codec import ForeignDocument, encode, read_document
from watermarks.errors import StateUnreadable
from watermarks.names import StreamName

FORMAT: Final = "syncd/amendment"
VERSION: Final = 1


def amendment_key(stream: StreamName, batch: BatchId, number: int) -> str:
    """Return the key of the amendment with this number, from 1."""
    return f"batches/{stream.chain_stem}/{batch}.amended-{number}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """One replacement of files of a batch by files that the warehouse accepts."""

    stream: StreamName
    batch: BatchId
    nonce: str
    replacements: Mapping[str, Part | None]
    """Maps the key of a file to the file without the refused rows; to None if no row is left."""
    refused_parts: tuple[Part, ...]

    def apply_to(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the replaced files."""
        parts = (self.replacements.get(part.key, part) for part in manifest.parts)
        return replace(
            manifest,
            parts=tuple(part for part in parts if part is not None),
            quarantined_parts=(*manifest.quarantined_parts, *self.refused_parts),
        )

    def to_bytes(self) -> bytes:
        fields = {
            "stream": self.stream.chain_stem,
            "id": str(self.batch),
            "nonce": self.nonce,
            "instead": {key: part.to_fields() if part else None for key, part in self.replacements.items()},
            "refused": [part.to_fields() for part in self.refused_parts],
        }
        return encode(FORMAT, VERSION, fields)

    @classmethod
    def from_bytes(cls, body: bytes, *, at: str, stream: StreamName, batch: BatchId) -> Self:
        """Parse an amendment.

        Raises:
            StateUnreadable: it is none, or belongs to another batch.
        """
        with read_document(body, FORMAT, VERSION, location=at) as read:
            if (found := (read.text("stream"), read.text("id"))) != (stream.chain_stem, str(batch)):
                raise ForeignDocument(f"{at} amends batch {found[1]} of {found[0]}")
            instead = read.mapping("instead").items()
            try:
                return cls(
                    stream=stream.default_stream,
                    batch=batch,
                    nonce=read.text("nonce"),
                    replacements={key: Part.from_fields(part) if part else None for key, part in instead},
                    refused_parts=tuple(map(Part.from_fields, read.items("refused"))),
                )
            except (KeyError, TypeError, ValueError) as error:
                raise StateUnreadable(f"{at} is not an amendment: {error!r}") from error


def apply_amendments(manifest: Manifest, amendments: Sequence[Amendment]) -> Manifest:
    """Return the manifest after all of its amendments, in their order."""
    for amendment in amendments:
        manifest = amendment.apply_to(manifest)
    return manifest
