"""Replays: batches of rows that come back from quarantine, after the cause has been mended.

A replay is a batch like any other: a sealed plan names its files, its parts and its link follow, and the loader loads
it in its turn. A replay takes rows of one batch only, since they rank by the batch that first read them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from syncd.errors import ConfigError
from syncd.events import BatchPlanned, EventListener
from syncd.lake.batch_number import BATCH_COLUMN, batch_to_number
from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import batch_prefix, batch_quarantine_prefix
from syncd.lake.quarantine import (
    QuarantinedFile,
    QuarantineRestorer,
    RestoreRequest,
    parse_replay_fields,
    replay_plan_fields,
    without_fail_policy,
)
from syncd.load.quarantine_listing import Quarantine
from syncd.ports.source import PartStore
from syncd.settings import MetadataColumn, Mode, StreamSettings
from watermarks.batch import BatchDraft, BatchId, BatchKind, BatchLink, BatchOutput, Plan, PlanBasis
from watermarks.document import Stage, Watermark
from watermarks.errors import DataInDoubt
from watermarks.progress import ExtractProgress

CARRIED_FIELDS: Final = ("horizon", "witness")
"""Facts of the last read that the next one needs: a replay reads nothing of the server, and carries them on."""


def require_replayable(settings: StreamSettings) -> None:
    """Refuse a stream whose target cannot tell an older version of a row from a newer one.

    Raises:
        ConfigError: the target cannot tell.
    """
    name = settings.name
    if settings.mode is Mode.REPLACE:
        raise ConfigError(
            f"rows of {name} in quarantine cannot be replayed: each run replaces the whole table",
            hint=f"Read the table again, with the present policies: syncd run -t {name}",
        )
    target = settings.target
    if target is not None and settings.mode is not Mode.HISTORY and MetadataColumn.BATCH not in target.notes:
        raise missing_batch_number_error(name)


def missing_batch_number_error(name: str) -> ConfigError:
    """Return the error for a target table without batch numbers."""
    return ConfigError(
        f"the target of {name} has no column {BATCH_COLUMN}, so it may contain newer versions of the rows",
        hint="Read the rows again from MySQL, with the present policies; their range is in `syncd quarantine list"
        f" -t {name}`: syncd run -t {name} --from INSTANT --until INSTANT",
    )


class QuarantinedRowsMissing(DataInDoubt):
    """A file of quarantined rows is missing."""


class ReplayProducer:
    """Makes the batches of a replay: one for each batch with rows in quarantine that pass now."""

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
        """Create a producer; with a `batch`, it replays only the rows of that batch.

        `require_target` checks that the target can take the rows; it is called only where rows wait.
        """
        self._settings = settings
        self._require_target = require_target
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
        return f"{rows:,} row{'s' * (rows != 1)} in quarantine still cannot be loaded" if rows else ""

    @property
    def complete_before(self) -> datetime | None:
        return None  # a replay reads nothing from the source

    def preview(self, watermark: Watermark) -> BatchDraft | None:
        return self.propose_batch(watermark)

    def prepare(self, draft: BatchDraft) -> None:
        """Do nothing: a replay uses no reader."""

    def propose_batch(self, watermark: Watermark) -> BatchDraft | None:
        if self._remaining_batches is None:
            listing = self._quarantine.list_files(self._batch)
            self._remaining_batches = list(listing.waiting_batches)
            self._missing_keys = frozenset(file.part.key for file in listing.files if file.is_missing)
            if self._remaining_batches:
                require_replayable(self._settings)
                self._require_target()
        while self._remaining_batches:
            draft = self._build_draft(watermark.required_extract_progress, self._remaining_batches[0])
            if draft is not None:
                return draft
            self._remaining_batches.pop(0)
        return None

    def _build_draft(self, extracted: ExtractProgress, batch: BatchId) -> BatchDraft | None:
        waiting = [file for file in self._quarantine.batch_files(batch, extracted) if file.replayed_by is None]
        if missing := [file.part.key for file in waiting if file.part.key in self._missing_keys]:
            raise QuarantinedRowsMissing(
                f"{missing[0]} is missing, although batch {batch} names it",
                hint="Restore it from the bucket's versions; other batches can be replayed alone, with --batch.",
            )
        link = self._quarantine.chain.require_link(batch)
        manifest = Manifest.from_link(link)
        if manifest.is_whole_table:
            return None  # the batch was the whole table, and a later batch has replaced it
        passing = [file for file in waiting if self._is_passing(file, manifest)]
        self._staying_rows_by_key |= {file.part.key: file.part.rows for file in waiting if file not in passing}
        if not passing:
            return None
        files = tuple(sorted(file.part.key for file in passing))
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

    def _is_passing(self, file: QuarantinedFile, manifest: Manifest) -> bool:
        """Return whether to replay a file; for rows that the load refused, only another load can tell."""
        return file.stage is Stage.LOAD or self._restorer.has_passing_row(file, manifest, self._policies)

    def _carried_fields(self, extracted: ExtractProgress) -> dict[str, Any]:
        last = self._quarantine.chain.read_plan(extracted.last_batch) if extracted.seq else None
        plans = zip(CARRIED_FIELDS, (self._newest_plan(extracted), last), strict=True)
        fields = {field: plan.draft.body.get(field) for field, plan in plans if plan is not None}
        return {field: value for field, value in fields.items() if value is not None}

    def _newest_plan(self, extracted: ExtractProgress) -> Plan | None:
        """Return the plan of the newest link that was carried out."""
        chain = self._quarantine.chain
        for batch in extracted.batch_ids_newest_first(
            up_to=extracted.last_batch, after=BatchId(extracted.generation, 0)
        ):
            link = chain.read_link(batch)
            if link is not None and link.kind is not BatchKind.ABANDONED:
                return chain.read_plan(batch)
        return None

    def is_plan_current(self, plan: Plan) -> bool:
        """Return whether the plan is a replay; the next extraction replaces a plan of an extraction."""
        return plan.draft.kind is BatchKind.REPLAY and parse_replay_fields(plan.draft.body) is not None

    def write_files(self, plan: Plan) -> BatchOutput:
        draft = plan.draft
        replay = parse_replay_fields(draft.body)
        assert replay
        assert draft.origin
        batch, files = replay
        self._emit(
            BatchPlanned(stream=plan.stream, batch=plan.id, kind=draft.kind, windows=len(files), high=draft.high)
        )
        link = self._quarantine.chain.require_link(batch)
        manifest = Manifest.from_link(link)
        # Before any file that the link will name, so that a search for replays of the batch finds this one.
        self._quarantine.record_replay(batch, plan.id, self._nonce())
        read = self._restorer.restore(
            RestoreRequest(
                files=self._planned_files(link, files),
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
            windows=(),  # no range was read again, so a target that appends must not delete one
            plan=draft.body,
        ).to_filled()

    def _planned_files(self, link: BatchLink, files: frozenset[str]) -> tuple[QuarantinedFile, ...]:
        """Return the files of a plan, whatever has been planned since."""
        upto = ExtractProgress(generation=link.id.generation, seq=link.id.seq)
        return tuple(file for file in self._quarantine.batch_files(link.id, upto) if file.part.key in files)

    def delete_files(self, files: Sequence[str]) -> None:
        self._parts.delete_objects(files)
