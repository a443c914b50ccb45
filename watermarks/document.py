"""The watermark: the document that says where one stream stands, in both its halves."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self

from watermarks.batch import BatchId, Link, Snapshot
from watermarks.codec import REBUILD, Damaged, Fields, Foreign, blamed, printable, seal, unseal
from watermarks.cursor import Cursor, Kind, Value, instant_of, instant_text
from watermarks.errors import DataInDoubt
from watermarks.names import StreamName
from watermarks.progress import Extracted, Landings, Loaded, Run, Skipped, Strategy, Tally
from watermarks.upgrade import upgraded

FORMAT: Final = "watermarks/watermark"
VERSION: Final = 1


class MarksCrossed(DataInDoubt):
    """More is loaded than was ever extracted."""


class Stage(StrEnum):
    """One of the two steps of a stream."""

    EXTRACT = "extract"
    LOAD = "load"


class Status(StrEnum):
    """How a stage stands, in the words that users of the earlier tool know."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a stage does not go on, how often it was tried, and when it will be again."""

    message: str
    attempt: int
    at: datetime
    next_try: datetime | None


NOT_LOADED: Final = Loaded()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Where one stream stands. The document of a further target has no extracted half."""

    stream: StreamName
    revision: int = 0
    extracted: Extracted | None
    loaded: Loaded = NOT_LOADED
    epochs: Mapping[Stage, int] = field(default_factory=dict[Stage, int])
    failures: Mapping[Stage, Failure] = field(default_factory=dict[Stage, Failure])
    set_at: int = 0
    """The revision of the last change by a person: what `undo` takes back."""
    created_at: datetime
    updated_at: datetime

    def __post_init__(self) -> None:
        if bool(self.stream.target) is not (self.extracted is None):
            raise MarksCrossed(
                f"{self.stream}: the document of the default target, and no other, has an extracted half"
            )
        last = self.loaded.last
        if self.extracted and len(self.extracted.closed) != self.extracted.generation - 1:
            raise MarksCrossed(
                f"{self.stream}: generation {self.extracted.generation} follows others that are not closed"
            )
        if self.loaded.base > last:
            raise MarksCrossed(f"{self.stream}: batch {last} is loaded, what is loaded begins at {self.loaded.base}")
        if self.extracted and (last > self.extracted.last or last.seq > self.extracted.end_of(last.generation)):
            raise MarksCrossed(f"{self.stream}: batch {last} is loaded, the chain ends at {self.extracted.last}")

    @classmethod
    def new(cls, stream: StreamName, *, at: datetime) -> Self:
        """The watermark of a stream that has never run."""
        extracted = None if stream.target else Extracted()
        return cls(stream=stream, extracted=extracted, created_at=at, updated_at=at)

    @property
    def stem(self) -> str:
        return self.stream.stem

    @property
    def chain(self) -> Extracted:
        """The extracted half, where it must be.

        Raises:
            MarksCrossed: this is the document of a further target.
        """
        if self.extracted is None:
            raise MarksCrossed(f"{self.stream} is a further target: its chain is {self.stream.default}'s")
        return self.extracted

    def stamped(self, revision: int, *, at: datetime) -> Self:
        """This content as a revision of the document."""
        return replace(self, revision=revision, updated_at=at)

    def with_link(self, link: Link, *, run: Run, at: datetime) -> Self:
        """Advance the extracted mark by the next link of the chain."""
        return replace(
            self,
            extracted=self.chain.with_link(link, run=run, at=at),
            failures=_without(self.failures, Stage.EXTRACT),
        )

    def with_landed(self, link: Link, *, rows: int, run: Run, at: datetime) -> Self:
        """Advance the loaded mark by one batch."""
        return replace(
            self,
            loaded=self.loaded.with_landed(link, rows=rows, run=run, at=at),
            failures=_without(self.failures, Stage.LOAD),
        )

    def with_epoch(self, stage: Stage, epoch: int) -> Self:
        """Note that a process took the stage over."""
        return replace(self, epochs=MappingProxyType({**self.epochs, stage: epoch}))

    def with_failure(self, stage: Stage, failure: Failure) -> Self:
        """Note that a stage failed. No position moves."""
        kept = replace(failure, message=printable(failure.message))
        return replace(self, failures=MappingProxyType({**self.failures, stage: kept}))

    def status(self, stage: Stage) -> Status:
        if stage in self.failures:
            return Status.FAILED
        return self._load_status() if stage is Stage.LOAD else self._extract_status()

    def _extract_status(self) -> Status:
        half = self.extracted
        if half is None or half.tally.batches == 0 or (half.seq == 0 and half.strategy is Strategy.MANUAL):
            return Status.PENDING
        return Status.IN_PROGRESS if half.snapshot and not half.snapshot.done else Status.SUCCESS

    def _load_status(self) -> Status:
        if self.loaded.at is None or self.loaded.last == self.loaded.base:
            return Status.PENDING
        behind = self.extracted is not None and next(self.extracted.ids(after=self.loaded.last), None) is not None
        return Status.IN_PROGRESS if behind else Status.SUCCESS

    @property
    def last_error(self) -> str | None:
        """The newest failure that still stands."""
        newest = max(self.failures.values(), key=lambda failure: failure.at, default=None)
        return newest.message if newest else None

    def to_bytes(self) -> bytes:
        return seal(FORMAT, VERSION, self.fields())

    def fields(self) -> dict[str, Any]:
        """The content in the document's own words."""
        return {
            "stream": self.stream.stem,
            "revision": self.revision,
            "set_at_revision": self.set_at,
            "created_at": instant_text(self.created_at),
            "updated_at": instant_text(self.updated_at),
            "epochs": {str(stage): epoch for stage, epoch in self.epochs.items()},
            "failures": {str(stage): _failure_fields(failure) for stage, failure in self.failures.items()},
            **(_extracted_fields(self.extracted) if self.extracted else {}),
            **_loaded_fields(self.loaded),
            **self._derived(),
        }

    def _derived(self) -> dict[str, Any]:
        """What readers of the earlier tool look for, and what says nothing new: never read back."""
        half = self.extracted
        tally = half.tally if half else self.loaded.tally
        return {
            "table_name": f"{self.stream.database}.{self.stream.table}",
            "mysql_status": self.status(Stage.EXTRACT) if half else None,
            "redshift_status": self.status(Stage.LOAD),
            "last_error": self.last_error,
            "metadata": {
                "manual_watermark": half is not None and half.strategy is Strategy.MANUAL,
                "total_processing_time_seconds": (tally.milliseconds + (self.loaded.tally.milliseconds if half else 0))
                / 1000,
                "average_batch_size": tally.rows // tally.batches if tally.batches else 0,
            },
        }

    @classmethod
    def of_bytes(cls, body: bytes, *, at: str, stem: str) -> Self:
        """The watermark in the bytes of a current document.

        Raises:
            StateUnreadable: there is none, it is another stream's, or of an older tool (`legacy` reads those).
        """
        fields = upgraded(unseal(body, FORMAT, VERSION, at=at))
        return cls.of_fields(fields, at=at, stem=stem)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any], *, at: str, stem: str) -> Self:
        """The watermark with this content."""
        read = Fields(fields, at=at)
        with blamed(at):
            stream = StreamName.of_stem(read.text("stream"))
            if stream.stem != stem:
                raise Foreign(f"{at} is the watermark of {stream}", hint="Was it copied or moved by hand?")
            watermark = cls(
                stream=stream,
                revision=read.number("revision"),
                set_at=read.number("set_at_revision"),
                created_at=instant_of(read.text("created_at")),
                updated_at=instant_of(read.text("updated_at")),
                epochs=_epochs_of(read.inner("epochs"), at=at),
                failures=_failures_of(read.inner("failures"), at=at),
                extracted=None if stream.target else _extracted_of(read),
                loaded=_loaded_of(read),
            )
        read.drop(watermark._derived())
        read.known()
        return watermark


def _without(failures: Mapping[Stage, Failure], stage: Stage) -> Mapping[Stage, Failure]:
    return MappingProxyType({s: failure for s, failure in failures.items() if s is not stage})


def _moment(at: datetime | None) -> str | None:
    return instant_text(at) if at else None


def _moment_of(text: str | None) -> datetime | None:
    return instant_of(text) if text else None


def _cursor_fields(cursor: Cursor, side: str) -> dict[str, Any]:
    """A cursor as time and key apart, for that is how people read it: the time first where it is one."""
    values = cursor.values
    timed = bool(values) and values[0].kind in {Kind.INSTANT, Kind.WALL}
    return {
        f"last_{side}_data_timestamp": str(values[0]).partition(":")[2] if timed else None,
        f"last_{side}_key": [str(value) for value in values[timed:]],
    }


def _cursor_of(read: Fields, side: str) -> Cursor:
    time = read.maybe_text(f"last_{side}_data_timestamp")
    key = Cursor.of_texts(read.items(f"last_{side}_key"))
    if time is None:
        return key
    kind = Kind.INSTANT if time.endswith("Z") else Kind.WALL
    return Cursor((Value.of_text(f"{kind}:{time}"), *key.values))


def _tally_fields(tally: Tally, side: str, rows: str, files: str) -> dict[str, Any]:
    return {
        f"{side}_run": tally.run,
        rows: tally.run_rows,
        files: tally.run_files,
        f"{rows}_total": tally.rows,
        f"{files}_total": tally.files,
        f"{side}_batches_total": tally.batches,
        f"{side}_milliseconds_total": tally.milliseconds,
    }


def _tally_of(read: Fields, side: str, rows: str, files: str) -> Tally:
    return Tally(
        run=read.maybe_text(f"{side}_run"),
        run_rows=read.number(rows),
        run_files=read.number(files),
        rows=read.number(f"{rows}_total"),
        files=read.number(f"{files}_total"),
        batches=read.number(f"{side}_batches_total"),
        milliseconds=read.number(f"{side}_milliseconds_total"),
    )


_MYSQL: Final = ("mysql", "mysql_rows_extracted", "s3_file_count")
_REDSHIFT: Final = ("redshift", "redshift_rows_loaded", "redshift_file_count")


def _extracted_fields(half: Extracted) -> dict[str, Any]:
    return {
        "generation": half.generation,
        "extracted_seq": half.seq,
        **_cursor_fields(half.cursor, "mysql"),
        "generation_began": half.began.texts(),
        "snapshot": half.snapshot.fields() if half.snapshot else None,
        "closed_generations": {str(generation): seq for generation, seq in half.closed.items()},
        "last_batch_digest": half.chain,
        "last_mysql_extraction_time": _moment(half.at),
        "backup_strategy": str(half.strategy),
        "proven": half.proven,
        "source_identity": half.source_identity,
        **_tally_fields(half.tally, *_MYSQL),
    }


def _extracted_of(read: Fields) -> Extracted:
    return Extracted(
        generation=read.number("generation"),
        seq=read.number("extracted_seq"),
        cursor=_cursor_of(read, "mysql"),
        began=Cursor.of_texts(read.items("generation_began")),
        snapshot=Snapshot.of_fields(read.maybe_inner("snapshot"), at="snapshot"),
        closed=_closed_of(read.inner("closed_generations")),
        chain=read.maybe_text("last_batch_digest"),
        at=_moment_of(read.maybe_text("last_mysql_extraction_time")),
        strategy=Strategy(read.text("backup_strategy")),
        proven=read.flag("proven"),
        source_identity=read.maybe_text("source_identity"),
        tally=_tally_of(read, *_MYSQL),
    )


def _closed_of(found: Mapping[str, Any]) -> Mapping[int, int]:
    read = Fields(found, at="closed_generations")
    closed = {generation: read.number(str(generation)) for generation in range(1, len(found) + 1)}
    return MappingProxyType(closed)


def _loaded_fields(half: Loaded) -> dict[str, Any]:
    return {
        "load_generation": half.load_generation,
        "load_base": str(half.base),
        "earlier_landings": [[span.load_generation, str(span.after), str(span.upto)] for span in half.earlier],
        "loaded_generation": half.last.generation,
        "loaded_seq": half.last.seq,
        **_cursor_fields(half.cursor, "redshift"),
        "skipped_batches": [[str(span.after), str(span.upto)] for span in half.skipped],
        "last_redshift_load_time": _moment(half.at),
        "processed_s3_files": [],  # in order, so whatever is landed is folded
        "processed_s3_files_folded": {"through": str(half.last), "files": half.folded},
        **_tally_fields(half.tally, *_REDSHIFT),
    }


def _loaded_of(read: Fields) -> Loaded:
    last = BatchId(read.number("loaded_generation"), read.number("loaded_seq"))
    fold = Fields(read.inner("processed_s3_files_folded"), at="processed_s3_files_folded")
    files = fold.number("files")
    if fold.text("through") != str(last) or read.items("processed_s3_files"):
        raise Damaged("processed_s3_files does not end where the loaded mark stands", hint=REBUILD)
    fold.known()
    return Loaded(
        load_generation=read.number("load_generation"),
        base=BatchId.of_text(read.text("load_base")),
        earlier=tuple(_landings_of(span) for span in read.items("earlier_landings")),
        last=last,
        cursor=_cursor_of(read, "redshift"),
        skipped=tuple(_skipped_of(span) for span in read.items("skipped_batches")),
        at=_moment_of(read.maybe_text("last_redshift_load_time")),
        folded=files,
        tally=_tally_of(read, *_REDSHIFT),
    )


def _landings_of(span: Any) -> Landings:  # noqa: ANN401  # whatever JSON gave
    match span:
        case [int(generation), str(after), str(upto)] if type(generation) is int:
            return Landings(load_generation=generation, after=BatchId.of_text(after), upto=BatchId.of_text(upto))
        case _:
            raise Damaged(f"earlier_landings holds {str(span)[:60]!r}", hint=REBUILD)


def _skipped_of(span: Any) -> Skipped:  # noqa: ANN401  # whatever JSON gave
    match span:
        case [str(after), str(upto)]:
            return Skipped(after=BatchId.of_text(after), upto=BatchId.of_text(upto))
        case _:
            raise Damaged(f"skipped_batches holds {str(span)[:60]!r}", hint=REBUILD)


def _failure_fields(failure: Failure) -> dict[str, Any]:
    return {
        "message": failure.message,
        "attempt": failure.attempt,
        "at": instant_text(failure.at),
        "next_try": _moment(failure.next_try),
    }


def _failures_of(found: Mapping[str, Any], *, at: str) -> Mapping[Stage, Failure]:
    failures: dict[Stage, Failure] = {}
    by_stage = Fields(found, at=at)
    for stage in found:
        read = Fields(by_stage.inner(stage), at=at)
        failures[Stage(stage)] = Failure(
            message=read.text("message"),
            attempt=read.number("attempt"),
            at=instant_of(read.text("at")),
            next_try=_moment_of(read.maybe_text("next_try")),
        )
        read.known()
    return MappingProxyType(failures)


def _epochs_of(found: Mapping[str, Any], *, at: str) -> Mapping[Stage, int]:
    read = Fields(found, at=at)
    return MappingProxyType({Stage(stage): read.number(stage) for stage in found})
