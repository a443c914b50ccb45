"""The manifest of a batch: what its link says of each file, beyond what `watermarks` itself keeps."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from syncd.datatypes.columns import Meaning, ParquetType, Passage, Physical, Travel, Trouble
from syncd.lake.tombstones import Tombstones
from syncd.lake.window_reads import Part, Read
from syncd.tables.column_changes import Redeclared
from syncd.tables.column_defaults import Added
from syncd.tables.row_identity import NO_IDENTITY, Identity
from watermarks.batch import Filled, Link
from watermarks.cursor import Cursor
from watermarks.errors import StateUnreadable
from watermarks.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One batch as the loader, the cleaner and an auditor meet it."""

    schema: str
    """The fingerprint of the table that was read."""
    passages: tuple[Passage, ...]
    """The columns of its files, in the files' order; behind them stands the number of the batch."""
    parts: tuple[Part, ...]
    identity: Identity = NO_IDENTITY
    windows: tuple[Window, ...] = ()
    """The ranges of the order that were read; none where the table was read by key, or whole."""
    quarantined: tuple[Part, ...] = ()
    troubles: Mapping[str, int] = field(default_factory=dict[str, int])
    plan: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the plan said of itself: its horizon and why, the index, the range of a back-fill."""
    added: Mapping[str, Added] = field(default_factory=dict[str, Added])
    """Columns that older batches of the chain lack, and what rows hold in them that were read before."""
    declared: Mapping[str, str] = field(default_factory=dict[str, str])
    """How the source declares each column; empty in manifests of before, and where no row was read."""
    redeclared: Mapping[str, Redeclared] = field(default_factory=dict[str, Redeclared])
    """Columns whose values an ALTER may have changed in rows that older batches of the chain have read."""
    tombstones: Tombstones | None = None
    """Where its files hold keys of rows that are gone, and no rows."""

    @property
    def whole(self) -> bool:
        """Whether it is a whole table, read at once, in which no column says what row it is."""
        return not self.identity.key

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def refused(self) -> int:
        """How many rows lie in quarantine."""
        return sum(part.rows for part in self.quarantined)

    @classmethod
    def of_read(
        cls,
        read: Read,
        *,
        schema: str,
        passages: tuple[Passage, ...],
        identity: Identity,
        windows: tuple[Window, ...],
        plan: Mapping[str, Any],
        added: Mapping[str, Added] | None = None,
        declared: Mapping[str, str] | None = None,
        redeclared: Mapping[str, Redeclared] | None = None,
    ) -> Self:
        """The manifest of what a reader wrote; parts in the order of their keys, whatever task ended first."""
        return cls(
            schema=schema,
            passages=passages,
            identity=identity,
            windows=windows,
            parts=tuple(sorted(read.parts, key=lambda part: part.key)),
            quarantined=tuple(sorted(read.quarantined, key=lambda part: part.key)),
            troubles=dict(sorted(read.troubles.items())),
            plan=plan,
            added=added or {},
            declared=declared or {},
            redeclared=redeclared or {},
        )

    def filled(self) -> Filled:
        """What `watermarks` makes a link of."""
        return Filled(rows=self.rows, files=tuple(part.key for part in self.parts), body=self.fields())

    def fields(self) -> dict[str, Any]:
        return {
            "schema": self.schema,
            "columns": [_passage_fields(passage) for passage in self.passages],
            "identity": {"key": list(self.identity.key), "cursor": self.identity.cursor},
            "windows": [window.texts() for window in self.windows],
            "parts": [part_fields(part) for part in self.parts],
            "quarantined": [part_fields(part) for part in self.quarantined],
            "troubles": dict(self.troubles),
            "plan": dict(self.plan),
            "added": {name: one.fields() for name, one in self.added.items()},
            "declared": dict(self.declared),
            "redeclared": {name: one.fields() for name, one in self.redeclared.items()},
            "tombstones": self.tombstones.fields() if self.tombstones else None,
        }

    @classmethod
    def of_link(cls, link: Link) -> Self:
        """The manifest inside a link that was carried out.

        Raises:
            StateUnreadable: there is none in it.
        """
        try:
            manifest = cls.of_fields(link.body)
        except (KeyError, TypeError, ValueError) as error:
            raise StateUnreadable(f"batch {link.id} of {link.stream} has no manifest of ours: {error!r}") from error
        if manifest.rows != link.rows or tuple(part.key for part in manifest.parts) != link.files:
            raise StateUnreadable(f"the manifest of batch {link.id} of {link.stream} contradicts its link")
        return manifest

    @classmethod
    def of_fields(cls, found: Mapping[str, Any]) -> Self:
        """The manifest that `fields` wrote; what is younger than a link of old may be missing in it."""
        buried = found.get("tombstones")
        return cls(
            schema=found["schema"],
            passages=tuple(_passage_of(one) for one in found["columns"]),
            identity=_identity_of(found["identity"]),
            windows=tuple(Window.of_texts(bounds) for bounds in found["windows"]),
            parts=tuple(part_of(one) for one in found["parts"]),
            quarantined=tuple(part_of(one) for one in found["quarantined"]),
            troubles=found["troubles"],
            plan=found["plan"],
            added={name: Added.of_fields(one) for name, one in found.get("added", {}).items()},
            declared=found.get("declared", {}),
            redeclared={name: Redeclared.of_fields(one) for name, one in found.get("redeclared", {}).items()},
            tombstones=Tombstones.of_fields(buried) if buried else None,
        )


def identity_in(link: Link) -> Identity | None:
    """By what a link tells rows apart; None of one that was abandoned."""
    found: Mapping[str, Any] | None = link.body.get("identity")
    return None if found is None else _identity_of(found)


def windows_in(link: Link) -> tuple[Window, ...]:
    """The ranges of the order that a link says were read."""
    return tuple(Window.of_texts(bounds) for bounds in link.body.get("windows", ()))


def is_unasked(link: Link) -> bool:
    """Whether a link's range was read again without a person's asking: the server, or its clock, was another."""
    return "again" in link.body.get("plan", {})


def is_burial(link: Link) -> bool:
    """Whether a link's files hold keys of rows that are gone, and no rows."""
    return bool(link.body.get("tombstones"))


def _identity_of(found: Mapping[str, Any]) -> Identity:
    return Identity(key=tuple(found["key"]), cursor=found["cursor"])


def part_fields(part: Part) -> dict[str, Any]:
    return {**asdict(part), "low": part.low.texts(), "high": part.high.texts(), "widths": dict(part.widths)}


def part_of(found: Mapping[str, Any]) -> Part:
    typed: dict[str, Any] = {"low": Cursor.of_texts(found["low"]), "high": Cursor.of_texts(found["high"])}
    return Part(**{**found, **typed})


def _passage_fields(passage: Passage) -> dict[str, Any]:
    parquet = {key: value for key, value in asdict(passage.parquet).items() if value is not None}
    return {**asdict(passage), "parquet": parquet}


def _passage_of(found: Mapping[str, Any]) -> Passage:
    stored: dict[str, Any] = dict(found["parquet"])
    stored |= {"physical": Physical(stored["physical"]), "meaning": Meaning(stored["meaning"])}
    typed: dict[str, Any] = {
        "travel": Travel(found["travel"]),
        "parquet": ParquetType(**stored),
        "befalls": tuple(map(Trouble, found["befalls"])),
    }
    return Passage(**{**found, **typed})
