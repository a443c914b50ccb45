"""What MySQL, the lake and the warehouse say of one row; whoever is away is left out, and that is told."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from syncd.app import Pass
from syncd.app.operator_context import Desk, name_of
from syncd.app.preview import looking
from syncd.datatypes.columns import Passage
from syncd.errors import ConfigError
from syncd.lake.keys import data_prefix
from syncd.lake.manifest import Manifest
from syncd.load.quarantine_listing import Quarantine
from syncd.operations.change_impact import AT_ONCE, links
from syncd.operations.mark_change import require_run
from syncd.operations.row_status import AtSource, Facts, InTarget, Refused, Sighting, shown
from syncd.operations.stream_status import instant_of
from syncd.parquet.batch_conversion import REASON
from syncd.s3.key_lookup import KeyedFiles
from syncd.settings import StreamSettings
from syncd.tables.column_mapping import passages
from syncd.tables.row_identity import Identity, identity_of
from watermarks.batch import BatchId, Kind, Link
from watermarks.cursor import START, Cursor
from watermarks.cursor import instant_of as instant_of_text
from watermarks.document import Watermark
from watermarks.errors import HintedError, Misuse
from watermarks.extraction import Chain
from watermarks.progress import ORIGIN

if TYPE_CHECKING:
    from syncd.lake.window_reads import Part

MOST_FILES: Final = 500
"""Of the newest, unless all are asked for."""


@dataclass(kw_only=True)
class _Found:
    """What the files of the lake have of a row."""

    sightings: list[Sighting] = field(default_factory=list[Sighting])
    buried: BatchId | None = None
    looked: int = 0
    gone: int = 0
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Explainer:
    """Asks all sides about rows of one stream; nothing is written anywhere."""

    desk: Desk
    settings: StreamSettings
    environ: Mapping[str, str]
    all_files: bool = False

    def facts(self, key: Mapping[str, str]) -> Facts:
        """All that is known of the row with this key, by its columns at the source.

        Raises:
            Misuse: the stream has never run, or these are not the columns of its key.
            LakeDown, LakeUnfit: the lake cannot be asked.
        """
        stream = name_of(self.settings)
        state = require_run(self.desk.journal.newest(stream.stem), stream)
        named = self._named(state, key)
        source = self._source(key)
        target = self._target(named)
        found = self._files(state, named)
        refused = self._refused(state, named)
        held, next_high = self._held(source) if self._is_above(source, state) else ("", None)
        newest = found.sightings[0] if found.sightings else None
        return Facts(
            table=self.settings.name,
            key=key,
            mark=state.chain.cursor,
            began=self._began(state),
            whole=found.whole,
            gone=found.gone,
            half=state.loaded,
            source=source,
            target=target,
            sightings=tuple(found.sightings),
            refused=tuple(refused),
            buried=found.buried,
            next_high=next_high,
            held=held,
            landed_at=self._landed_at(state, newest.batch) if newest else "",
        )

    # The key, as each side calls its columns.

    def _named(self, state: Watermark, key: Mapping[str, str]) -> Mapping[str, str]:
        """The key by the names that files and target have for its columns.

        Raises:
            Misuse: it is not the key.
        """
        manifest = next(
            (Manifest.of_link(link) for link in self._links(state) if link.kind is not Kind.ABANDONED), None
        )
        ways, identity = (manifest.passages, manifest.identity) if manifest else self._described(state)
        names = {passage.column: passage.name for passage in ways}
        found = {names.get(column, column): text for column, text in key.items()}
        if set(found) != set(identity.key):
            wanted = " ".join(f"{name}=..." for name in identity.key) or "nothing: it has no key"
            raise Misuse(f"the key of {self.settings.name} is {wanted}", hint="Name each column of it once.")
        return found

    def _described(self, state: Watermark) -> tuple[Sequence[Passage], Identity]:
        """What files of the table would hold, where all that is loaded was taken over and no file is made yet.

        Raises:
            Misuse: nothing is loaded.
        """
        if not state.loaded.cursor:
            raise Misuse(f"{self.settings.name} has no batch yet", hint=f"First: syncd run -t {self.settings.name}")
        table = self.desk.table(self.settings)
        ways = passages(table, self.settings)
        return ways, identity_of(table, self.settings, ways)

    def _links(self, state: Watermark) -> Iterator[Link]:
        """Every link of the chain, the newest first, some at once."""
        ids = state.chain.ids_back(upto=state.chain.last, after=ORIGIN)
        chain = Chain(self.desk.journal, state.stream)
        while some := list(islice(ids, AT_ONCE)):
            yield from links(chain, some)

    # MySQL.

    def _source(self, key: Mapping[str, str]) -> AtSource:
        try:
            found = self.desk.row_at_source(self.settings, key)
        except ConfigError:
            raise
        except HintedError as error:
            if isinstance(error, Misuse):
                raise
            return AtSource(trouble=f"MySQL could not be asked: {error.message}")
        return AtSource(asked=True, there=found is not None, cursor=found, trouble="")

    def _is_above(self, source: AtSource, state: Watermark) -> bool:
        return source.there and source.cursor is not None and source.cursor != state.chain.cursor

    def _held(self, source: AtSource) -> tuple[str, Cursor | None]:
        """What holds the horizon below the row now, and up to where the next batch would read."""
        with looking(self.desk, self.environ) as service:
            seen = service.extract(self.settings, Pass(wait=timedelta(0), dry=True))
        planned: Mapping[str, Any] | None = seen.planned
        if seen.error is not None:
            return "", None
        at = instant_of(source.cursor or START, self.settings, zone=self.desk.zone(self.settings))
        if planned is None:
            return seen.reason or _may_change(at, seen.complete), None
        windows = planned["windows"]
        horizon = planned["body"].get("horizon") or {}
        high = Cursor.of_texts(windows[-1][1]) if windows else None
        bound = instant_of_text(horizon["bound"]) if horizon.get("bound") else None
        held = at is not None and bound is not None and at >= bound
        return (horizon.get("reason") or "the newest moments are never read" if held else ""), high

    @staticmethod
    def _began(state: Watermark) -> Cursor:
        """Where the first pass was told to begin; nothing where it read the whole table."""
        half = state.chain
        if half.began:
            return half.began
        snapshot = half.snapshot
        return snapshot.horizon if snapshot is not None and snapshot.done and not snapshot.reached else START

    # The warehouse.

    def _target(self, named: Mapping[str, str]) -> InTarget:
        try:
            return self.desk.row_in_target(self.settings, named)
        except ConfigError:
            raise
        except HintedError as error:
            return InTarget(trouble=f"the warehouse could not be asked: {error.message}")

    def _landed_at(self, state: Watermark, batch: BatchId) -> str:
        """When the loaded mark came to a batch, as history has it; few entries are read, however many there are."""
        if batch > state.loaded.last:
            return ""

        def has(revision: int) -> bool:
            entry = self.desk.journal.entry(state.stem, revision)
            after = entry.after if entry else {}
            return (after.get("loaded_generation", 0), after.get("loaded_seq", 0)) >= (batch.generation, batch.seq)

        revision = bisect_left(range(1, state.revision + 1), True, key=has) + 1  # noqa: FBT003  # what is looked for
        entry = self.desk.journal.entry(state.stem, revision)
        return f"{entry.at:%Y-%m-%d %H:%M:%S} UTC" if entry else ""

    # The lake.

    def _files(self, state: Watermark, named: Mapping[str, str]) -> _Found:
        """The newest file that has the row, or all that do."""
        standing = self.desk.lake.standing(data_prefix(state.stream))
        found = _Found()
        for link in self._links(state):
            manifest = Manifest.of_link(link) if link.kind is not Kind.ABANDONED else None
            for part in manifest.parts if manifest else ():
                assert manifest is not None
                if part.key not in standing:
                    found.gone += 1
                    continue
                if found.looked >= MOST_FILES and not self.all_files:
                    found.whole = False
                    return found
                found.looked += 1
                self._look(link, manifest, part, named, found)
            if (found.sightings or found.buried) and not self.all_files:
                return found
        return found

    def _look(self, link: Link, manifest: Manifest, part: "Part", named: Mapping[str, str], found: _Found) -> None:
        cursor = manifest.identity.cursor
        for hit in KeyedFiles(self.desk.lake).hits(part, named, also=(cursor,) if cursor else ()):
            if manifest.tombstones is not None:
                found.buried = found.buried or link.id
                continue
            at = hit.values.get(cursor) if cursor else None
            found.sightings.append(
                Sighting(
                    batch=link.id,
                    rank=link.rank,
                    file=self.desk.lake.at(part.key),
                    row=hit.row,
                    made_at=f"{link.made_at:%Y-%m-%d %H:%M:%S} UTC",
                    cursor=None if at is None else shown(at),
                )
            )

    def _refused(self, state: Watermark, named: Mapping[str, str]) -> Iterator[Refused]:
        """Its versions in quarantine, the newest first."""
        quarantine = Quarantine(stream=state.stream, journal=self.desk.journal, parts=self.desk.lake)
        files = KeyedFiles(self.desk.lake)
        asides = quarantine.look(extracted=state.chain).asides
        for aside in sorted(asides, key=lambda one: one.batch, reverse=True):
            for hit in () if aside.gone else files.hits(aside.part, named, also=(REASON,)):
                yield Refused(
                    batch=aside.batch,
                    stage=str(aside.stage),
                    file=self.desk.lake.at(aside.part.key),
                    reason=str(hit.values.get(REASON, "")),
                    replayed_by=aside.replayed_by,
                )


def _may_change(at: datetime | None, complete: datetime | None) -> str:
    """Why nothing is due though a row stands above the mark: it is not below what is committed for good."""
    if at is None or complete is None or at < complete:
        return ""
    return f"what is of {complete:%Y-%m-%d %H:%M:%S} UTC or later can still change"
