"""Replays: batches whose rows come out of quarantine, after what was wrong has been mended.

A replay is a batch like any other: a sealed plan names the files that it takes, its parts and its link come after it,
and the loader lands it in its turn. Each takes of one batch only, for its rows rank by the batch that first read them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from syncd.errors import ConfigError
from syncd.events import BatchPlanned, EventListener
from syncd.lake.batch_number import BATCH_COLUMN, batch_to_number
from syncd.lake.keys import batch_prefix, batch_quarantine_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import QuarantinedFile, parse_replay_fields, replay_plan_fields, without_fail_policy
from syncd.lake.restorer import QuarantineRestorer, RestoreRequest
from syncd.load.quarantine_listing import Quarantine
from syncd.ports.source import PartStore
from syncd.settings import MetadataColumn, Mode, StreamSettings
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, BatchOutput, Plan, PlanBasis
from watermarks.document import Stage, Watermark
from watermarks.errors import DataInDoubt
from watermarks.progress import ExtractProgress

CARRIED_FIELDS: Final = ("horizon", "witness")
"""What the next reading wants to know of the last one: a replay reads nothing of the server, and hands it on."""


def require_replayable(settings: StreamSettings) -> None:
    """Refuse a stream whose target could not tell an older version of a row from a newer one.

    Raises:
        ConfigError: it is such a stream.
    """
    name = settings.name
    if settings.mode is Mode.REPLACE:
        raise ConfigError(
            f"{name} is replaced as a whole, and so are its rows in quarantine: nothing of them is brought back",
            hint=f"Read the table again, with the policies of now: syncd run -t {name}",
        )
    target = settings.target
    if target is not None and settings.mode is not Mode.HISTORY and MetadataColumn.BATCH not in target.notes:
        raise missing_batch_number_error(name)


def missing_batch_number_error(name: str) -> ConfigError:
    """Why nothing is replayed into a table without the numbers of batches, and what to do instead."""
    return ConfigError(
        f"the target of {name} has no column {BATCH_COLUMN}: nothing tells whether it holds a newer version of a row",
        hint="Read the rows again from MySQL, with the policies of now; their range is in `syncd quarantine list"
        f" -t {name}`: syncd run -t {name} --from INSTANT --until INSTANT",
    )


def _require_replayable_target(settings: StreamSettings, require_target: Callable[[], None]) -> None:
    require_replayable(settings)
    require_target()


class QuarantinedRowsMissing(DataInDoubt):
    """Rows that were put aside do not lie there any more."""


class ReplayProducer:
    """Makes the content of replays: one batch for each batch with rows in quarantine that pass by now."""

    def __init__(
        self,
        *,
        settings: StreamSettings,
        quarantine: Quarantine,
        restorer: QuarantineRestorer,
        parts: PartStore,
        nonce: Callable[[], str],
        emit: EventListener,
        batch: BatchId | None = None,
        require_target: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; with a `batch`, only its rows are brought back.

        Where rows wait, `require` is asked first whether the target could take any.
        """
        self._require_target = partial(_require_replayable_target, settings, require_target)
        self._quarantine = quarantine
        self._policies = without_fail_policy(settings.policies)
        self._restorer = restorer
        self._parts = parts
        self._nonce = nonce
        self._emit = emit
        self._batch = batch
        self._remaining_batches: list[BatchId] | None = None
        self._missing_keys: frozenset[str] = frozenset()
        self._staying_rows_by_key: dict[str, int] = {}

    @property
    def wait_reason(self) -> str:
        rows = sum(self._staying_rows_by_key.values())
        return f"{rows:,} row{'s' * (rows != 1)} in quarantine still cannot pass, and stay there" if rows else ""

    @property
    def complete_before(self) -> datetime | None:
        return None  # nothing is read anew

    def preview(self, watermark: Watermark) -> BatchDraft | None:
        return self.propose_batch(watermark)

    def prepare(self, draft: BatchDraft) -> None:
        """Nothing has to be made ready."""

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        if self._remaining_batches is None:
            lying = self._quarantine.list_files(self._batch)
            self._remaining_batches = list(lying.waiting_batches)
            self._missing_keys = frozenset(one.part.key for one in lying.files if one.is_missing)
            if self._remaining_batches:
                self._require_target()
        while self._remaining_batches:
            draft = self._build_draft(watermark.required_extract_progress, self._remaining_batches[0])
            if draft is not None:
                return draft
            self._remaining_batches.pop(0)
        return None

    def _build_draft(self, extracted: ExtractProgress, batch: BatchId) -> BatchDraft | None:
        asides = [one for one in self._quarantine.batch_files(batch, extracted) if one.replayed_by is None]
        if gone := [one.part.key for one in asides if one.part.key in self._missing_keys]:
            raise QuarantinedRowsMissing(
                f"{gone[0]} is gone, although batch {batch} names it",
                hint="Restore it from the bucket's versions; other batches can be replayed alone, with --batch.",
            )
        link = self._quarantine.chain.require_link(batch)
        manifest = Manifest.from_link(link)
        if manifest.is_whole_table:
            return None  # the table was read whole then: what is in it by now was read later
        passing = [one for one in asides if self._is_passing(one, manifest)]
        self._staying_rows_by_key |= {one.part.key: one.part.rows for one in asides if one not in passing}
        if not passing:
            return None
        files = tuple(sorted(one.part.key for one in passing))
        return BatchDraft(
            kind=BatchKind.REPLAY,
            basis=PlanBasis(
                mark=extracted.cursor,
                source_identity=extracted.source_identity or link.source_identity,
                schema=manifest.schema,
            ),
            high=extracted.cursor,
            origin=link.rank,
            body={**self._carried_fields(extracted), **replay_plan_fields(batch, files)},
        )

    def _is_passing(self, aside: QuarantinedFile, manifest: Manifest) -> bool:
        """Whether there is a point in bringing a file back: of what the load refused, only the load can tell."""
        return aside.stage is Stage.LOAD or self._restorer.has_passing_row(aside, manifest, self._policies)

    def _carried_fields(self, extracted: ExtractProgress) -> dict[str, Any]:
        found: dict[str, Any] = {}
        last = self._quarantine.chain.read_plan(extracted.last_batch) if extracted.seq else None
        done = self._newest_plan(extracted)
        for field, plan in zip(CARRIED_FIELDS, (done, last), strict=True):
            if plan is not None and plan.draft.body.get(field) is not None:
                found[field] = plan.draft.body[field]
        return found

    def _newest_plan(self, extracted: ExtractProgress) -> Plan | None:
        """The plan of the newest link that was carried out."""
        chain = self._quarantine.chain
        for batch in extracted.batch_ids_newest_first(
            up_to=extracted.last_batch, after=BatchId(extracted.generation, 0)
        ):
            link = chain.read_link(batch)
            if link is not None and link.kind is not BatchKind.ABANDONED:
                return chain.read_plan(batch)
        return None

    def is_plan_current(self, plan: Plan) -> bool:
        """Whether it is a replay; what an extraction has planned is planned anew by the next one."""
        return plan.draft.kind is BatchKind.REPLAY and parse_replay_fields(plan.draft.body) is not None

    def write_files(self, plan: Plan) -> BatchOutput:
        draft = plan.draft
        taken = parse_replay_fields(draft.body)
        assert taken
        assert draft.origin
        batch, files = taken
        self._emit(
            BatchPlanned(stream=plan.stream, batch=plan.id, kind=draft.kind, windows=len(files), high=draft.high)
        )
        link = self._quarantine.chain.require_link(batch)
        manifest = Manifest.from_link(link)
        # Before anything that the link will name: whoever looks for replays of the batch shall not miss this one.
        self._quarantine.record_replay(batch, plan.id, self._nonce())
        read = self._restorer.restore(
            RestoreRequest(
                files=self._asides_in_plan(link, files),
                manifest=manifest,
                policies=self._policies,
                part_prefix=batch_prefix(plan),
                quarantine_prefix=batch_quarantine_prefix(plan.stream, plan.id),
                batch_number=batch_to_number(draft.origin),
                nonce=self._nonce(),
            )
        )
        self._staying_rows_by_key |= {part.key: part.rows for part in read.quarantined_parts}
        return Manifest.from_read(
            read,
            schema=draft.basis.schema,
            columns=manifest.columns,
            identity=manifest.identity,
            windows=(),  # no range was read again: in a target that appends, none is to be emptied
            plan=draft.body,
        ).to_filled()

    def _asides_in_plan(self, link: BatchLink, files: frozenset[str]) -> tuple[QuarantinedFile, ...]:
        """The files of a plan, whatever has been planned since."""
        upto = ExtractProgress(generation=link.id.generation, seq=link.id.seq)
        return tuple(one for one in self._quarantine.batch_files(link.id, upto) if one.part.key in files)

    def delete_files(self, files: Sequence[str]) -> None:
        self._parts.delete_objects(files)
