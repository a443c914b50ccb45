"""The watermark: the document that says where one stream stands, in both its halves."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self

from watermarks.batch import BatchId, BatchLink, SnapshotProgress
from watermarks.codec import (
    REBUILD_HINT,
    DamagedDocument,
    FieldReader,
    ForeignDocument,
    decode,
    encode,
    raise_as_damaged,
    to_printable,
)
from watermarks.cursor import Cursor, CursorValue, ValueKind, format_instant, parse_instant
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
from watermarks.upgrade import upgrade_fields

WATERMARK_FORMAT_NAME: Final = "watermarks/watermark"
FORMAT_VERSION: Final = 1


class InconsistentMarks(DataInDoubt):
    """More is loaded than was ever extracted."""


class Stage(StrEnum):
    """One of the two steps of a stream."""

    EXTRACT = "extract"
    LOAD = "load"


class StageStatus(StrEnum):
    """How a stage stands, in the words that users of the earlier tool know."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """Why a stage does not go on, how often it was tried, and when it will be again."""

    message: str
    attempt: int
    failed_at: datetime
    retry_at: datetime | None


NOTHING_LOADED_YET: Final = LoadProgress()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Where one stream stands. The document of a further target has no extracted half."""

    stream: StreamName
    revision: int = 0
    extract_progress: ExtractProgress | None
    load_progress: LoadProgress = NOTHING_LOADED_YET
    epochs: Mapping[Stage, int] = field(default_factory=dict[Stage, int])
    failures: Mapping[Stage, FailureRecord] = field(default_factory=dict[Stage, FailureRecord])
    last_manual_revision: int = 0
    """The revision of the last change by a person: what `undo` takes back."""
    created_at: datetime
    updated_at: datetime

    def __post_init__(self) -> None:
        if bool(self.stream.target) is not (self.extract_progress is None):
            raise InconsistentMarks(
                f"{self.stream}: the document of the default target, and no other, has an extracted half"
            )
        last = self.load_progress.last_batch
        if (
            self.extract_progress
            and len(self.extract_progress.closed_generations) != self.extract_progress.generation - 1
        ):
            raise InconsistentMarks(
                f"{self.stream}: generation {self.extract_progress.generation} follows others that are not closed"
            )
        if self.load_progress.base > last:
            raise InconsistentMarks(
                f"{self.stream}: batch {last} is loaded, what is loaded begins at {self.load_progress.base}"
            )
        if self.extract_progress and (
            last > self.extract_progress.last_batch or last.seq > self.extract_progress.last_seq_of(last.generation)
        ):
            raise InconsistentMarks(
                f"{self.stream}: batch {last} is loaded, the chain ends at {self.extract_progress.last_batch}"
            )

    @classmethod
    def new(cls, stream: StreamName, *, created_at: datetime) -> Self:
        """The watermark of a stream that has never run."""
        extracted = None if stream.target else ExtractProgress()
        return cls(stream=stream, extract_progress=extracted, created_at=created_at, updated_at=created_at)

    @property
    def stem(self) -> str:
        return self.stream.stem

    @property
    def required_extract_progress(self) -> ExtractProgress:
        """The extracted half, where it must be.

        Raises:
            MarksCrossed: this is the document of a further target.
        """
        if self.extract_progress is None:
            raise InconsistentMarks(f"{self.stream} is a further target: its chain is {self.stream.default_stream}'s")
        return self.extract_progress

    def with_revision(self, revision: int, *, updated_at: datetime) -> Self:
        """This content as a revision of the document."""
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
        """Note that a process took the stage over."""
        return replace(self, epochs=MappingProxyType({**self.epochs, stage: epoch}))

    def with_failure(self, stage: Stage, failure: FailureRecord) -> Self:
        """Note that a stage failed. No position moves."""
        kept = replace(failure, message=to_printable(failure.message))
        return replace(self, failures=MappingProxyType({**self.failures, stage: kept}))

    def stage_status(self, stage: Stage) -> StageStatus:
        if stage in self.failures:
            return StageStatus.FAILED
        return self._load_status() if stage is Stage.LOAD else self._extract_status()

    def _extract_status(self) -> StageStatus:
        half = self.extract_progress
        if half is None or half.counts.batches == 0 or (half.seq == 0 and half.strategy is RunStrategy.MANUAL):
            return StageStatus.PENDING
        return StageStatus.IN_PROGRESS if half.snapshot and not half.snapshot.done else StageStatus.SUCCESS

    def _load_status(self) -> StageStatus:
        if self.load_progress.loaded_at is None or self.load_progress.last_batch == self.load_progress.base:
            return StageStatus.PENDING
        behind = (
            self.extract_progress is not None
            and next(self.extract_progress.batch_ids(after=self.load_progress.last_batch), None) is not None
        )
        return StageStatus.IN_PROGRESS if behind else StageStatus.SUCCESS

    @property
    def last_error(self) -> str | None:
        """The newest failure that still stands."""
        newest = max(self.failures.values(), key=lambda failure: failure.failed_at, default=None)
        return newest.message if newest else None

    def to_bytes(self) -> bytes:
        return encode(WATERMARK_FORMAT_NAME, FORMAT_VERSION, self.to_fields())

    def to_fields(self) -> dict[str, Any]:
        """The content in the document's own words."""
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
        """What readers of the earlier tool look for, and what says nothing new: never read back."""
        half = self.extract_progress
        tally = half.counts if half else self.load_progress.counts
        return {
            "table_name": self.stream.table_name,
            "mysql_status": self.stage_status(Stage.EXTRACT) if half else None,
            "redshift_status": self.stage_status(Stage.LOAD),
            "last_error": self.last_error,
            "metadata": {
                "manual_watermark": half is not None and half.strategy is RunStrategy.MANUAL,
                "total_processing_time_seconds": (
                    tally.milliseconds + (self.load_progress.counts.milliseconds if half else 0)
                )
                / 1000,
                "average_batch_size": tally.rows // tally.batches if tally.batches else 0,
            },
        }

    @classmethod
    def from_bytes(cls, body: bytes, *, location: str, stem: str) -> Self:
        """The watermark in the bytes of a current document.

        Raises:
            StateUnreadable: there is none, it is another stream's, or of an older tool (`legacy` reads those).
        """
        fields = upgrade_fields(decode(body, WATERMARK_FORMAT_NAME, FORMAT_VERSION, location=location))
        return cls.from_fields(fields, location=location, stem=stem)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], *, location: str, stem: str) -> Self:
        """The watermark with this content."""
        read = FieldReader(fields, location=location)
        with raise_as_damaged(location):
            stream = StreamName.from_stem(read.text("stream"))
            if stream.stem != stem:
                raise ForeignDocument(
                    f"{location} is the watermark of {stream}", hint="Was it copied or moved by hand?"
                )
            watermark = cls(
                stream=stream,
                revision=read.number("revision"),
                last_manual_revision=read.number("set_at_revision"),
                created_at=parse_instant(read.text("created_at")),
                updated_at=parse_instant(read.text("updated_at")),
                epochs=_epochs_from_fields(read.mapping("epochs"), location=location),
                failures=_failures_from_fields(read.mapping("failures"), location=location),
                extract_progress=None if stream.target else _extract_progress_from_fields(read),
                load_progress=_load_progress_from_fields(read),
            )
        read.ignore(watermark._derived_fields())
        read.require_all_read()
        return watermark


def _without_stage(failures: Mapping[Stage, FailureRecord], stage: Stage) -> Mapping[Stage, FailureRecord]:
    return MappingProxyType({s: failure for s, failure in failures.items() if s is not stage})


def _format_optional_instant(instant: datetime | None) -> str | None:
    return format_instant(instant) if instant else None


def _parse_optional_instant(text: str | None) -> datetime | None:
    return parse_instant(text) if text else None


def _cursor_to_fields(cursor: Cursor, side: str) -> dict[str, Any]:
    """A cursor as time and key apart, for that is how people read it: the time first where it is one."""
    values = cursor.values
    timed = bool(values) and values[0].kind in {ValueKind.INSTANT, ValueKind.WALL}
    return {
        f"last_{side}_data_timestamp": str(values[0]).partition(":")[2] if timed else None,
        f"last_{side}_key": [str(value) for value in values[timed:]],
    }


def _cursor_from_fields(reader: FieldReader, side: str) -> Cursor:
    time = reader.optional_text(f"last_{side}_data_timestamp")
    key = Cursor.from_texts(reader.items(f"last_{side}_key"))
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
        generation_start=Cursor.from_texts(reader.items("generation_began")),
        snapshot=SnapshotProgress.from_fields(reader.optional_mapping("snapshot"), location="snapshot"),
        closed_generations=_closed_generations_from_fields(reader.mapping("closed_generations")),
        last_link_digest=reader.optional_text("last_batch_digest"),
        extracted_at=_parse_optional_instant(reader.optional_text("last_mysql_extraction_time")),
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
        "processed_s3_files": [],  # in order, so whatever is landed is folded
        "processed_s3_files_folded": {"through": str(progress.last_batch), "files": progress.file_count},
        **_counts_to_fields(progress.counts, *_REDSHIFT),
    }


def _load_progress_from_fields(reader: FieldReader) -> LoadProgress:
    last = BatchId(reader.number("loaded_generation"), reader.number("loaded_seq"))
    fold = FieldReader(reader.mapping("processed_s3_files_folded"), location="processed_s3_files_folded")
    files = fold.number("files")
    if fold.text("through") != str(last) or reader.items("processed_s3_files"):
        raise DamagedDocument("processed_s3_files does not end where the loaded mark stands", hint=REBUILD_HINT)
    fold.require_all_read()
    return LoadProgress(
        load_generation=reader.number("load_generation"),
        base=BatchId.from_text(reader.text("load_base")),
        earlier_loads=tuple(_earlier_loads_from_json(span) for span in reader.items("earlier_landings")),
        last_batch=last,
        cursor=_cursor_from_fields(reader, "redshift"),
        skipped_batches=tuple(_skipped_batches_from_json(span) for span in reader.items("skipped_batches")),
        loaded_at=_parse_optional_instant(reader.optional_text("last_redshift_load_time")),
        file_count=files,
        counts=_counts_from_fields(reader, *_REDSHIFT),
    )


def _earlier_loads_from_json(span: Any) -> EarlierLoads:  # noqa: ANN401  # whatever JSON gave
    match span:
        case [int(generation), str(after), str(upto)] if type(generation) is int:
            return EarlierLoads(
                load_generation=generation, after=BatchId.from_text(after), up_to=BatchId.from_text(upto)
            )
        case _:
            raise DamagedDocument(f"earlier_landings holds {str(span)[:60]!r}", hint=REBUILD_HINT)


def _skipped_batches_from_json(span: Any) -> SkippedBatches:  # noqa: ANN401  # whatever JSON gave
    match span:
        case [str(after), str(upto)]:
            return SkippedBatches(after=BatchId.from_text(after), up_to=BatchId.from_text(upto))
        case _:
            raise DamagedDocument(f"skipped_batches holds {str(span)[:60]!r}", hint=REBUILD_HINT)


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
        read = FieldReader(by_stage.mapping(stage), location=location)
        failures[Stage(stage)] = FailureRecord(
            message=read.text("message"),
            attempt=read.number("attempt"),
            failed_at=parse_instant(read.text("at")),
            retry_at=_parse_optional_instant(read.optional_text("next_try")),
        )
        read.require_all_read()
    return MappingProxyType(failures)


def _epochs_from_fields(fields: Mapping[str, Any], *, location: str) -> Mapping[Stage, int]:
    read = FieldReader(fields, location=location)
    return MappingProxyType({Stage(stage): read.number(stage) for stage in fields})
