"""Files of the lake read whole: the digest of their bytes, and the rows that they say they hold."""

import hashlib
from dataclasses import dataclass

import pyarrow as pa

from syncd.lake.window_reads import Part
from syncd.s3.lake_client import PIECE, Lake
from syncd.s3.ranged_file import opened
from watermarks.errors import StateUnreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file holds."""

    sha256: str
    rows: int


class LakeDepth:
    """Reads files of one lake, a piece at a time."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def content(self, part: Part) -> Content:
        digest = hashlib.sha256()
        for first in range(0, part.bytes, PIECE):
            digest.update(self._lake.piece(part.key, first, min(first + PIECE, part.bytes)))
        try:
            rows = opened(self._lake, part).metadata.num_rows
        except (pa.ArrowInvalid, OSError) as error:
            raise StateUnreadable(f"{part.key} is no Parquet: {error}") from error
        return Content(sha256=digest.hexdigest(), rows=rows)
