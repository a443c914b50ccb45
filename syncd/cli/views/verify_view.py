"""What `syncd verify` shows: a table, each difference in a line, or one JSON document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from syncd.cli.output import say, show_json, show_table
from syncd.cli.views.run_view import error_fields
from syncd.observe.event_text import counted

if TYPE_CHECKING:
    from syncd.settings import StreamSettings
    from syncd.verify.result import Difference, Verdict

KINDS: Final = ("lost", "stale", "different", "ghost", "doubled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One stream and its verdict."""

    stream: "StreamSettings"
    verdict: "Verdict"
    before: "Verdict | None" = None
    """What was found before a repair."""


def show(checked: Sequence[Checked], *, as_json: bool, values: bool, limit: int) -> None:
    """The result on stdout; what was left out and why on stderr."""
    if as_json:
        show_json({"streams": [_fields(one, values=values, limit=limit) for one in checked]})
        return
    columns = ("table", "state", "rows", "ranges", *KINDS, "left out", "seconds")
    found = {str(kind) for one in checked for kind, count in one.verdict.counts.items() if count}
    spare = ["seconds", "ranges", *(kind for kind in reversed(KINDS) if kind not in found)]
    show_table(columns, [_cells(one) for one in checked], spare=spare)
    for one in checked:
        for difference in one.verdict.differences[:limit]:
            say(f"{one.stream.name}: {_line(difference, values=values)}")
        for line in _words(one, limit):
            say(f"{one.stream.name}: {line}")


def _cells(one: Checked) -> tuple[object, ...]:
    verdict = one.verdict
    ranges = f"{verdict.compared} of {verdict.ranges}" if verdict.seed is not None else str(verdict.ranges)
    counts = [verdict.counts.get(kind, 0) for kind in _kinds()]
    left = sum(verdict.left_out.told.values())
    return (one.stream.name, verdict.state, f"{verdict.rows:,}", ranges, *counts, f"{left:,}", f"{verdict.seconds:.1f}")


def _kinds() -> "Sequence[Any]":
    from syncd.verify.result import Kind

    return [Kind(kind) for kind in KINDS]


def _line(difference: "Difference", *, values: bool) -> str:
    key = ", ".join(f"{name}={value}" for name, value in difference.key.items())
    columns = f" in {', '.join(difference.columns)}" if difference.columns else ""
    line = f"{key}: {difference.kind}{columns}"
    if values and difference.columns:
        shown = (
            f"{name}: {difference.here_values.get(name)!r} at the source, {difference.there_values.get(name)!r} in the"
            " warehouse"
            for name in difference.columns
        )
        return f"{line}: {'; '.join(shown)}"
    if not difference.here or not difference.there:
        return f"{line}: {'not at the source' if not difference.here else 'not in the warehouse'}"
    return f"{line} (digests {difference.here}, {difference.there})"


_LEFT: Final[Mapping[str, str]] = {
    "above_mark": "changed since what is loaded was read; the next batches bring that",
    "before_start": "before the beginning of the stream",
    "without_stamp": "without a stamp, which the first pass alone reads",
    "marked_gone": "in the warehouse, marked as gone",
    "earlier_versions": "in the warehouse, earlier versions",
    "quarantined": "in quarantine",
}


def _words(one: Checked, limit: int) -> "Sequence[str]":
    verdict, found = one.verdict, list[str]()
    if verdict.reason:
        return [verdict.reason]
    told, shown = verdict.counts.total(), len(verdict.differences[:limit])
    if told > shown:
        found.append(f"{told - shown:,} more differences are not shown (--limit)")
    if _may_be_versions(one):
        found.append(
            "was `mode` append, and is upsert now? Then doubled rows are versions that it kept. To land all files anew,"
            f" which leaves one of each: syncd watermark reset -t {one.stream.name} --redshift-only; or see"
            ' "When append becomes upsert" in docs/drift.md'
        )
    if verdict.seed is not None:
        found.append(f"a sample, picked by --seed {verdict.seed}")
    if verdict.kept:
        stay = "is gone at the source and stays" if verdict.kept == 1 else "are gone at the source and stay"
        found.append(f"{counted(verdict.kept, 'row')} {stay}, for `deletes` is ignore; hard removes, soft marks them")
    found += [f"{counted(count, 'row')}: {_LEFT[name]}" for name, count in verdict.left_out.told.items() if count]
    found += [f"{column.name} is compared in fetched rows only: {column.reason}" for column in verdict.unlike]
    if verdict.partly:
        names = ", ".join(verdict.partly)
        found.append(f"of values of {names} longer than 96,000 bytes, length and beginning are compared")
    if verdict.mark is not None and not verdict.proven:
        why = f": {verdict.unproven}" if verdict.unproven else ""
        found.append(f"that the mark is complete is not proven{why}")
    if prove := _proves(one):
        found.append(
            f"both sides are equal up to it. From there on it is proven again, with the next rows, by: {prove}"
        )
    return found


def _proves(one: Checked) -> str:
    """The command by which what was compared counts as proven; empty where there is none."""
    at = one.verdict.provable
    if at is None:
        return ""
    instant = at.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    words = f"-t {one.stream.name} --mysql-only --timestamp '{instant}'"
    return f"syncd watermark set {words} --reason 'compared, after another table took its name'"


def _may_be_versions(one: Checked) -> bool:
    from syncd.settings import Mode
    from syncd.verify.result import Kind

    return one.stream.mode is Mode.UPSERT and bool(one.verdict.counts.get(Kind.DOUBLED, 0))


def _fields(one: Checked, *, values: bool, limit: int) -> dict[str, object]:
    verdict = one.verdict
    return {
        "table": one.stream.name,
        "source": one.stream.source,
        "state": verdict.state,
        "rows": verdict.rows,
        "ranges": verdict.ranges,
        "ranges_compared": verdict.compared,
        "fetched": verdict.fetched,
        "seed": verdict.seed,
        **{str(kind): verdict.counts.get(kind, 0) for kind in _kinds()},
        "kept": verdict.kept,
        "left_out": verdict.left_out.told,
        "fetched_only": [{"column": one.name, "reason": one.reason} for one in verdict.unlike],
        "partly": list(verdict.partly),
        "differences": [_difference(difference, values=values) for difference in verdict.differences[:limit]],
        "repaired": {str(kind): one.before.counts.get(kind, 0) for kind in _kinds()} if one.before else None,
        "mark": verdict.mark.texts() if verdict.mark is not None else None,
        "proven": verdict.proven,
        "unproven_because": verdict.unproven or None,
        "next": _proves(one) or None,
        "reason": verdict.reason or None,
        "seconds": round(verdict.seconds, 3),
        "error": error_fields(verdict.error),
    }


def _difference(difference: "Difference", *, values: bool) -> dict[str, object]:
    told: dict[str, object] = {
        "kind": difference.kind,
        "key": dict(difference.key),
        "columns": list(difference.columns),
        "source_digest": difference.here,
        "warehouse_digest": difference.there,
    }
    if values:
        told |= {
            "source_values": _plain(difference.here_values),
            "warehouse_values": _plain(difference.there_values),
        }
    return told


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}
