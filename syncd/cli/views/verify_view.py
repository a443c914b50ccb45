"""Output of `syncd verify`: a table, each difference in a line, or one JSON document."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Final

from syncd.cli.output import error_to_json, print_message, show_json, show_table
from syncd.observe.formatting import format_count
from syncd.settings import Mode

if TYPE_CHECKING:
    from syncd.settings import StreamSettings
    from syncd.verify.result import ComparisonResult, Difference

DIFFERENCE_KINDS: Final = ("lost", "stale", "different", "ghost", "doubled")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOutcome:
    """One stream with the result of its comparison."""

    stream: "StreamSettings"
    result: "ComparisonResult"
    before_repair: "ComparisonResult | None" = None
    """Result of the comparison before a repair."""


def count_differences(result: "ComparisonResult") -> dict[str, int]:
    """Return the number of differences of each kind, in the order of the columns."""
    counts = {str(kind): count for kind, count in result.counts.items()}
    return {kind: counts.get(kind, 0) for kind in DIFFERENCE_KINDS}


def show(outcomes: Sequence[VerifyOutcome], *, as_json: bool, show_values: bool, limit: int) -> None:
    """Print the result on stdout, and what was not compared on stderr."""
    if as_json:
        show_json({"streams": [_to_json(outcome, values=show_values, limit=limit) for outcome in outcomes]})
        return
    columns = ("table", "state", "rows", "ranges", *DIFFERENCE_KINDS, "left out", "seconds")
    present = {kind for outcome in outcomes for kind, count in count_differences(outcome.result).items() if count}
    optional = ["seconds", "ranges", *(kind for kind in reversed(DIFFERENCE_KINDS) if kind not in present)]
    show_table(columns, [_table_row(outcome) for outcome in outcomes], optional=optional)
    for outcome in outcomes:
        for difference in outcome.result.differences[:limit]:
            print_message(f"{outcome.stream.name}: {_describe_difference(difference, values=show_values)}")
        for line in _describe_outcome(outcome, limit):
            print_message(f"{outcome.stream.name}: {line}")


def _table_row(outcome: VerifyOutcome) -> tuple[object, ...]:
    result = outcome.result
    ranges = f"{result.compared_ranges} of {result.ranges}" if result.seed is not None else str(result.ranges)
    return (
        outcome.stream.name,
        result.state,
        f"{result.rows:,}",
        ranges,
        *count_differences(result).values(),
        f"{sum(result.left_out.counts_by_reason.values()):,}",
        f"{result.seconds:.1f}",
    )


def _describe_difference(difference: "Difference", *, values: bool) -> str:
    key = ", ".join(f"{name}={value}" for name, value in difference.key.items())
    columns = f" in {', '.join(difference.columns)}" if difference.columns else ""
    line = f"{key}: {difference.kind}{columns}"
    if values and difference.columns:
        pairs = (
            f"{name}: {difference.source_values.get(name)!r} at the source,"
            f" {difference.target_values.get(name)!r} in the warehouse"
            for name in difference.columns
        )
        return f"{line}: {'; '.join(pairs)}"
    if not difference.source_digest or not difference.target_digest:
        return f"{line}: {'not at the source' if not difference.source_digest else 'not in the warehouse'}"
    return f"{line} (digests {difference.source_digest}, {difference.target_digest})"


_LEFT_OUT_FIELDS: Final[Mapping[str, str]] = {"without_stamp": "without_order_value", "marked_gone": "marked_deleted"}
"""Fields of left-out rows that the evidence of an import, in the lake, has under another name."""
_LEFT_OUT_TEXTS: Final[Mapping[str, str]] = {
    "above_mark": "changed after the loaded mark; the next batches bring the changes",
    "before_start": "before the start of the stream",
    "without_stamp": "without a value in the order column; only the first pass reads them",
    "marked_gone": "in the warehouse, marked as deleted",
    "earlier_versions": "in the warehouse, earlier versions",
    "quarantined": "in quarantine",
}


def left_out_to_json(result: "ComparisonResult") -> dict[str, int]:
    """Return the number of left-out rows by reason."""
    return {_LEFT_OUT_FIELDS.get(reason, reason): count for reason, count in result.left_out.counts_by_reason.items()}


def describe_left_out(result: "ComparisonResult") -> Iterator[str]:
    """Yield a line for everything that the comparison left out, or compared in part only."""
    if result.kept_ghosts:
        verb = (
            "was deleted at the source and stays in the target"
            if result.kept_ghosts == 1
            else "were deleted at the source and stay in the target"
        )
        rows = format_count(result.kept_ghosts, "row")
        yield f"{rows} {verb}, because `deletes` is `ignore`; `hard` would remove them, `soft` mark them"
    for reason, count in result.left_out.counts_by_reason.items():
        if count:
            yield f"{format_count(count, 'row')}: {_LEFT_OUT_TEXTS[reason]}"
    for column in result.uncomparable:
        yield f"{column.name} is compared in fetched rows only: {column.reason}"
    if result.partly_compared:
        names = ", ".join(result.partly_compared)
        yield f"values of {names} longer than 96,000 bytes are compared by length and beginning"


def _describe_outcome(outcome: VerifyOutcome, limit: int) -> Iterator[str]:
    result = outcome.result
    if result.not_compared_reason:
        yield result.not_compared_reason
        return
    if (more := result.counts.total() - len(result.differences[:limit])) > 0:
        yield f"{more:,} more differences are not shown (--limit)"
    if outcome.stream.mode is Mode.UPSERT and count_differences(result)["doubled"]:
        yield (
            "if `mode` was `append` before, doubled rows are versions kept by it. To load all files again, which keeps"
            f" one version of each row: syncd watermark reset -t {outcome.stream.name} --redshift-only; or see"
            ' "When append becomes upsert" in docs/how-to/drift.md'
        )
    if result.seed is not None:
        yield f"a sample; to repeat it: --seed {result.seed}"
    yield from describe_left_out(result)
    if result.mark is not None and not result.proven:
        reason = f": {result.unproven_reason}" if result.unproven_reason else ""
        yield f"the mark is not proven to be complete{reason}"
    if command := _proving_command(outcome):
        yield f"both sides are equal up to the mark. To count this range as proven from the next rows on: {command}"


def _proving_command(outcome: VerifyOutcome) -> str:
    """Return the command that makes the compared range count as proven; empty where there is none."""
    instant = outcome.result.provable_upto
    if instant is None:
        return ""
    text = instant.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    options = f"-t {outcome.stream.name} --mysql-only --timestamp '{text}'"
    return f"syncd watermark set {options} --reason 'compared, after another table took its name'"


def _to_json(outcome: VerifyOutcome, *, values: bool, limit: int) -> dict[str, object]:
    result = outcome.result
    return {
        "table": outcome.stream.name,
        "source": outcome.stream.source,
        "state": result.state,
        "rows": result.rows,
        "ranges": result.ranges,
        "ranges_compared": result.compared_ranges,
        "fetched_rows": result.fetched_count,
        "seed": result.seed,
        **count_differences(result),
        "kept_ghosts": result.kept_ghosts,
        "left_out": left_out_to_json(result),
        "compared_in_fetched_rows": [
            {"column": column.name, "reason": column.reason} for column in result.uncomparable
        ],
        "partly_compared": list(result.partly_compared),
        "differences": [_difference_to_json(difference, values=values) for difference in result.differences[:limit]],
        "repaired": count_differences(outcome.before_repair) if outcome.before_repair else None,
        "mark": result.mark.to_texts() if result.mark is not None else None,
        "proven": result.proven,
        "unproven_reason": result.unproven_reason or None,
        "next_step": _proving_command(outcome) or None,
        "reason": result.not_compared_reason or None,
        "seconds": round(result.seconds, 3),
        "error": error_to_json(result.error),
    }


def _difference_to_json(difference: "Difference", *, values: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "kind": difference.kind,
        "key": dict(difference.key),
        "columns": list(difference.columns),
        "source_digest": difference.source_digest,
        "warehouse_digest": difference.target_digest,
    }
    if values:
        fields |= {
            "source_values": _values_to_json(difference.source_values),
            "warehouse_values": _values_to_json(difference.target_values),
        }
    return fields


def _values_to_json(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}
