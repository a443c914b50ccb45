"""Amendments: what became of a batch's files when the warehouse refused rows of them.

A link is for ever, and so is what it names. Where single rows cannot land, an
amendment beside it names files without them in place of the first ones, and the
files in which the rows were put aside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from syncd.lake.manifest import Manifest
from syncd.lake.window_reads import Part
from watermarks.batch import BatchId
from watermarks.codec import FieldReader, ForeignDocument, decode, encode
from watermarks.errors import StateUnreadable
from watermarks.names import StreamName

FORMAT: Final = "syncd/amendment"
VERSION: Final = 1


def amendment_key(stream: StreamName, batch: BatchId, number: int) -> str:
    """The key of a batch's first, second, ... amendment."""
    return f"batches/{stream.chain_stem}/{batch}.amended-{number}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """One step from a batch's files to others that land."""

    stream: StreamName
    batch: BatchId
    nonce: str
    replacements: Mapping[str, Part | None]
    """For the key of a file: the one without the refused rows; None where no row is left."""
    refused_parts: tuple[Part, ...]

    def apply_to(self, manifest: Manifest) -> Manifest:
        """The manifest as it is to land."""
        parts = (self.replacements.get(part.key, part) for part in manifest.parts)
        return replace(
            manifest,
            parts=tuple(part for part in parts if part is not None),
            quarantined_parts=(*manifest.quarantined_parts, *self.refused_parts),
        )

    def to_bytes(self) -> bytes:
        return encode(
            FORMAT,
            VERSION,
            {
                "stream": self.stream.chain_stem,
                "id": str(self.batch),
                "nonce": self.nonce,
                "instead": {key: part.to_fields() if part else None for key, part in self.replacements.items()},
                "refused": [part.to_fields() for part in self.refused_parts],
            },
        )

    @classmethod
    def from_bytes(cls, body: bytes, *, at: str, stream: StreamName, batch: BatchId) -> Self:
        """The amendment in the bytes.

        Raises:
            StateUnreadable: there is none, or it is another batch's.
        """
        read = FieldReader(decode(body, FORMAT, VERSION, location=at), location=at)
        if (found := (read.text("stream"), read.text("id"))) != (stream.chain_stem, str(batch)):
            raise ForeignDocument(f"{at} amends batch {found[1]} of {found[0]}")
        try:
            amendment = cls(
                stream=stream.default_stream,
                batch=batch,
                nonce=read.text("nonce"),
                replacements={
                    key: Part.from_fields(part) if part else None for key, part in read.mapping("instead").items()
                },
                refused_parts=tuple(map(Part.from_fields, read.items("refused"))),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateUnreadable(f"{at} is no amendment of ours: {error!r}") from error
        read.require_all_read()
        return amendment


def apply_amendments(manifest: Manifest, amendments: Sequence[Amendment]) -> Manifest:
    """The manifest after all of its amendments, in their order."""
    for amendment in amendments:
        manifest = amendment.apply_to(manifest)
    return manifest
