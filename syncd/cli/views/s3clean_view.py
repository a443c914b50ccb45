"""Output of `syncd s3clean`: removable files, files that stay, removed files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import error_to_json, print_message, show_table
from syncd.cli.stream_selection import StreamResult
from syncd.observe.formatting import format_bytes, format_count

if TYPE_CHECKING:
    from syncd.operations.cleanup import RemovalResult
    from syncd.operations.cleanup_preview import CleaningProposal
    from syncd.operations.cleanup_rules import RemovableFile

MAX_FAILURES_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """Proposal for one stream, and what was removed of it."""

    proposal: "CleaningProposal"
    removed: "RemovalResult | None" = None

    @property
    def removable(self) -> "tuple[RemovableFile, ...]":
        return self.proposal.removable

    @property
    def kept_counts(self) -> list[tuple[str, int]]:
        """Numbers of files that stay, by reason."""
        return sorted(Counter(file.reason for file in self.proposal.kept_files).items())

    @property
    def totals_by_kind(self) -> list[tuple[str, int, int]]:
        """Kind, number and bytes of the removable files."""
        kinds = sorted({file.reason for file in self.removable})
        sizes = [(kind, [file.bytes for file in self.removable if file.reason == kind]) for kind in kinds]
        return [(str(kind), len(bytes_), sum(bytes_)) for kind, bytes_ in sizes]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketVersions:
    """Object versions that a bucket keeps of removed files."""

    keeps_versions: bool | None
    """None where the bucket does not allow the question."""
    count: int | None = None
    """Versions of the removable files; None where they were not counted."""


def show(results: Sequence[StreamResult[Cleanup]], *, files: bool) -> None:
    cleanups = [(result.name, result.value) for result in results if result.value]
    rows: list[tuple[object, ...]] = []
    for name, cleanup in cleanups:
        for kind, count, size in cleanup.totals_by_kind:
            rows.append((name, kind, "would be removed", f"{count:,}", format_bytes(size)))
        rows += [(name, "", f"kept: {reason}", f"{count:,}", "") for reason, count in cleanup.kept_counts]
    if rows:
        show_table(("table", "kind", "what", "files", "size"), rows)
    files_total = format_count(sum(len(cleanup.removable) for _, cleanup in cleanups), "file")
    bytes_total = format_bytes(sum(cleanup.proposal.bytes for _, cleanup in cleanups))
    click.echo(f"{files_total} would be removed, {bytes_total} freed")
    for name, cleanup in cleanups:
        if files:
            for file in cleanup.removable:
                click.echo(f"  {file.reason}  {file.batch or '-'}  {file.key}")
        for batch in cleanup.proposal.batches_to_close:
            click.echo(f"  {name}: batch {batch} of a closed generation would be abandoned first")
        if any(file.reason == "loaded" for file in cleanup.removable):
            click.echo(
                f"  {name}: afterwards these batches cannot be loaded again from files:"
                " `syncd watermark reset --redshift-only` and a restored warehouse will need MySQL"
            )


def show_removed(results: Sequence[StreamResult[Cleanup]]) -> None:
    for result in results:
        removed = result.value.removed if result.value else None
        if removed is None:
            continue
        print_message(
            f"{result.name}: {format_count(removed.files, 'file')} removed, {format_bytes(removed.bytes)} freed"
        )
        for failure in removed.failed[:MAX_FAILURES_SHOWN]:
            print_message(f"error: {result.name}: {failure.key} was not removed: {failure.reason}")
        if (more := len(removed.failed) - MAX_FAILURES_SHOWN) > 0:
            print_message(f"error: {result.name}: {more:,} more files were not removed")


def list_to_json(results: Sequence[StreamResult[Cleanup]], *, files: bool) -> dict[str, Any]:
    return {"streams": [_to_json(result, files=files) for result in results]}


def clean_to_json(
    results: Sequence[StreamResult[Cleanup]], versions: BucketVersions, *, dry_run: bool, files: bool
) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "versions": {"kept": versions.keeps_versions, "count": versions.count},
        "streams": [_to_json(result, files=files) | {"removed": _removed_to_json(result)} for result in results],
    }


def _to_json(result: StreamResult[Cleanup], *, files: bool) -> dict[str, Any]:
    cleanup = result.value
    totals, kept = (cleanup.totals_by_kind, cleanup.kept_counts) if cleanup else ([], [])
    fields: dict[str, Any] = result.selected.to_json() | {
        "removable": [{"kind": kind, "files": count, "bytes": size} for kind, count, size in totals],
        "kept": [{"reason": reason, "files": count} for reason, count in kept],
        "batches_to_abandon": [str(batch) for batch in cleanup.proposal.batches_to_close] if cleanup else [],
        "error": error_to_json(result.error),
    }
    if files:
        fields["files"] = [
            {
                "file": file.key,
                "kind": file.reason,
                "batch": str(file.batch) if file.batch else None,
                "bytes": file.bytes,
            }
            for file in (cleanup.removable if cleanup else ())
        ]
    return fields


def _removed_to_json(result: StreamResult[Cleanup]) -> dict[str, Any] | None:
    removed = result.value.removed if result.value else None
    if removed is None:
        return None
    failed = [{"file": failure.key, "reason": failure.reason} for failure in removed.failed]
    return {"files": removed.files, "bytes": removed.bytes, "failed": failed}
