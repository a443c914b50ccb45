"""Batches as they travelled, to batches as files store them; what cannot pass is met by its policy."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from syncd.datatypes.columns import LONGEST_ROW, Passage, Policies, Policy, Trouble
from syncd.errors import ValueRefused
from syncd.parquet.column_values import TRAVELS, Made, Rows, arrow_type, make, shortened, shown, travelled, without

REASON: Final = "_syncd_reason"
"""The column of refused rows that says why: `note: oversize`, several with `; ` between."""
_SAYS: Final[dict[Trouble, str]] = {
    Trouble.ZERO_DATE: "dates whose month or day is zero",
    Trouble.OVERSIZE: "values longer than their target holds",
    Trouble.OUT_OF_RANGE: "values that their target does not know",
    Trouble.INVALID_TEXT: "texts that are not valid in their character set, or hold a NUL character",
}
Counts: TypeAlias = npt.NDArray[np.int64]

_ROW: Final = "the row"
_FIXED_BYTES: Final = 16


def file_schema(passages: Sequence[Passage]) -> pa.Schema:
    """The columns of a file; every one may be NULL."""
    return pa.schema([pa.field(passage.name, arrow_type(passage.parquet)) for passage in passages])


def refused_schema(passages: Sequence[Passage]) -> pa.Schema:
    """The columns of a file of refused rows: each as it travelled, and the reason."""
    fields = [pa.field(passage.name, TRAVELS[passage.travel]) for passage in passages]
    return pa.schema([*fields, pa.field(REASON, pa.string())])


@dataclass(frozen=True, slots=True)
class Converted:
    """What became of one batch."""

    batch: pa.RecordBatch
    """The rows that pass, typed."""
    travelled: pa.RecordBatch
    """The same rows as they travelled, with every field of the query."""
    troubles: Mapping[str, int]
    """How many values met each policy, by `trouble.policy`."""
    refused: pa.RecordBatch | None = None
    """The rows for quarantine, if there are any."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Makes typed batches of travelled ones; a plain value, so that it reaches Spark's tasks.

    In columns named by `keys`, which say what row it is, nothing is made NULL or cut:
    such a row goes to quarantine instead. So do rows with a value of which a piece is
    worth nothing, where the policy is to cut.
    """

    passages: tuple[Passage, ...]
    policies: Policies = field(default_factory=Policies)
    keys: frozenset[str] = frozenset()

    def convert(self, batch: pa.RecordBatch) -> Converted:
        """The typed batch; its fields are found by the names of the passages.

        Raises:
            ValueRefused: a value met the policy `fail`.
        """
        work = _Work(self, batch)
        arrays = [work.column(passage) for passage in self.passages]
        arrays = work.fit_rows(arrays)
        return work.done(pa.RecordBatch.from_arrays(arrays, schema=file_schema(self.passages)))

    def met(self, passage: Passage, trouble: Trouble) -> Policy:
        """The policy that a trouble of this column meets."""
        policy = self.policies.of(trouble)
        changes = policy in {Policy.NULL, Policy.TRUNCATE} and passage.name in self.keys
        return Policy.QUARANTINE if changes or (policy is Policy.TRUNCATE and passage.whole) else policy


class _Work:
    """One batch under conversion: counts what happened, and collects the rows that are refused."""

    def __init__(self, conversion: Conversion, batch: pa.RecordBatch) -> None:
        self._conversion = conversion
        self._batch = batch
        self._troubles: Counter[str] = Counter()
        self._refused: Rows = np.zeros(batch.num_rows, bool)
        self._reasons: dict[int, list[str]] = {}

    def column(self, passage: Passage) -> pa.Array:
        made = make(passage, self._batch.column(passage.name))
        array = made.array
        for trouble, rows in made.troubles:
            array = self._meet(passage, made, array, trouble, rows)
        return array

    def _meet(self, passage: Passage, made: Made, array: pa.Array, trouble: Trouble, rows: Rows) -> pa.Array:
        policy = self._conversion.met(passage, trouble)
        if policy is Policy.FAIL:
            raise self._failure(passage.column, trouble, rows)
        self._troubles[f"{trouble}.{policy}"] += int(rows.sum())
        if policy is Policy.QUARANTINE:
            self._refuse(passage.column, trouble, rows)
        if policy is Policy.TRUNCATE:
            assert made.cut is not None
            return pc.if_else(pa.array(rows), made.cut, array)
        return array

    def _refuse(self, what: str, trouble: Trouble, rows: Rows) -> None:
        self._refused |= rows
        for row in np.flatnonzero(rows).tolist():
            self._reasons.setdefault(row, []).append(f"{what}: {trouble}")

    def _failure(self, what: str, trouble: Trouble, rows: Rows) -> ValueRefused:
        first = int(np.flatnonzero(rows)[0])
        keys = sorted(self._conversion.keys & set(self._batch.schema.names))
        at = ", ".join(f"{key}={shown(self._batch.column(key)[first])}" for key in keys)
        return ValueRefused(
            f"{what}: {int(rows.sum())} {_SAYS[trouble]}" + (f", the first at {at}" if at else ""),
            hint=f"Mend them at the source, or let them pass by a policy of the stream: {trouble}: quarantine.",
            column=what,
            trouble=str(trouble),
        )

    def fit_rows(self, arrays: list[pa.Array]) -> list[pa.Array]:
        """See that no row is longer than COPY takes."""
        passages = self._conversion.passages
        places = [place for place, passage in enumerate(passages) if passage.limit is not None]
        fixed = _FIXED_BYTES * (len(passages) - len(places))
        if fixed + sum(pc.max(pc.binary_length(arrays[place])).as_py() or 0 for place in places) <= LONGEST_ROW:
            return arrays
        lengths = np.stack([_lengths(arrays[place]) for place in places])
        return self._shorten(arrays, places, lengths, LONGEST_ROW - fixed)

    def _shorten(self, arrays: list[pa.Array], places: list[int], lengths: Counts, room: int) -> list[pa.Array]:
        """Change column by column, the widest first, until every row fits or is refused."""
        while (long := self._long(lengths, room)).any():
            widest = lengths.argmax(axis=0)
            place = int(widest[np.flatnonzero(long)[0]])
            passage = self._conversion.passages[places[place]]
            rows = long & (widest == place)
            policy = self._conversion.met(passage, Trouble.OVERSIZE)
            if policy is Policy.FAIL:
                raise self._failure(_ROW, Trouble.OVERSIZE, long)
            self._troubles[f"{Trouble.OVERSIZE}.{policy}"] += int(rows.sum())
            if policy is Policy.QUARANTINE:
                self._refuse(_ROW, Trouble.OVERSIZE, rows)
                continue
            excess = lengths[:, rows].sum(axis=0) - room
            left = np.maximum(lengths[place, rows] - excess, 0)
            array = arrays[places[place]]
            arrays[places[place]] = without(array, rows) if policy is Policy.NULL else shortened(array, rows, left)
            lengths[place] = _lengths(arrays[places[place]])
        return arrays

    def _long(self, lengths: Counts, room: int) -> Rows:
        rows: Rows = (lengths.sum(axis=0) > room) & ~self._refused
        return rows

    def done(self, typed: pa.RecordBatch) -> Converted:
        troubles = dict(self._troubles)
        if not self._reasons:
            return Converted(typed, self._batch, troubles)
        kept = pa.array(~self._refused)
        return Converted(typed.filter(kept), self._batch.filter(kept), troubles, self._out())

    def _out(self) -> pa.RecordBatch:
        passages = self._conversion.passages
        rows = self._batch.filter(pa.array(self._refused))
        arrays = [travelled(passage, rows.column(passage.name)) for passage in passages]
        reasons = pa.array(["; ".join(self._reasons[row]) for row in sorted(self._reasons)], pa.string())
        return pa.RecordBatch.from_arrays([*arrays, reasons], schema=refused_schema(passages))


def _lengths(array: pa.Array) -> Counts:
    lengths: Counts = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths
