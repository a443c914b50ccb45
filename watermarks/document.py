"""Watermark: the document with the extracted and the loaded mark of one stream."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self

from watermarks.batch import BatchId, BatchLink, SnapshotProgress
from watermarks.codec import (
    MISPLACED_HINT,
    REBUILD_HINT,
    DamagedDocument,
    FieldReader,
    ForeignDocument,
    decode,
    encode,
    raise_as_damaged,
    to_printable,
)
from watermarks.cursor import Cursor, CursorValue, ValueKind, format_instant
from watermarks.errors import DataInDoubt
from watermarks.names import StreamName
from watermarks.progress import (
    EarlierLoads,
    ExtractProgress,
    LoadProgress,
    ProgressCounts,
    Run,
    RunStrategy,
    SkippedBatches,
)

WATERMARK_FORMAT_NAME: Final = "watermarks/watermark"
FORMAT_VERSION: Final = 1

UPGRADE_STEPS: Final[Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
"""Upgrade from version N to N + 1; version 1 is the first. Documents of other tools are no older versions:
`legacy` reads those, for an import only, so that a damaged current document never passes for an old one."""


class InconsistentMarks(DataInDoubt):
    """A loaded mark beyond the extracted one, or marks that cannot belong together."""


class Stage(StrEnum):
    """One of the two stages of a stream."""

    EXTRACT = "extract"
    LOAD = "load"


class StageStatus(StrEnum):
    """Status of a stage, in the words of the earlier tool."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """Failure of a stage: the reason, the number of attempts, and the time of the next one."""

    message: str
    attempt: int
    failed_at: datetime
    retry_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Both marks of one stream. The document of a further target has no extract progress."""

    stream: StreamName
    revision: int = 0
    extract_progress: ExtractProgress | None
    load_progress: LoadProgress = field(default_factory=LoadProgress)
    epochs: Mapping[Stage, int] = field(default_factory=dict[Stage, int])
    failures: Mapping[Stage, FailureRecord] = field(default_factory=dict[Stage, FailureRecord])
    last_manual_revision: int = 0
    """Revision of the last change by a person, which `undo` takes back."""
    created_at: datetime
    updated_at: datetime

    def __post_init__(self) -> None:
        extract, load = self.extract_progress, self.load_progress
        last = load.last_batch
        if bool(self.stream.target) is not (extract is None):
            raise InconsistentMarks(
                f"{self.stream}: the document of the default target, and no other, must contain extract progress"
            )
        if extract and len(extract.closed_generations) != extract.generation - 1:
            raise InconsistentMarks(
                f"{self.stream} is at generation {extract.generation}, but not all earlier generations are closed"
            )
        if load.base > last:
            raise InconsistentMarks(
                f"{self.stream}: the last loaded batch is {last}, but loading began after {load.base}"
            )
        if extract and (last > extract.last_batch or last.seq > extract.last_seq_of(last.generation)):
            raise InconsistentMarks(
                f"{self.stream}: batch {last} is loaded, but the chain ends at {extract.last_batch}"
            )

    @classmethod
    def new(cls, stream: StreamName, *, created_at: datetime) -> Self:
        """Make the watermark of a stream that has never run."""
        extracted = None if stream.target else ExtractProgress()
        return cls(stream=stream, extract_progress=extracted, created_at=created_at, updated_at=created_at)

    @property
    def stem(self) -> str:
        return self.stream.stem

    @property
    def required_extract_progress(self) -> ExtractProgress:
        """Extract progress of a default target.

        Raises:
            InconsistentMarks: this is the document of a further target.
        """
        if self.extract_progress is None:
            raise InconsistentMarks(
                f"{self.stream} is a further target: it shares the chain of {self.stream.default_stream}"
            )
        return self.extract_progress

    def with_revision(self, revision: int, *, updated_at: datetime) -> Self:
        """Return this content as a revision of the document."""
        return replace(self, revision=revision, updated_at=updated_at)

    def with_link(self, link: BatchLink, *, run: Run, now: datetime) -> Self:
        """Advance the extracted mark by the next link of the chain."""
        return replace(
            self,
            extract_progress=self.required_extract_progress.with_link(link, run=run, now=now),
            failures=_without_stage(self.failures, Stage.EXTRACT),
        )

    def with_loaded_batch(self, link: BatchLink, *, rows: int, run: Run, now: datetime) -> Self:
        """Advance the loaded mark by one batch."""
        return replace(
            self,
            load_progress=self.load_progress.with_loaded_batch(link, rows=rows, run=run, now=now),
            failures=_without_stage(self.failures, Stage.LOAD),
        )

    def with_epoch(self, stage: Stage, epoch: int) -> Self:
        """Record that a process took the stage over."""
        return replace(self, epochs=MappingProxyType({**self.epochs, stage: epoch}))

    def with_failure(self, stage: Stage, failure: FailureRecord) -> Self:
        """Record that a stage failed. No mark moves."""
        kept = replace(failure, message=to_printable(failure.message))
        return replace(self, failures=MappingProxyType({**self.failures, stage: kept}))

    def stage_status(self, stage: Stage) -> StageStatus:
        if stage in self.failures:
            return StageStatus.FAILED
        return self._load_status() if stage is Stage.LOAD else self._extract_status()

    def _extract_status(self) -> StageStatus:
        extract = self.extract_progress
        if extract is None or extract.counts.batches == 0:
            return StageStatus.PENDING
        if extract.seq == 0 and extract.strategy is RunStrategy.MANUAL:
            return StageStatus.PENDING
        return StageStatus.IN_PROGRESS if extract.snapshot and not extract.snapshot.done else StageStatus.SUCCESS

    def _load_status(self) -> StageStatus:
        load = self.load_progress
        if load.loaded_at is None or load.last_batch == load.base:
            return StageStatus.PENDING
        pending = self.extract_progress.batch_ids(after=load.last_batch) if self.extract_progress else iter(())
        return StageStatus.SUCCESS if next(pending, None) is None else StageStatus.IN_PROGRESS

    @property
    def last_error(self) -> str | None:
        """Message of the newest failure that was not resolved."""
        newest = max(self.failures.values(), key=lambda failure: failure.failed_at, default=None)
        return newest.message if newest else None

    def to_bytes(self) -> bytes:
        return encode(WATERMARK_FORMAT_NAME, FORMAT_VERSION, self.to_fields())

    def to_fields(self) -> dict[str, Any]:
        """Return the content under the names of the document."""
        return {
            "stream": self.stream.stem,
            "revision": self.revision,
            "set_at_revision": self.last_manual_revision,
            "created_at": format_instant(self.created_at),
            "updated_at": format_instant(self.updated_at),
            "epochs": {str(stage): epoch for stage, epoch in self.epochs.items()},
            "failures": {str(stage): _failure_to_fields(failure) for stage, failure in self.failures.items()},
            **(_extract_progress_to_fields(self.extract_progress) if self.extract_progress else {}),
            **_load_progress_to_fields(self.load_progress),
            **self._derived_fields(),
        }

    def _derived_fields(self) -> dict[str, Any]:
        """Return fields for readers of the earlier tool. They repeat others, and are never read back."""
        extract, load = self.extract_progress, self.load_progress
        counts = extract.counts if extract else load.counts
        milliseconds = counts.milliseconds + (load.counts.milliseconds if extract else 0)
        return {
            "table_name": self.stream.table_name,
            "mysql_status": self.stage_status(Stage.EXTRACT) if extract else None,
            "redshift_status": self.stage_status(Stage.LOAD),
            "last_error": self.last_error,
            "metadata": {
                "manual_watermark": extract is not None and extract.strategy is RunStrategy.MANUAL,
                "total_processing_time_seconds": milliseconds / 1000,
                "average_batch_size": counts.rows // counts.batches if counts.batches else 0,
            },
        }

    @classmethod
    def from_bytes(cls, body: bytes, *, location: str, stem: str) -> Self:
        """Decode the watermark of a current document.

        Raises:
            StateUnreadable: it is no watermark, another stream's, or of an older tool (`legacy` reads those).
        """
        fields = upgrade_fields(decode(body, WATERMARK_FORMAT_NAME, FORMAT_VERSION, location=location))
        with raise_as_damaged(location), FieldReader(fields, location=location) as read:
            stream = StreamName.from_stem(read.text("stream"))
            if stream.stem != stem:
                raise ForeignDocument(f"{location} contains the watermark of {stream}", hint=MISPLACED_HINT)
            watermark = cls(
                stream=stream,
                revision=read.number("revision"),
                last_manual_revision=read.number("set_at_revision"),
                created_at=read.instant("created_at"),
                updated_at=read.instant("updated_at"),
                epochs=_epochs_from_fields(read.mapping("epochs"), location=location),
                failures=_failures_from_fields(read.mapping("failures"), location=location),
                extract_progress=None if stream.target else _extract_progress_from_fields(read),
                load_progress=_load_progress_from_fields(read),
            )
            read.ignore(watermark._derived_fields())
        return watermark


def upgrade_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the content under the names of the current version."""
    while step := UPGRADE_STEPS.get(fields["format_version"]):
        fields = step(fields) | {"format_version": fields["format_version"] + 1}
    return fields


def _without_stage(failures: Mapping[Stage, FailureRecord], stage: Stage) -> Mapping[Stage, FailureRecord]:
    return MappingProxyType({s: failure for s, failure in failures.items() if s is not stage})


def _format_optional_instant(instant: datetime | None) -> str | None:
    return format_instant(instant) if instant else None


def _cursor_to_fields(cursor: Cursor, side: str) -> dict[str, Any]:
    """Return a cursor as time and key, as people read it; the time is null if the order column holds none."""
    values = cursor.values
    timed = bool(values) and values[0].kind in {ValueKind.INSTANT, ValueKind.WALL}
    return {
        f"last_{side}_data_timestamp": str(values[0]).partition(":")[2] if timed else None,
        f"last_{side}_key": [str(value) for value in values[timed:]],
    }


def _cursor_from_fields(reader: FieldReader, side: str) -> Cursor:
    time = reader.optional_text(f"last_{side}_data_timestamp")
    key = reader.cursor(f"last_{side}_key")
    if time is None:
        return key
    kind = ValueKind.INSTANT if time.endswith("Z") else ValueKind.WALL
    return Cursor((CursorValue.from_text(f"{kind}:{time}"), *key.values))


def _counts_to_fields(counts: ProgressCounts, side: str, rows: str, files: str) -> dict[str, Any]:
    return {
        f"{side}_run": counts.run,
        rows: counts.run_rows,
        files: counts.run_files,
        f"{rows}_total": counts.rows,
        f"{files}_total": counts.files,
        f"{side}_batches_total": counts.batches,
        f"{side}_milliseconds_total": counts.milliseconds,
    }


def _counts_from_fields(reader: FieldReader, side: str, rows: str, files: str) -> ProgressCounts:
    return ProgressCounts(
        run=reader.optional_text(f"{side}_run"),
        run_rows=reader.number(rows),
        run_files=reader.number(files),
        rows=reader.number(f"{rows}_total"),
        files=reader.number(f"{files}_total"),
        batches=reader.number(f"{side}_batches_total"),
        milliseconds=reader.number(f"{side}_milliseconds_total"),
    )


_MYSQL: Final = ("mysql", "mysql_rows_extracted", "s3_file_count")
_REDSHIFT: Final = ("redshift", "redshift_rows_loaded", "redshift_file_count")


def _extract_progress_to_fields(progress: ExtractProgress) -> dict[str, Any]:
    return {
        "generation": progress.generation,
        "extracted_seq": progress.seq,
        **_cursor_to_fields(progress.cursor, "mysql"),
        "generation_began": progress.generation_start.to_texts(),
        "snapshot": progress.snapshot.to_fields() if progress.snapshot else None,
        "closed_generations": {str(generation): seq for generation, seq in progress.closed_generations.items()},
        "last_batch_digest": progress.last_link_digest,
        "last_mysql_extraction_time": _format_optional_instant(progress.extracted_at),
        "backup_strategy": str(progress.strategy),
        "proven": progress.proven,
        "source_identity": progress.source_identity,
        **_counts_to_fields(progress.counts, *_MYSQL),
    }


def _extract_progress_from_fields(reader: FieldReader) -> ExtractProgress:
    return ExtractProgress(
        generation=reader.number("generation"),
        seq=reader.number("extracted_seq"),
        cursor=_cursor_from_fields(reader, "mysql"),
        generation_start=reader.cursor("generation_began"),
        snapshot=SnapshotProgress.from_fields(reader.optional_mapping("snapshot"), location="snapshot"),
        closed_generations=_closed_generations_from_fields(reader.mapping("closed_generations")),
        last_link_digest=reader.optional_text("last_batch_digest"),
        extracted_at=reader.optional_instant("last_mysql_extraction_time"),
        strategy=RunStrategy(reader.text("backup_strategy")),
        proven=reader.flag("proven"),
        source_identity=reader.optional_text("source_identity"),
        counts=_counts_from_fields(reader, *_MYSQL),
    )


def _closed_generations_from_fields(fields: Mapping[str, Any]) -> Mapping[int, int]:
    read = FieldReader(fields, location="closed_generations")
    closed = {generation: read.number(str(generation)) for generation in range(1, len(fields) + 1)}
    return MappingProxyType(closed)


def _load_progress_to_fields(progress: LoadProgress) -> dict[str, Any]:
    return {
        "load_generation": progress.load_generation,
        "load_base": str(progress.base),
        "earlier_landings": [
            [span.load_generation, str(span.after), str(span.up_to)] for span in progress.earlier_loads
        ],
        "loaded_generation": progress.last_batch.generation,
        "loaded_seq": progress.last_batch.seq,
        **_cursor_to_fields(progress.cursor, "redshift"),
        "skipped_batches": [[str(span.after), str(span.up_to)] for span in progress.skipped_batches],
        "last_redshift_load_time": _format_optional_instant(progress.loaded_at),
        "processed_s3_files": [],  # batches load in order, so all files are folded
        "processed_s3_files_folded": {"through": str(progress.last_batch), "files": progress.file_count},
        **_counts_to_fields(progress.counts, *_REDSHIFT),
    }


def _load_progress_from_fields(reader: FieldReader) -> LoadProgress:
    last = BatchId(reader.number("loaded_generation"), reader.number("loaded_seq"))
    with FieldReader(reader.mapping("processed_s3_files_folded"), location="processed_s3_files_folded") as fold:
        file_count, through = fold.number("files"), fold.text("through")
    if through != str(last) or reader.items("processed_s3_files"):
        raise DamagedDocument("processed_s3_files does not end at the loaded mark", hint=REBUILD_HINT)
    return LoadProgress(
        load_generation=reader.number("load_generation"),
        base=BatchId.from_text(reader.text("load_base")),
        earlier_loads=tuple(_earlier_loads_from_json(span) for span in reader.items("earlier_landings")),
        last_batch=last,
        cursor=_cursor_from_fields(reader, "redshift"),
        skipped_batches=tuple(_skipped_batches_from_json(span) for span in reader.items("skipped_batches")),
        loaded_at=reader.optional_instant("last_redshift_load_time"),
        file_count=file_count,
        counts=_counts_from_fields(reader, *_REDSHIFT),
    )


def _earlier_loads_from_json(span: Any) -> EarlierLoads:  # noqa: ANN401  # any JSON value
    match span:
        case [int(generation), str(after), str(upto)] if type(generation) is int:
            return EarlierLoads(
                load_generation=generation, after=BatchId.from_text(after), up_to=BatchId.from_text(upto)
            )
        case _:
            raise DamagedDocument(f"earlier_landings contains the invalid entry {str(span)[:60]!r}", hint=REBUILD_HINT)


def _skipped_batches_from_json(span: Any) -> SkippedBatches:  # noqa: ANN401  # any JSON value
    match span:
        case [str(after), str(upto)]:
            return SkippedBatches(after=BatchId.from_text(after), up_to=BatchId.from_text(upto))
        case _:
            raise DamagedDocument(f"skipped_batches contains the invalid entry {str(span)[:60]!r}", hint=REBUILD_HINT)


def _failure_to_fields(failure: FailureRecord) -> dict[str, Any]:
    return {
        "message": failure.message,
        "attempt": failure.attempt,
        "at": format_instant(failure.failed_at),
        "next_try": _format_optional_instant(failure.retry_at),
    }


def _failures_from_fields(fields: Mapping[str, Any], *, location: str) -> Mapping[Stage, FailureRecord]:
    failures: dict[Stage, FailureRecord] = {}
    by_stage = FieldReader(fields, location=location)
    for stage in fields:
        with FieldReader(by_stage.mapping(stage), location=location) as read:
            failures[Stage(stage)] = FailureRecord(
                message=read.text("message"),
                attempt=read.number("attempt"),
                failed_at=read.instant("at"),
                retry_at=read.optional_instant("next_try"),
            )
    return MappingProxyType(failures)


def _epochs_from_fields(fields: Mapping[str, Any], *, location: str) -> Mapping[Stage, int]:
    read = FieldReader(fields, location=location)
    return MappingProxyType({Stage(stage): read.number(stage) for stage in fields})
