"""What `syncd verify` shows: a table, each difference in a line, or one JSON document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from syncd.cli.output import print_message, show_json, show_table
from syncd.cli.views.run_view import error_to_json
from syncd.observe.formatting import format_count

if TYPE_CHECKING:
    from syncd.settings import StreamSettings
    from syncd.verify.result import ComparisonResult, Difference

DIFFERENCE_KINDS: Final = ("lost", "stale", "different", "ghost", "doubled")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOutcome:
    """One stream and its verdict."""

    stream: "StreamSettings"
    result: "ComparisonResult"
    before_repair: "ComparisonResult | None" = None
    """What was found before a repair."""


def show(outcomes: Sequence[VerifyOutcome], *, as_json: bool, show_values: bool, limit: int) -> None:
    """The result on stdout; what was left out and why on stderr."""
    if as_json:
        show_json({"streams": [_to_json(one, values=show_values, limit=limit) for one in outcomes]})
        return
    columns = ("table", "state", "rows", "ranges", *DIFFERENCE_KINDS, "left out", "seconds")
    found = {str(kind) for one in outcomes for kind, count in one.result.counts.items() if count}
    spare = ["seconds", "ranges", *(kind for kind in reversed(DIFFERENCE_KINDS) if kind not in found)]
    show_table(columns, [_table_row(one) for one in outcomes], optional=spare)
    for one in outcomes:
        for difference in one.result.differences[:limit]:
            print_message(f"{one.stream.name}: {_describe_difference(difference, values=show_values)}")
        for line in _describe_outcome(one, limit):
            print_message(f"{one.stream.name}: {line}")


def _table_row(outcome: VerifyOutcome) -> tuple[object, ...]:
    verdict = outcome.result
    ranges = f"{verdict.compared_ranges} of {verdict.ranges}" if verdict.seed is not None else str(verdict.ranges)
    counts = [verdict.counts.get(kind, 0) for kind in _difference_kinds()]
    left = sum(verdict.left_out.counts_by_reason.values())
    return (
        outcome.stream.name,
        verdict.state,
        f"{verdict.rows:,}",
        ranges,
        *counts,
        f"{left:,}",
        f"{verdict.seconds:.1f}",
    )


def _difference_kinds() -> "Sequence[Any]":
    from syncd.verify.result import DifferenceKind

    return [DifferenceKind(kind) for kind in DIFFERENCE_KINDS]


def _describe_difference(difference: "Difference", *, values: bool) -> str:
    key = ", ".join(f"{name}={value}" for name, value in difference.key.items())
    columns = f" in {', '.join(difference.columns)}" if difference.columns else ""
    line = f"{key}: {difference.kind}{columns}"
    if values and difference.columns:
        shown = (
            f"{name}: {difference.source_values.get(name)!r} at the source, {difference.target_values.get(name)!r} in the"
            " warehouse"
            for name in difference.columns
        )
        return f"{line}: {'; '.join(shown)}"
    if not difference.source_digest or not difference.target_digest:
        return f"{line}: {'not at the source' if not difference.source_digest else 'not in the warehouse'}"
    return f"{line} (digests {difference.source_digest}, {difference.target_digest})"


_LEFT_OUT_TEXTS: Final[Mapping[str, str]] = {
    "above_mark": "changed since what is loaded was read; the next batches bring that",
    "before_start": "before the beginning of the stream",
    "without_stamp": "without a stamp, which the first pass alone reads",
    "marked_gone": "in the warehouse, marked as gone",
    "earlier_versions": "in the warehouse, earlier versions",
    "quarantined": "in quarantine",
}


def _describe_outcome(outcome: VerifyOutcome, limit: int) -> "Sequence[str]":
    verdict, found = outcome.result, list[str]()
    if verdict.not_compared_reason:
        return [verdict.not_compared_reason]
    told, shown = verdict.counts.total(), len(verdict.differences[:limit])
    if told > shown:
        found.append(f"{told - shown:,} more differences are not shown (--limit)")
    if _may_be_append_versions(outcome):
        found.append(
            "was `mode` append, and is upsert now? Then doubled rows are versions that it kept. To land all files anew,"
            f" which leaves one of each: syncd watermark reset -t {outcome.stream.name} --redshift-only; or see"
            ' "When append becomes upsert" in docs/how-to/drift.md'
        )
    if verdict.seed is not None:
        found.append(f"a sample, picked by --seed {verdict.seed}")
    if verdict.kept_ghosts:
        stay = "is gone at the source and stays" if verdict.kept_ghosts == 1 else "are gone at the source and stay"
        found.append(
            f"{format_count(verdict.kept_ghosts, 'row')} {stay}, for `deletes` is ignore; hard removes, soft marks them"
        )
    found += [
        f"{format_count(count, 'row')}: {_LEFT_OUT_TEXTS[name]}"
        for name, count in verdict.left_out.counts_by_reason.items()
        if count
    ]
    found += [f"{column.name} is compared in fetched rows only: {column.reason}" for column in verdict.uncomparable]
    if verdict.partly_compared:
        names = ", ".join(verdict.partly_compared)
        found.append(f"of values of {names} longer than 96,000 bytes, length and beginning are compared")
    if verdict.mark is not None and not verdict.proven:
        why = f": {verdict.unproven_reason}" if verdict.unproven_reason else ""
        found.append(f"that the mark is complete is not proven{why}")
    if prove := _proving_command(outcome):
        found.append(
            f"both sides are equal up to it. From there on it is proven again, with the next rows, by: {prove}"
        )
    return found


def _proving_command(outcome: VerifyOutcome) -> str:
    """The command by which what was compared counts as proven; empty where there is none."""
    at = outcome.result.provable_upto
    if at is None:
        return ""
    instant = at.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    words = f"-t {outcome.stream.name} --mysql-only --timestamp '{instant}'"
    return f"syncd watermark set {words} --reason 'compared, after another table took its name'"


def _may_be_append_versions(outcome: VerifyOutcome) -> bool:
    from syncd.settings import Mode
    from syncd.verify.result import DifferenceKind

    return outcome.stream.mode is Mode.UPSERT and bool(outcome.result.counts.get(DifferenceKind.DOUBLED, 0))


def _to_json(outcome: VerifyOutcome, *, values: bool, limit: int) -> dict[str, object]:
    verdict = outcome.result
    return {
        "table": outcome.stream.name,
        "source": outcome.stream.source,
        "state": verdict.state,
        "rows": verdict.rows,
        "ranges": verdict.ranges,
        "ranges_compared": verdict.compared_ranges,
        "fetched": verdict.fetched_count,
        "seed": verdict.seed,
        **{str(kind): verdict.counts.get(kind, 0) for kind in _difference_kinds()},
        "kept": verdict.kept_ghosts,
        "left_out": verdict.left_out.counts_by_reason,
        "fetched_only": [{"column": one.name, "reason": one.reason} for one in verdict.uncomparable],
        "partly": list(verdict.partly_compared),
        "differences": [_difference_to_json(difference, values=values) for difference in verdict.differences[:limit]],
        "repaired": {str(kind): outcome.before_repair.counts.get(kind, 0) for kind in _difference_kinds()}
        if outcome.before_repair
        else None,
        "mark": verdict.mark.to_texts() if verdict.mark is not None else None,
        "proven": verdict.proven,
        "unproven_because": verdict.unproven_reason or None,
        "next": _proving_command(outcome) or None,
        "reason": verdict.not_compared_reason or None,
        "seconds": round(verdict.seconds, 3),
        "error": error_to_json(verdict.error),
    }


def _difference_to_json(difference: "Difference", *, values: bool) -> dict[str, object]:
    told: dict[str, object] = {
        "kind": difference.kind,
        "key": dict(difference.key),
        "columns": list(difference.columns),
        "source_digest": difference.source_digest,
        "warehouse_digest": difference.target_digest,
    }
    if values:
        told |= {
            "source_values": _values_to_json(difference.source_values),
            "warehouse_values": _values_to_json(difference.target_values),
        }
    return told


def _values_to_json(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}
