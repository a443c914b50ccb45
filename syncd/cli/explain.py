"""`syncd explain`: location of one row, and the reason."""

import os
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import TableNameType, common_options
from syncd.cli.output import show_json
from syncd.cli.stream_selection import exit_with_errors, open_operator_context, select_streams
from syncd.error_classes import ExitCode

if TYPE_CHECKING:
    from syncd.operations.row_status import RowExplanation, RowFacts


@click.command()
@click.argument("table", type=TableNameType())
@click.argument("key", nargs=-1, required=True, metavar="COLUMN=VALUE...")
@click.option("--all-files", is_flag=True, help="Search all files, not only the newest 500, and show every version.")
@common_options
def explain(table: str, key: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show where the row with this key is, and the reason.

    Searches MySQL, the lake and the warehouse. A system that does not answer is left out. Writes nothing.

    Exit 7: the row is in doubt.
    """
    from syncd.app.dry_run import build_row_explainer
    from syncd.operations.row_status import RowStatus, explain_row

    pairs = _parse_key(key)
    with open_operator_context(options["config"], read_only=True) as context:
        [selected] = select_streams(context.settings, [table], all_=False)
        explainer = build_row_explainer(
            context, selected.require_settings(), os.environ, search_all_files=options["all_files"]
        )
        facts = explainer.collect_facts(pairs)
    explanation = explain_row(facts)
    if options["as_json"]:
        show_json(_to_json(facts, explanation))
    else:
        _show(facts, explanation)
    exit_with_errors([], codes=[ExitCode.DOUBT] if explanation.status is RowStatus.IN_DOUBT else [])


def _parse_key(key: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in key]
    if any(not column or not equals for column, equals, _ in pairs):
        raise click.UsageError("write the key as COLUMN=VALUE, once for each column of the key")
    if len({column for column, _, _ in pairs}) != len(pairs):
        raise click.UsageError("a column of the key is given twice")
    return {column: value for column, _, value in pairs}


def _show(facts: "RowFacts", explanation: "RowExplanation") -> None:
    key = ", ".join(f"{column}={value}" for column, value in facts.key.items())
    click.echo(f"{facts.table} {key}: {explanation.status}")
    click.echo(f"  {explanation.reason}")
    if explanation.next_step:
        click.echo(f"  next: {explanation.next_step}")
    for name, text in (("MySQL", _describe_source(facts)), ("warehouse", _describe_target(facts))):
        click.echo(f"  {name}: {text}")
    versions = facts.versions
    if len(versions) == 1 and versions[0].file in explanation.reason:
        versions = ()  # the reason names the file already
    for version in versions:
        at = f" with {version.cursor}" if version.cursor else ""
        click.echo(f"  batch {version.batch} ({version.planned_at}){at}: row {version.row:,} of {version.file}")
    for row in facts.quarantined:
        replay = f", replayed by batch {row.replayed_by}" if row.replayed_by else ""
        click.echo(f"  quarantine of batch {row.batch}: {row.reason}{replay}: {row.file}")


def _describe_source(facts: "RowFacts") -> str:
    from syncd.operations.row_status import format_cursor_value

    if not facts.source.was_asked:
        return facts.source.problem
    if not facts.source.exists:
        return "has no such row"
    cursor = facts.source.cursor
    if cursor is None or not cursor.values:
        return "has it"
    return f"has it at {format_cursor_value(cursor.values[0].raw)}"


def _describe_target(facts: "RowFacts") -> str:
    target = facts.target
    if not target.was_asked:
        return target.problem
    if not target.rows:
        return "has no such row"
    batch = f", read by batch {target.batch}" if target.batch else ""
    deletion = f", deleted since {target.deleted_at}" if target.deleted_at else ""
    versions = f" in {target.rows} versions" if target.rows > 1 else ""
    return f"has it{versions}{batch}{deletion}"


def _to_json(facts: "RowFacts", explanation: "RowExplanation") -> dict[str, Any]:
    source, target = facts.source, facts.target
    return {
        "table": facts.table,
        "key": dict(facts.key),
        "location": explanation.status,
        "reason": explanation.reason,
        "next_step": explanation.next_step or None,
        "mysql": {
            "answered": source.was_asked,
            "exists": source.exists if source.was_asked else None,
            "cursor": source.cursor.to_texts() if source.cursor is not None else None,
            "problem": source.problem or None,
        },
        "warehouse": {
            "answered": target.was_asked,
            "rows": target.rows if target.was_asked else None,
            "batch": str(target.batch) if target.batch else None,
            "deleted_at": target.deleted_at,
            "problem": target.problem or None,
        },
        "mark": facts.mark.to_texts(),
        "loaded": str(facts.load_progress.last_batch),
        "loaded_at": facts.loaded_at or None,
        "versions": [
            {
                "batch": str(version.batch),
                "first_read_in": str(version.first_read_by),
                "cursor": version.cursor,
                "file": version.file,
                "row": version.row,
                "created_at": version.planned_at,
            }
            for version in facts.versions
        ],
        "quarantine": [
            {
                "batch": str(row.batch),
                "stage": row.stage,
                "reason": row.reason,
                "file": row.file,
                "replayed_by": str(row.replayed_by) if row.replayed_by else None,
            }
            for row in facts.quarantined
        ],
        "all_files_searched": facts.all_files_checked,
        "missing_files": facts.missing_files,
    }
