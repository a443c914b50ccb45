"""Files of the lake read whole: the digest of their bytes, and the rows that they say they hold."""

import hashlib
from dataclasses import dataclass

import pyarrow as pa

from syncd.lake.window_reads import Part
from syncd.s3.lake_client import PIECE_BYTES, S3Lake
from syncd.s3.ranged_file import open_part
from watermarks.errors import StateUnreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFileContent:
    """What a file holds."""

    sha256: str
    rows: int


class LakeFileReader:
    """Reads files of one lake, a piece at a time."""

    def __init__(self, lake: S3Lake) -> None:
        self._lake = lake

    def read_content(self, part: Part) -> LakeFileContent:
        digest = hashlib.sha256()
        for first in range(0, part.bytes, PIECE_BYTES):
            digest.update(self._lake.read_range(part.key, first, min(first + PIECE_BYTES, part.bytes)))
        try:
            rows = open_part(self._lake, part).metadata.num_rows
        except (pa.ArrowInvalid, OSError) as error:
            raise StateUnreadable(f"{part.key} is no Parquet: {error}") from error
        return LakeFileContent(sha256=digest.hexdigest(), rows=rows)
