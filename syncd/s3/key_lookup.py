"""Rows of one key in files of the lake: the columns of the key are read, and only of what may hold it."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from syncd.lake.window_reads import Part
from syncd.s3.lake_client import S3Lake
from syncd.s3.ranged_file import open_part
from watermarks.errors import Misuse


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHit:
    """One row of a file."""

    row_number: int
    """Its number in the file, from 0."""
    values: Mapping[str, object] = field(default_factory=dict[str, object])


class LakeKeyFinder:
    """Looks for keys in the files of one lake."""

    def __init__(self, lake: S3Lake) -> None:
        self._lake = lake

    def find_key(self, part: Part, key: Mapping[str, str], *, extra_columns: tuple[str, ...] = ()) -> Iterator[KeyHit]:
        """The rows of a file that have this key, with the values of some further columns.

        Raises:
            Misuse: a value of the key cannot be one of its column.
        """
        file = open_part(self._lake, part)
        schema = file.schema_arrow
        if not set(key) <= set(schema.names):
            return
        wanted = {name: _to_scalar(name, text, schema.field(name).type) for name, text in key.items()}
        columns = [name for name in (*key, *extra_columns) if name in schema.names]
        before = 0
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            if _may_hold(group, wanted):
                rows = file.read_row_group(number, columns=columns)
                yield from _matching_rows(rows, wanted, before)
            before += group.num_rows


def _to_scalar(name: str, text: str, kind: pa.DataType) -> Any:  # noqa: ANN401  # a scalar of Arrow
    try:
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return pa.scalar(text.encode(), kind)
        return pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Misuse(f"{name} is of type {kind}, and {text!r} is no such value") from error


def _may_hold(group: pq.RowGroupMetaData, wanted: Mapping[str, Any]) -> bool:
    """Whether a row group can have the key, as its statistics tell; without them, or of other types, it can."""
    for place in range(group.num_columns):
        column = group.column(place)
        value = wanted.get(column.path_in_schema)
        statistics = column.statistics if value is not None else None
        if value is None or statistics is None or not statistics.has_min_max:
            continue
        with contextlib.suppress(TypeError):
            if not statistics.min <= value.as_py() <= statistics.max:
                return False
    return True


def _matching_rows(rows: pa.Table, wanted: Mapping[str, Any], before: int) -> Iterator[KeyHit]:
    mask = None
    for name, value in wanted.items():
        same = pc.equal(rows[name], value)
        mask = same if mask is None else pc.and_(mask, same)
    places = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()  # noqa: FBT003  # Arrow's own form
    for place in places:
        [values] = rows.slice(place, 1).to_pylist()
        yield KeyHit(row_number=before + place, values=values)
