"""What `syncd s3clean` shows: how much could go and why, what stays and why, and what was removed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import click

from syncd.cli.output import print_message, show_table
from syncd.cli.stream_options import SelectedStream, error_to_json
from syncd.observe.formatting import format_bytes, format_count
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.operations.cleanup import RemovalResult
    from syncd.operations.cleanup_preview import CleaningProposal
    from syncd.operations.cleanup_rules import RemovableFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupOutcome:
    """One stream, what of it may go, and what was removed."""

    selected: SelectedStream
    proposal: "CleaningProposal | None" = None
    removed: "RemovalResult | None" = None
    error: HintedError | None = None

    @property
    def removable(self) -> "tuple[RemovableFile, ...]":
        return self.proposal.removable if self.proposal else ()

    @property
    def kept_counts(self) -> Counter[str]:
        """How many files stay, by the reason."""
        return Counter(file.reason for file in self.proposal.kept_files) if self.proposal else Counter()


class CountedVersions(Protocol):
    """What a bucket keeps of what is removed."""

    @property
    def keeps_versions(self) -> bool | None: ...
    @property
    def count(self) -> int | None: ...


def show(outcomes: Sequence[CleanupOutcome], *, files: bool) -> None:
    rows: list[tuple[object, ...]] = []
    for one in outcomes:
        for why, count, total in _totals_by_kind(one):
            rows.append((one.selected.name, why, "would go", f"{count:,}", format_bytes(total)))
        rows += [
            (one.selected.name, "", f"stays: {reason}", f"{count:,}", "")
            for reason, count in sorted(one.kept_counts.items())
        ]
    if rows:
        show_table(("table", "kind", "what", "files", "size"), rows)
    freed = sum(one.proposal.bytes for one in outcomes if one.proposal)
    click.echo(
        f"{format_count(sum(len(one.removable) for one in outcomes), 'file')}, {format_bytes(freed)} would be freed"
    )
    for one in outcomes:
        if files:
            for file in one.removable:
                click.echo(f"  {file.reason}  {file.batch or '-'}  {file.key}")
        for batch in one.proposal.batches_to_close if one.proposal else ():
            click.echo(f"  {one.selected.name}: batch {batch} of a closed generation would be abandoned first")
        if any(file.reason == "loaded" for file in one.removable):
            click.echo(
                f"  {one.selected.name}: afterwards its batches cannot land again from files:"
                " `syncd watermark reset --redshift-only` and a warehouse restored to before them need MySQL"
            )


def _totals_by_kind(outcome: CleanupOutcome) -> list[tuple[str, int, int]]:
    kinds = sorted({file.reason for file in outcome.removable})
    found = ((kind, [file.bytes for file in outcome.removable if file.reason == kind]) for kind in kinds)
    return [(str(kind), len(sizes), sum(sizes)) for kind, sizes in found]


def show_removed(outcomes: Sequence[CleanupOutcome]) -> None:
    for one in outcomes:
        if one.removed is None:
            continue
        print_message(
            f"{one.selected.name}: {format_count(one.removed.files, 'file')} removed, {format_bytes(one.removed.bytes)} freed"
        )
        for each in one.removed.failed[:MAX_FAILURES_SHOWN]:
            print_message(f"error: {one.selected.name}: {each.key} is still there: {each.reason}")
        if (left := len(one.removed.failed) - MAX_FAILURES_SHOWN) > 0:
            print_message(f"error: {one.selected.name}: and {left:,} more are still there")


MAX_FAILURES_SHOWN = 10
"""Files that are named which could not be removed."""


def list_to_json(outcomes: Sequence[CleanupOutcome], *, files: bool) -> dict[str, Any]:
    return {"streams": [_to_json(one, files=files) for one in outcomes]}


def clean_to_json(
    outcomes: Sequence[CleanupOutcome], versions: CountedVersions, *, dry_run: bool, files: bool
) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "versions": {"kept": versions.keeps_versions, "count": versions.count},
        "streams": [_to_json(one, files=files) | _removed_to_json(one) for one in outcomes],
    }


def _to_json(outcome: CleanupOutcome, *, files: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "table": outcome.selected.name,
        "source": outcome.selected.stream.source,
        "goes": [{"kind": kind, "files": count, "bytes": size} for kind, count, size in _totals_by_kind(outcome)],
        "stays": [{"reason": reason, "files": count} for reason, count in sorted(outcome.kept_counts.items())],
        "abandons": [str(batch) for batch in outcome.proposal.batches_to_close] if outcome.proposal else [],
        "error": error_to_json(outcome.error),
    }
    if files:
        found["files"] = [
            {
                "file": file.key,
                "kind": file.reason,
                "batch": str(file.batch) if file.batch else None,
                "bytes": file.bytes,
            }
            for file in outcome.removable
        ]
    return found


def _removed_to_json(outcome: CleanupOutcome) -> dict[str, Any]:
    if outcome.removed is None:
        return {"removed": None}
    return {
        "removed": {
            "files": outcome.removed.files,
            "bytes": outcome.removed.bytes,
            "failed": [{"file": each.key, "reason": each.reason} for each in outcome.removed.failed],
        }
    }
