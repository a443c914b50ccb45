"""`syncd explain`: where one row is, and why."""

import os
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import show_json
from syncd.cli.stream_options import common_options, exit_with_worst, open_operator_context, select_streams
from syncd.error_classes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.operations.row_status import RowExplanation, RowFacts, RowVersion


@click.command()
@click.argument("table")
@click.argument("key", nargs=-1, required=True, metavar="COLUMN=VALUE...")
@click.option(
    "--all-files", is_flag=True, help="Look at every file, and show every version; not only at the newest 500."
)
@common_options
def explain(table: str, key: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Say where the row with this key is, and why.

    MySQL, the lake and the warehouse are asked; with one of the servers away, the others answer. Nothing is written.

    Exit 7: the row is in doubt.
    """
    from syncd.app.preview import build_row_explainer
    from syncd.operations.row_status import RowStatus, explain_row

    pairs = _parse_key(key)
    with open_operator_context(options["config"], read_only=True) as desk:
        [named] = select_streams(desk, [table], all_=False)
        explainer = build_row_explainer(
            desk, named.require_settings(), os.environ, search_all_files=options["all_files"]
        )
        facts = explainer.collect_facts(pairs)
    said = explain_row(facts)
    if options["as_json"]:
        show_json(_to_json(facts, said))
    else:
        _show(facts, said)
    exit_with_worst([ExitCode.DOUBT] if said.status is RowStatus.IN_DOUBT else [])


def _parse_key(key: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in key]
    if any(not column or not equals for column, equals, _ in pairs):
        raise click.UsageError("write the key as COLUMN=VALUE, once for each of its columns")
    if len({column for column, _, _ in pairs}) != len(pairs):
        raise click.UsageError("a column of the key is named twice")
    return {column: value for column, _, value in pairs}


def _show(facts: "RowFacts", verdict: "RowExplanation") -> None:
    shown = ", ".join(f"{column}={value}" for column, value in facts.key.items())
    click.echo(f"{facts.table} {shown}: {verdict.status}")
    click.echo(f"  {verdict.reason}")
    if verdict.next_step:
        click.echo(f"  next: {verdict.next_step}")
    for name, text in (("MySQL", _describe_source(facts)), ("warehouse", _describe_target(facts))):
        click.echo(f"  {name}: {text}")
    for seen in (
        facts.versions if len(facts.versions) > 1 or not _names_all_files(verdict.reason, facts.versions) else ()
    ):
        at = f" with {seen.cursor}" if seen.cursor else ""
        click.echo(f"  batch {seen.batch} ({seen.planned_at}){at}: row {seen.row:,} of {seen.file}")
    for one in facts.quarantined:
        came = f", brought back by batch {one.replayed_by}" if one.replayed_by else ""
        click.echo(f"  quarantine of batch {one.batch}: {one.reason}{came}: {one.file}")


def _names_all_files(why: str, sightings: "Sequence[RowVersion]") -> bool:
    """Whether the reason itself names the files: then they need no list."""
    return all(seen.file in why for seen in sightings)


def _describe_source(facts: "RowFacts") -> str:
    from syncd.operations.row_status import format_cursor_value

    if not facts.source.was_asked:
        return facts.source.problem
    if not facts.source.exists:
        return "has no such row"
    cursor = facts.source.cursor
    return (
        f"has it at {format_cursor_value(cursor.values[0].raw)}" if cursor is not None and cursor.values else "has it"
    )


def _describe_target(facts: "RowFacts") -> str:
    target = facts.target
    if not target.was_asked:
        return target.problem
    if not target.rows:
        return "has no such row"
    by = f", read by batch {target.batch}" if target.batch else ""
    gone = f", deleted since {target.deleted_at}" if target.deleted_at else ""
    many = f" {target.rows} versions" if target.rows > 1 else ""
    return f"has it{many}{by}{gone}"


def _to_json(facts: "RowFacts", verdict: "RowExplanation") -> dict[str, Any]:
    source, target = facts.source, facts.target
    return {
        "table": facts.table,
        "key": dict(facts.key),
        "place": verdict.status,
        "why": verdict.reason,
        "next": verdict.next_step or None,
        "mysql": {
            "asked": source.was_asked,
            "there": source.exists if source.was_asked else None,
            "cursor": source.cursor.to_texts() if source.cursor is not None else None,
            "trouble": source.problem or None,
        },
        "warehouse": {
            "asked": target.was_asked,
            "rows": target.rows if target.was_asked else None,
            "batch": str(target.batch) if target.batch else None,
            "deleted_at": target.deleted_at,
            "trouble": target.problem or None,
        },
        "mark": facts.mark.to_texts(),
        "loaded": str(facts.load_progress.last_batch),
        "landed_at": facts.loaded_at or None,
        "versions": [
            {
                "batch": str(seen.batch),
                "rank": str(seen.first_read_by),
                "cursor": seen.cursor,
                "file": seen.file,
                "row": seen.row,
                "made_at": seen.planned_at,
            }
            for seen in facts.versions
        ],
        "quarantine": [
            {
                "batch": str(one.batch),
                "stage": one.stage,
                "reason": one.reason,
                "file": one.file,
                "replayed_by": str(one.replayed_by) if one.replayed_by else None,
            }
            for one in facts.quarantined
        ],
        "whole": facts.all_files_checked,
        "gone": facts.missing_files,
    }
