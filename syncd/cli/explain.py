"""`syncd explain`: where one row is, and why."""

import os
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.exit_codes import Exit
from syncd.cli.output import show_json
from syncd.cli.stream_options import chosen, common, leave, open_desk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.operations.row_status import Facts, Sighting, Verdict


@click.command()
@click.argument("table")
@click.argument("key", nargs=-1, required=True, metavar="COLUMN=VALUE...")
@click.option(
    "--all-files", is_flag=True, help="Look at every file, and show every version; not only at the newest 500."
)
@common
def explain(table: str, key: tuple[str, ...], **words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Say where the row with this key is, and why.

    MySQL, the lake and the warehouse are asked; with one of the servers away, the others answer. Nothing is written.

    Exit 7: the row is in doubt.
    """
    from syncd.operations.row_explainer import Explainer
    from syncd.operations.row_status import Place, verdict

    pairs = _pairs(key)
    with open_desk(words["config"], looks=True) as desk:
        [named] = chosen(desk, [table], all_=False)
        explainer = Explainer(desk=desk, settings=named.required(), environ=os.environ, all_files=words["all_files"])
        facts = explainer.facts(pairs)
    said = verdict(facts)
    if words["as_json"]:
        show_json(_fields(facts, said))
    else:
        _show(facts, said)
    leave([Exit.DOUBT] if said.place is Place.IN_DOUBT else [])


def _pairs(key: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in key]
    if any(not column or not equals for column, equals, _ in pairs):
        raise click.UsageError("write the key as COLUMN=VALUE, once for each of its columns")
    if len({column for column, _, _ in pairs}) != len(pairs):
        raise click.UsageError("a column of the key is named twice")
    return {column: value for column, _, value in pairs}


def _show(facts: "Facts", said: "Verdict") -> None:
    shown = ", ".join(f"{column}={value}" for column, value in facts.key.items())
    click.echo(f"{facts.table} {shown}: {said.place}")
    click.echo(f"  {said.why}")
    if said.next:
        click.echo(f"  next: {said.next}")
    for name, text in (("MySQL", _source(facts)), ("warehouse", _target(facts))):
        click.echo(f"  {name}: {text}")
    for seen in facts.sightings if len(facts.sightings) > 1 or not _names(said.why, facts.sightings) else ():
        at = f" with {seen.cursor}" if seen.cursor else ""
        click.echo(f"  batch {seen.batch} ({seen.made_at}){at}: row {seen.row:,} of {seen.file}")
    for one in facts.refused:
        came = f", brought back by batch {one.replayed_by}" if one.replayed_by else ""
        click.echo(f"  quarantine of batch {one.batch}: {one.reason}{came}: {one.file}")


def _names(why: str, sightings: "Sequence[Sighting]") -> bool:
    """Whether the reason itself names the files: then they need no list."""
    return all(seen.file in why for seen in sightings)


def _source(facts: "Facts") -> str:
    from syncd.operations.row_status import shown

    if not facts.source.asked:
        return facts.source.trouble
    if not facts.source.there:
        return "has no such row"
    cursor = facts.source.cursor
    return f"has it at {shown(cursor.values[0].plain)}" if cursor is not None and cursor.values else "has it"


def _target(facts: "Facts") -> str:
    target = facts.target
    if not target.asked:
        return target.trouble
    if not target.rows:
        return "has no such row"
    by = f", read by batch {target.batch}" if target.batch else ""
    gone = f", deleted since {target.deleted_at}" if target.deleted_at else ""
    many = f" {target.rows} versions" if target.rows > 1 else ""
    return f"has it{many}{by}{gone}"


def _fields(facts: "Facts", said: "Verdict") -> dict[str, Any]:
    source, target = facts.source, facts.target
    return {
        "table": facts.table,
        "key": dict(facts.key),
        "place": said.place,
        "why": said.why,
        "next": said.next or None,
        "mysql": {
            "asked": source.asked,
            "there": source.there if source.asked else None,
            "cursor": source.cursor.texts() if source.cursor is not None else None,
            "trouble": source.trouble or None,
        },
        "warehouse": {
            "asked": target.asked,
            "rows": target.rows if target.asked else None,
            "batch": str(target.batch) if target.batch else None,
            "deleted_at": target.deleted_at,
            "trouble": target.trouble or None,
        },
        "mark": facts.mark.texts(),
        "loaded": str(facts.half.last),
        "landed_at": facts.landed_at or None,
        "versions": [
            {
                "batch": str(seen.batch),
                "rank": str(seen.rank),
                "cursor": seen.cursor,
                "file": seen.file,
                "row": seen.row,
                "made_at": seen.made_at,
            }
            for seen in facts.sightings
        ],
        "quarantine": [
            {
                "batch": str(one.batch),
                "stage": one.stage,
                "reason": one.reason,
                "file": one.file,
                "replayed_by": str(one.replayed_by) if one.replayed_by else None,
            }
            for one in facts.refused
        ],
        "whole": facts.whole,
        "gone": facts.gone,
    }
