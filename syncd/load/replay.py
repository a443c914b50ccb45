"""Replays: batches whose rows come out of quarantine, after what was wrong has been mended.

A replay is a batch like any other: a sealed plan names the files that it takes, its parts and its link come after it,
and the loader lands it in its turn. Each takes of one batch only, for its rows rank by the batch that first read them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from syncd.errors import ConfigError
from syncd.events import BatchPlanned, Tell
from syncd.lake.batch_number import COLUMN, number_of
from syncd.lake.keys import batch_prefix, quarantine_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import Aside, lenient, replay_fields, replays_of
from syncd.lake.restorer import Restorer, Restoring
from syncd.load.quarantine_listing import Quarantine
from syncd.ports.source import Parts
from syncd.settings import Mode, Note, StreamSettings
from watermarks.batch import BatchId, Draft, Filled, Kind, Link, Plan, World
from watermarks.document import Stage, Watermark
from watermarks.errors import DataInDoubt
from watermarks.progress import Extracted

CARRIED: Final = ("horizon", "witness")
"""What the next reading wants to know of the last one: a replay reads nothing of the server, and hands it on."""


def require_replayable(settings: StreamSettings) -> None:
    """Refuse a stream whose target could not tell an older version of a row from a newer one.

    Raises:
        ConfigError: it is such a stream.
    """
    name = f"{settings.database}.{settings.table}"
    if settings.mode is Mode.REPLACE:
        raise ConfigError(
            f"{name} is replaced as a whole, and so are its rows in quarantine: nothing of them is brought back",
            hint=f"Read the table again, with the policies of now: syncd run -t {name}",
        )
    target = settings.target
    if target is not None and settings.mode is not Mode.HISTORY and Note.BATCH not in target.notes:
        raise no_number(name)


def no_number(name: str) -> ConfigError:
    """Why nothing is replayed into a table without the numbers of batches, and what to do instead."""
    return ConfigError(
        f"the target of {name} has no column {COLUMN}: nothing tells whether it holds a newer version of a row",
        hint="Read the rows again from MySQL, with the policies of now; their range is in `syncd quarantine list"
        f" -t {name}`: syncd run -t {name} --from INSTANT --until INSTANT",
    )


def _require_fit(settings: StreamSettings, further: Callable[[], None]) -> None:
    require_replayable(settings)
    further()


class RowsGone(DataInDoubt):
    """Rows that were put aside do not lie there any more."""


class ReplayProducer:
    """Makes the content of replays: one batch for each batch with rows in quarantine that pass by now."""

    def __init__(
        self,
        *,
        settings: StreamSettings,
        quarantine: Quarantine,
        restorer: Restorer,
        parts: Parts,
        nonce: Callable[[], str],
        tell: Tell,
        batch: BatchId | None = None,
        require: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; with a `batch`, only its rows are brought back.

        Where rows wait, `require` is asked first whether the target could take any.
        """
        self._require = partial(_require_fit, settings, require)
        self._quarantine = quarantine
        self._policies = lenient(settings.policies)
        self._restorer = restorer
        self._parts = parts
        self._nonce = nonce
        self._tell = tell
        self._batch = batch
        self._left: list[BatchId] | None = None
        self._gone: frozenset[str] = frozenset()
        self._staying: dict[str, int] = {}

    @property
    def waits_for(self) -> str:
        rows = sum(self._staying.values())
        return f"{rows:,} row{'s' * (rows != 1)} in quarantine still cannot pass, and stay there" if rows else ""

    @property
    def complete(self) -> datetime | None:
        return None  # nothing is read anew

    def look(self, watermark: Watermark) -> Draft | None:
        return self.propose(watermark)

    def prepare(self, draft: Draft) -> None:
        """Nothing has to be made ready."""

    def propose(self, watermark: Watermark) -> Draft | None:
        if self._left is None:
            lying = self._quarantine.look(self._batch)
            self._left = list(lying.batches)
            self._gone = frozenset(one.part.key for one in lying.asides if one.gone)
            if self._left:
                self._require()
        while self._left:
            draft = self._draft(watermark.chain, self._left[0])
            if draft is not None:
                return draft
            self._left.pop(0)
        return None

    def _draft(self, extracted: Extracted, batch: BatchId) -> Draft | None:
        asides = [one for one in self._quarantine.of(batch, extracted) if one.replayed_by is None]
        if gone := [one.part.key for one in asides if one.part.key in self._gone]:
            raise RowsGone(
                f"{gone[0]} is gone, although batch {batch} names it",
                hint="Restore it from the bucket's versions; other batches can be replayed alone, with --batch.",
            )
        link = self._quarantine.chain.required(batch)
        manifest = Manifest.of_link(link)
        if manifest.whole:
            return None  # the table was read whole then: what is in it by now was read later
        passing = [one for one in asides if self._passes(one, manifest)]
        self._staying |= {one.part.key: one.part.rows for one in asides if one not in passing}
        if not passing:
            return None
        files = tuple(sorted(one.part.key for one in passing))
        return Draft(
            kind=Kind.REPLAY,
            world=World(
                mark=extracted.cursor,
                source_identity=extracted.source_identity or link.source_identity,
                schema=manifest.schema,
            ),
            high=extracted.cursor,
            origin=link.rank,
            body={**self._carried(extracted), **replay_fields(batch, files)},
        )

    def _passes(self, aside: Aside, manifest: Manifest) -> bool:
        """Whether there is a point in bringing a file back: of what the load refused, only the load can tell."""
        return aside.stage is Stage.LOAD or self._restorer.passing(aside, manifest, self._policies)

    def _carried(self, extracted: Extracted) -> dict[str, Any]:
        found: dict[str, Any] = {}
        last = self._quarantine.chain.plan(extracted.last) if extracted.seq else None
        done = self._newest(extracted)
        for field, plan in zip(CARRIED, (done, last), strict=True):
            if plan is not None and plan.draft.body.get(field) is not None:
                found[field] = plan.draft.body[field]
        return found

    def _newest(self, extracted: Extracted) -> Plan | None:
        """The plan of the newest link that was carried out."""
        chain = self._quarantine.chain
        for batch in extracted.ids_back(upto=extracted.last, after=BatchId(extracted.generation, 0)):
            link = chain.link(batch)
            if link is not None and link.kind is not Kind.ABANDONED:
                return chain.plan(batch)
        return None

    def holds(self, plan: Plan) -> bool:
        """Whether it is a replay; what an extraction has planned is planned anew by the next one."""
        return plan.draft.kind is Kind.REPLAY and replays_of(plan.draft.body) is not None

    def fill(self, plan: Plan) -> Filled:
        draft = plan.draft
        taken = replays_of(draft.body)
        assert taken
        assert draft.origin
        batch, files = taken
        self._tell(
            BatchPlanned(stream=plan.stream, batch=plan.id, kind=draft.kind, windows=len(files), high=draft.high)
        )
        link = self._quarantine.chain.required(batch)
        manifest = Manifest.of_link(link)
        # Before anything that the link will name: whoever looks for replays of the batch shall not miss this one.
        self._quarantine.note(batch, plan.id, self._nonce())
        read = self._restorer.restore(
            Restoring(
                asides=self._named(link, files),
                manifest=manifest,
                policies=self._policies,
                prefix=batch_prefix(plan),
                quarantine=quarantine_prefix(plan.stream, plan.id),
                batch=number_of(draft.origin),
                nonce=self._nonce(),
            )
        )
        self._staying |= {part.key: part.rows for part in read.quarantined}
        return Manifest.of_read(
            read,
            schema=draft.world.schema,
            passages=manifest.passages,
            identity=manifest.identity,
            windows=(),  # no range was read again: in a target that appends, none is to be emptied
            plan=draft.body,
        ).filled()

    def _named(self, link: Link, files: frozenset[str]) -> tuple[Aside, ...]:
        """The files of a plan, whatever has been planned since."""
        upto = Extracted(generation=link.id.generation, seq=link.id.seq)
        return tuple(one for one in self._quarantine.of(link.id, upto) if one.part.key in files)

    def drop(self, files: Sequence[str]) -> None:
        self._parts.drop(files)
