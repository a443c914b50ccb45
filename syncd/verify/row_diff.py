"""Rows that differ, looked at value by value: those of the source as files would hold them, by what makes files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property
from json import JSONDecodeError, loads
from typing import Any, Final, Protocol, Self

import pyarrow as pa

from syncd.datatypes.columns import Passage, Travel
from syncd.lake.quarantine import lenient
from syncd.parquet.batch_conversion import Conversion
from syncd.parquet.column_values import TRAVELS, arrow_type
from syncd.verify.compared_columns import Compared
from syncd.verify.digest_forms import WHOLE_BYTES
from syncd.verify.key_ranges import Range
from syncd.verify.result import Difference, Kind
from syncd.verify.sides import HereRow, ThereRow
from syncd.verify.target_sql import shown_parts
from watermarks.cursor import Cursor

Row = tuple[Any, ...]
Typed = Mapping[str, Any]


class Fetched(Protocol):
    """A side that gives whole rows."""

    def values(self, one: Range, keys: Sequence[bytes]) -> Sequence[Row]: ...


Known = frozenset[tuple[object, ...]]
"""Key and stamp of the rows in quarantine, in both forms in which they lie there."""


class _Mine:
    """One row of the source."""

    def __init__(self, travelled: Typed, typed: Typed | None, position: Cursor) -> None:
        self.travelled = travelled
        self.typed = typed
        """None where a policy lets no such row pass."""
        self.position = position


class RowJudge:
    """Compares single rows; see the protocol."""

    def __init__(self, compared: Compared, *, here: Fetched, there: Fetched, quarantined: Callable[[], Known]) -> None:
        self._compared = compared
        self._here = here
        self._there = there
        self._quarantined = quarantined
        self._passages = compared.shown_columns
        names = {*compared.identity.key, compared.identity.cursor} - {None}
        policies = lenient(compared.settings.policies)
        self._conversion = Conversion(self._passages, policies, frozenset(filter(None, names)))

    def lost(self, one: Range, keys: Sequence[HereRow]) -> Iterator[Difference | None]:
        mine = self._mine(one, [row.key for row in keys])
        for row in keys:
            if (found := mine.get(row.key)) is None:
                continue
            if self._lies_aside(found):
                yield None
                continue
            yield Difference(kind=Kind.LOST, key=self._key(found), here=_shown(row.digest), position=found.position)

    def ghosts(self, one: Range, keys: Sequence[ThereRow]) -> Iterator[Difference]:
        yours = self._yours(one, [row.key for row in keys])
        for row in keys:
            found = yours[row.key][0]
            key = {name: found[name] for name in self._compared.identity.key}
            yield Difference(kind=Kind.GHOST, key=_plain(key), there=_shown(row.digest), file_key=self._file_key(found))

    def different(self, one: Range, pairs: Sequence[tuple[HereRow, Sequence[ThereRow]]]) -> Iterator[Difference | None]:
        keys = [row.key for row, _ in pairs]
        mine, yours = self._mine(one, keys), self._yours(one, keys)
        for row, others in pairs:
            found, rows = mine.get(row.key), yours.get(row.key, [])
            if found is None or not rows:
                continue
            columns = self._unequal(found, rows[0])
            if not columns and len(others) == 1:
                continue  # a policy changed a value on its way, and it is what the policy makes of it
            if self._lies_aside(found):
                yield None
                continue
            kind = Kind.DOUBLED if len(others) > 1 else self._kind(found, rows[0])
            told = found.typed or found.travelled
            yield Difference(
                kind=kind,
                key=self._key(found),
                columns=columns,
                here=_shown(row.digest),
                there=", ".join(_shown(other.digest) for other in others),
                here_values={name: told[name] for name in columns},
                there_values={name: rows[0][name] for name in columns},
                position=found.position,
            )

    def _kind(self, mine: _Mine, yours: Typed) -> Kind:
        cursor = self._compared.identity.cursor
        if cursor is None or mine.typed is None or cursor not in yours:
            return Kind.DIFFERENT
        here, there = mine.typed[cursor], yours[cursor]
        older = there is None or (here is not None and there < here)
        return Kind.STALE if older else Kind.DIFFERENT

    def _unequal(self, mine: _Mine, yours: Typed) -> tuple[str, ...]:
        typed = mine.typed
        if typed is None:
            return tuple(passage.name for passage in self._passages)
        return tuple(
            passage.name for passage in self._passages if not _same(passage, typed[passage.name], yours[passage.name])
        )

    def _key(self, mine: _Mine) -> Mapping[str, object]:
        told = mine.typed or mine.travelled
        return _plain({name: told[name] for name in self._compared.identity.key})

    def _file_key(self, yours: Typed) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for name in self._compared.identity.key:
            kind = arrow_type(self._compared.passage(name).parquet)
            value = yours[name]
            found[name] = int(value) if pa.types.is_integer(kind) else value
            if pa.types.is_decimal(kind):
                found[name] = Decimal(value)
        return found

    # Quarantine.

    def _lies_aside(self, mine: _Mine) -> bool:
        """Whether this very version was put aside, by either stage."""
        known = self._known
        if not known:
            return False
        names = self._identity
        forms = (mine.travelled, mine.typed) if mine.typed is not None else (mine.travelled,)
        return any(tuple(form[name] for name in names) in known for form in forms)

    @cached_property
    def _known(self) -> Known:
        return self._quarantined()

    @property
    def _identity(self) -> tuple[str, ...]:
        identity = self._compared.identity
        return (*identity.key, *((identity.cursor,) if identity.cursor else ()))

    # Rows of both sides.

    def _mine(self, one: Range, keys: Sequence[bytes]) -> dict[bytes, _Mine]:
        width = len(self._passages)
        order = self._compared.order.key
        rows = self._here.values(one, keys)
        batch = self._travelled([row[:width] for row in rows])
        typed = self._typed(batch)
        found: dict[bytes, _Mine] = {}
        for row, travelled, made in zip(rows, batch.to_pylist(), typed, strict=True):
            position = Cursor(tuple(column.value(raw) for column, raw in zip(order, row[width:-1], strict=True)))
            found[bytes(row[-1])] = _Mine(travelled, made, position)
        return found

    def _travelled(self, rows: Sequence[Row]) -> pa.RecordBatch:
        columns = {
            passage.name: pa.array([_sent(passage, row[place]) for row in rows], TRAVELS[passage.travel])
            for place, passage in enumerate(self._passages)
        }
        return pa.RecordBatch.from_pydict(columns)

    def _typed(self, batch: pa.RecordBatch) -> list[Typed | None]:
        done = self._conversion.convert(batch)
        if done.refused is None:
            return list(done.batch.to_pylist())
        single = (self._conversion.convert(batch.slice(place, 1)).batch for place in range(batch.num_rows))
        return [one.to_pylist()[0] if one.num_rows else None for one in single]

    def _yours(self, one: Range, keys: Sequence[bytes]) -> dict[bytes, list[Typed]]:
        found: dict[bytes, list[Typed]] = {}
        for row in self._there.values(one, keys):
            values = iter(row)
            typed = {
                passage.name: _received([next(values) for _ in shown_parts(passage)]) for passage in self._passages
            }
            found.setdefault(str(row[-1]).encode(), []).append(typed)
        return found


def _sent(passage: Passage, value: Any) -> Any:  # noqa: ANN401  # whatever the driver made of it
    if value is None:
        return None
    if passage.travel is Travel.TEXT and isinstance(value, bytes):
        return value.decode("ascii")
    if passage.travel is Travel.BYTES and isinstance(value, str):
        return value.encode()
    return int(value) if passage.travel is Travel.INTEGER else value


def _received(parts: Sequence[Any]) -> Any:  # noqa: ANN401  # as above
    """A value as files hold it, of what the driver gave."""
    if len(parts) > 1:
        return None if parts[0] is None else _Beginning(int(parts[0]), bytes.fromhex("".join(map(str, parts[1:]))))
    value = parts[0]
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value


class _Beginning(bytes):
    """The first bytes of a binary value, and how long all of it is."""

    length: int

    def __new__(cls, length: int, first: bytes) -> Self:
        made = super().__new__(cls, first)
        made.length = length
        return made


def _same(passage: Passage, mine: Any, yours: Any) -> bool:  # noqa: ANN401  # values of any type
    if mine is None or yours is None:
        return mine is None and yours is None
    if passage.redshift == "SUPER":
        return _document(mine) == _document(yours)
    if isinstance(yours, _Beginning):
        return len(mine) == yours.length and bytes(mine[:WHOLE_BYTES]) == bytes(yours)
    return bool(mine == yours)


def _document(value: Any) -> object:  # noqa: ANN401  # text or bytes
    """A document as its values: 1.0 and 1 are one number, and spaces and the order of names say nothing."""
    text = value.decode() if isinstance(value, bytes) else str(value)
    try:
        return loads(text, parse_int=_number, parse_float=_number)
    except (JSONDecodeError, InvalidOperation):
        return text


_FEWEST: Final = 15
"""Digits that a double keeps for certain."""


def _number(text: str) -> object:
    exact = Decimal(text)
    return exact if len(exact.as_tuple().digits) <= _FEWEST else float(text)


def _shown(digest: int) -> str:
    return f"{digest:015x}"


def _plain(key: Mapping[str, Any]) -> Mapping[str, object]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in key.items()}
