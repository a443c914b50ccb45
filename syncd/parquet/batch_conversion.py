"""Conversion of transferred batches to batches for files; policies handle values that do not fit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from syncd.datatypes.columns import MAX_COPY_ROW_BYTES, ColumnMapping, Policies, Policy, ValueProblem
from syncd.errors import ValueRefused
from syncd.parquet.column_values import (
    SOURCE_ARROW_TYPES,
    RowMask,
    TypedColumn,
    arrow_type,
    cast_to_source_type,
    format_value,
    make_typed_column,
    set_null,
    shorten,
)

REASON_COLUMN: Final = "_syncd_reason"
"""Column of refused rows with the reason: `note: oversize`, several joined by `; `."""
_TROUBLE_TEXTS: Final[dict[ValueProblem, str]] = {
    ValueProblem.ZERO_DATE: "dates whose month or day is zero",
    ValueProblem.OVERSIZE: "values longer than their target column",
    ValueProblem.OUT_OF_RANGE: "values outside the range of their target column",
    ValueProblem.INVALID_TEXT: "texts that are not valid in their character set or contain a NUL character",
}
Counts: TypeAlias = npt.NDArray[np.int64]

_WHOLE_ROW: Final = "the row"
_FIXED_VALUE_BYTES: Final = 16


def file_schema(mappings: Sequence[ColumnMapping]) -> pa.Schema:
    """Return the columns of a file; each may be NULL."""
    return pa.schema([pa.field(mapping.name, arrow_type(mapping.parquet)) for mapping in mappings])


def refused_schema(mappings: Sequence[ColumnMapping]) -> pa.Schema:
    """Return the columns of a file of refused rows: each in its transfer form, and the reason."""
    fields = [pa.field(mapping.name, SOURCE_ARROW_TYPES[mapping.travel]) for mapping in mappings]
    return pa.schema([*fields, pa.field(REASON_COLUMN, pa.string())])


@dataclass(frozen=True, slots=True)
class Converted:
    """Result of the conversion of one batch."""

    batch: pa.RecordBatch
    """The accepted rows, typed."""
    source_batch: pa.RecordBatch
    """The same rows in transfer form, with every field of the query."""
    troubles: Mapping[str, int]
    """Number of values that each policy handled, by `problem.policy`."""
    refused: pa.RecordBatch | None = None
    """The rows for quarantine, if there are any."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Converter of transferred batches to typed ones; a plain value, so that Spark can send it to tasks.

    In the columns in `keys`, which identify rows, no value is set to NULL or cut: such a row goes to quarantine. So
    does a row with a value that would be cut but is worthless then.
    """

    columns: tuple[ColumnMapping, ...]
    policies: Policies = field(default_factory=Policies)
    keys: frozenset[str] = frozenset()

    def convert(self, batch: pa.RecordBatch) -> Converted:
        """Return the typed batch; its fields are found by the names of the mappings.

        Raises:
            ValueRefused: the policy of a value is `fail`.
        """
        work = _BatchConversion(self, batch)
        arrays = [work.column(mapping) for mapping in self.columns]
        arrays = work.fit_rows(arrays)
        return work.result(pa.RecordBatch.from_arrays(arrays, schema=file_schema(self.columns)))

    def policy_for(self, mapping: ColumnMapping, trouble: ValueProblem) -> Policy:
        """Return the policy for a problem of this column."""
        policy = self.policies.policy_for(trouble)
        changes = policy in {Policy.NULL, Policy.TRUNCATE} and mapping.name in self.keys
        return Policy.QUARANTINE if changes or (policy is Policy.TRUNCATE and mapping.whole) else policy


class _BatchConversion:
    """One batch under conversion: counts problems and collects refused rows."""

    def __init__(self, conversion: Conversion, batch: pa.RecordBatch) -> None:
        self._conversion = conversion
        self._batch = batch
        self._troubles: Counter[str] = Counter()
        self._refused: RowMask = np.zeros(batch.num_rows, bool)
        self._reasons: dict[int, list[str]] = {}

    def column(self, mapping: ColumnMapping) -> pa.Array:
        typed = make_typed_column(mapping, self._batch.column(mapping.name))
        array = typed.array
        for problem, rows in typed.troubles:
            array = self._apply_policy(mapping, typed, array, problem, rows)
        return array

    def _apply_policy(
        self, mapping: ColumnMapping, made: TypedColumn, array: pa.Array, trouble: ValueProblem, rows: RowMask
    ) -> pa.Array:
        policy = self._conversion.policy_for(mapping, trouble)
        if policy is Policy.FAIL:
            raise self._value_refused(mapping.column, trouble, rows)
        self._troubles[f"{trouble}.{policy}"] += int(rows.sum())
        if policy is Policy.QUARANTINE:
            self._refuse(mapping.column, trouble, rows)
        if policy is Policy.TRUNCATE:
            assert made.cut is not None
            return pc.if_else(pa.array(rows), made.cut, array)
        return array

    def _refuse(self, what: str, trouble: ValueProblem, rows: RowMask) -> None:
        self._refused |= rows
        for row in np.flatnonzero(rows).tolist():
            self._reasons.setdefault(row, []).append(f"{what}: {trouble}")

    def _value_refused(self, what: str, trouble: ValueProblem, rows: RowMask) -> ValueRefused:
        first = int(np.flatnonzero(rows)[0])
        keys = sorted(self._conversion.keys & set(self._batch.schema.names))
        at = ", ".join(f"{key}={format_value(self._batch.column(key)[first])}" for key in keys)
        return ValueRefused(
            f"{what}: {int(rows.sum())} {_TROUBLE_TEXTS[trouble]}" + (f", the first at {at}" if at else ""),
            hint=f"Fix them at the source, or set a policy of the stream that lets them pass: {trouble}: quarantine.",
            column=what,
            trouble=str(trouble),
        )

    def fit_rows(self, arrays: list[pa.Array]) -> list[pa.Array]:
        """Make every row short enough for COPY."""
        mappings = self._conversion.columns
        places = [place for place, mapping in enumerate(mappings) if mapping.limit is not None]
        fixed = _FIXED_VALUE_BYTES * (len(mappings) - len(places))
        if fixed + sum(pc.max(pc.binary_length(arrays[place])).as_py() or 0 for place in places) <= MAX_COPY_ROW_BYTES:
            return arrays
        lengths = np.stack([_lengths(arrays[place]) for place in places])
        return self._shorten(arrays, places, lengths, MAX_COPY_ROW_BYTES - fixed)

    def _shorten(self, arrays: list[pa.Array], places: list[int], lengths: Counts, room: int) -> list[pa.Array]:
        """Change column by column, the widest first, until every row fits or is refused."""
        while (long := self._rows_too_long(lengths, room)).any():
            widest = lengths.argmax(axis=0)
            place = int(widest[np.flatnonzero(long)[0]])
            mapping = self._conversion.columns[places[place]]
            rows = long & (widest == place)
            policy = self._conversion.policy_for(mapping, ValueProblem.OVERSIZE)
            if policy is Policy.FAIL:
                raise self._value_refused(_WHOLE_ROW, ValueProblem.OVERSIZE, long)
            self._troubles[f"{ValueProblem.OVERSIZE}.{policy}"] += int(rows.sum())
            if policy is Policy.QUARANTINE:
                self._refuse(_WHOLE_ROW, ValueProblem.OVERSIZE, rows)
                continue
            excess = lengths[:, rows].sum(axis=0) - room
            left = np.maximum(lengths[place, rows] - excess, 0)
            array = arrays[places[place]]
            arrays[places[place]] = set_null(array, rows) if policy is Policy.NULL else shorten(array, rows, left)
            lengths[place] = _lengths(arrays[places[place]])
        return arrays

    def _rows_too_long(self, lengths: Counts, room: int) -> RowMask:
        rows: RowMask = (lengths.sum(axis=0) > room) & ~self._refused
        return rows

    def result(self, typed: pa.RecordBatch) -> Converted:
        troubles = dict(self._troubles)
        if not self._reasons:
            return Converted(typed, self._batch, troubles)
        kept = pa.array(~self._refused)
        return Converted(typed.filter(kept), self._batch.filter(kept), troubles, self._refused_batch())

    def _refused_batch(self) -> pa.RecordBatch:
        mappings = self._conversion.columns
        rows = self._batch.filter(pa.array(self._refused))
        arrays = [cast_to_source_type(mapping, rows.column(mapping.name)) for mapping in mappings]
        reasons = pa.array(["; ".join(self._reasons[row]) for row in sorted(self._reasons)], pa.string())
        return pa.RecordBatch.from_arrays([*arrays, reasons], schema=refused_schema(mappings))


def _lengths(array: pa.Array) -> Counts:
    lengths: Counts = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths
