"""What `syncd s3clean` shows: how much could go and why, what stays and why, and what was removed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import click

from syncd.cli.output import say, show_table
from syncd.cli.stream_options import Named, error_fields
from syncd.observe.event_text import counted, size
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.operations.cleanup import Removed
    from syncd.operations.cleanup_preview import Proposal
    from syncd.operations.cleanup_rules import Goes


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One stream, what of it may go, and what was removed."""

    named: Named
    proposal: "Proposal | None" = None
    removed: "Removed | None" = None
    error: HintedError | None = None

    @property
    def goes(self) -> "tuple[Goes, ...]":
        return self.proposal.goes if self.proposal else ()

    @property
    def stays(self) -> Counter[str]:
        """How many files stay, by the reason."""
        return Counter(file.reason for file in self.proposal.stays) if self.proposal else Counter()


class CountedVersions(Protocol):
    """What a bucket keeps of what is removed."""

    @property
    def kept(self) -> bool | None: ...
    @property
    def count(self) -> int | None: ...


def show(looked: Sequence[Looked], *, files: bool) -> None:
    rows: list[tuple[object, ...]] = []
    for one in looked:
        for why, count, total in _heaps(one):
            rows.append((one.named.name, why, "would go", f"{count:,}", size(total)))
        rows += [
            (one.named.name, "", f"stays: {reason}", f"{count:,}", "") for reason, count in sorted(one.stays.items())
        ]
    if rows:
        show_table(("table", "kind", "what", "files", "size"), rows)
    freed = sum(one.proposal.bytes for one in looked if one.proposal)
    click.echo(f"{counted(sum(len(one.goes) for one in looked), 'file')}, {size(freed)} would be freed")
    for one in looked:
        if files:
            for file in one.goes:
                click.echo(f"  {file.why}  {file.batch or '-'}  {file.key}")
        for batch in one.proposal.abandons if one.proposal else ():
            click.echo(f"  {one.named.name}: batch {batch} of a closed generation would be abandoned first")
        if any(file.why == "loaded" for file in one.goes):
            click.echo(
                f"  {one.named.name}: afterwards its batches cannot land again from files:"
                " `syncd watermark reset --redshift-only` and a warehouse restored to before them need MySQL"
            )


def _heaps(one: Looked) -> list[tuple[str, int, int]]:
    kinds = sorted({file.why for file in one.goes})
    found = ((kind, [file.bytes for file in one.goes if file.why == kind]) for kind in kinds)
    return [(str(kind), len(sizes), sum(sizes)) for kind, sizes in found]


def show_removed(looked: Sequence[Looked]) -> None:
    for one in looked:
        if one.removed is None:
            continue
        say(f"{one.named.name}: {counted(one.removed.files, 'file')} removed, {size(one.removed.bytes)} freed")
        for each in one.removed.failed[:MOST_TOLD]:
            say(f"error: {one.named.name}: {each.key} is still there: {each.reason}")
        if (left := len(one.removed.failed) - MOST_TOLD) > 0:
            say(f"error: {one.named.name}: and {left:,} more are still there")


MOST_TOLD = 10
"""Files that are named which could not be removed."""


def list_fields(looked: Sequence[Looked], *, files: bool) -> dict[str, Any]:
    return {"streams": [_fields(one, files=files) for one in looked]}


def clean_fields(looked: Sequence[Looked], versions: CountedVersions, *, dry_run: bool, files: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "versions": {"kept": versions.kept, "count": versions.count},
        "streams": [_fields(one, files=files) | _removed_fields(one) for one in looked],
    }


def _fields(one: Looked, *, files: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "table": one.named.name,
        "source": one.named.stream.source,
        "goes": [{"kind": kind, "files": count, "bytes": size} for kind, count, size in _heaps(one)],
        "stays": [{"reason": reason, "files": count} for reason, count in sorted(one.stays.items())],
        "abandons": [str(batch) for batch in one.proposal.abandons] if one.proposal else [],
        "error": error_fields(one.error),
    }
    if files:
        found["files"] = [
            {"file": file.key, "kind": file.why, "batch": str(file.batch) if file.batch else None, "bytes": file.bytes}
            for file in one.goes
        ]
    return found


def _removed_fields(one: Looked) -> dict[str, Any]:
    if one.removed is None:
        return {"removed": None}
    return {
        "removed": {
            "files": one.removed.files,
            "bytes": one.removed.bytes,
            "failed": [{"file": each.key, "reason": each.reason} for each in one.removed.failed],
        }
    }
