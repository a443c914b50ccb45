"""`syncd watermark import`: tables that somebody else loaded are compared, and taken over where they are equal."""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.instant import InstantType
from syncd.cli.output import say, show_json
from syncd.cli.stream_options import Named, agreed, chosen, common, leave, open_desk, tables, told
from syncd.cli.watermark.import_view import Adoption, fields, show
from syncd.cli.watermark.options import consent
from watermarks.errors import HintedError
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk
    from syncd.operations.import_tables import Adopter, Wish


@click.command("import")
@tables
@click.option(
    "--from",
    "place",
    metavar="PLACE",
    help="A document of s3-redshift-backup-tool, or a folder of them: a file, s3://BUCKET/KEY, s3://BUCKET/watermarks/.",
)
@click.option("--timestamp", type=InstantType(), help="Stand before the first row of this instant, or lower.")
@click.option(
    "--id",
    "--key",
    "key",
    multiple=True,
    metavar="VALUE",
    help="Stand at this key, or lower; again for each column.",
)
@click.option("--with-differences", is_flag=True, help="Take it over although rows differ: they are to be repaired.")
@click.option("--wait", default="60s", show_default=True, help="How long to wait for old transactions at the source.")
@consent
@common
def import_(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Take over tables that something else has loaded; no row is copied.

    The target is compared with the source up to its own last row, or up to where the earlier tool's document says it
    read; what can still change at the source is left out. Where both are equal, the marks are set there, and the next
    run reads what is newer. Where they differ, nothing is set, and the exit code is 7.
    """
    from syncd.app.operator_context import who
    from syncd.operations.import_tables import Adopter, Wish

    wait = _wait(words["wait"])
    with open_desk(words["config"]) as desk:
        named = chosen(desk, words["tables"], all_=words["all_"])
        _require_sense(words, named)
        wish = Wish(timestamp=words["timestamp"], key=words["key"])
        with Adopter(desk, environ=os.environ, wait=wait) as adopter:
            found = [_looked(desk, adopter, one, wish, words) for one in named]
        person = Operator(journal=desk.journal, who=who(), why=words["reason"])
        found = [_previewed(desk, one, person) for one in found]
        if not words["as_json"]:
            for one in found:
                show(one)
        if not words["dry_run"]:
            found = _made(found, person, yes=words["yes"])
    if words["as_json"]:
        says = {"dry_run": words["dry_run"], "who": person.who, "reason": person.why}
        show_json({**says, "streams": [fields(one) for one in found]})
    leave([told(one.named.name, one.error) for one in found if one.error is not None])


def _wait(text: str) -> timedelta:
    from syncd.config.value_parsers import duration

    try:
        return duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--wait") from error


def _require_sense(words: dict[str, Any], named: Sequence[Named]) -> None:
    from syncd.operations.legacy_documents import is_one

    if len(named) > 1 and words["place"] is not None and is_one(words["place"]):
        raise click.UsageError("--from names the document of one table: name one with -t, or a folder, with / behind")
    if len(named) > 1 and words["key"]:
        raise click.UsageError("--id is a key of one table: name one with -t")


def _looked(desk: "Desk", adopter: "Adopter", one: Named, wish: "Wish", words: dict[str, Any]) -> Adoption:
    """What was found of one table; what stands in the way stops no other one."""
    from syncd.operations.adoption_rules import require_equal
    from syncd.operations.legacy_documents import inherited_by

    adoption = Adoption(named=one)
    try:
        settings = one.required()
        if words["place"] is not None:
            inherited = inherited_by(desk, one.stream, words["place"])
            adoption = replace(adoption, inherited=inherited)
            wish = replace(wish, inherited=inherited)
        if not words["as_json"]:
            say(f"{one.name}: comparing both sides")
        found = adopter.look(settings, wish)
        adoption = replace(adoption, found=found)
        if not words["with_differences"]:
            require_equal(found, settings)
    except HintedError as error:
        return replace(adoption, error=error)
    return adoption


def _previewed(desk: "Desk", one: Adoption, person: Operator) -> Adoption:
    """What the change would be, where it may be made."""
    from syncd.operations.import_tables import takeover_of
    from syncd.operations.mark_change import preview

    if one.found is None or one.error is not None:
        return one
    takeover = takeover_of(one.found)
    stream = one.named.stream
    try:
        seen = preview(desk.journal, desk.lake, stream, person, lambda who: who.take_over(stream, takeover))
    except HintedError as error:
        return replace(one, error=error)
    asked = desk.asked(one.named.required(), behind=one.found.mark)
    return replace(one, seen=seen, rows=asked.rows)


def _made(found: Sequence[Adoption], person: Operator, *, yes: bool) -> list[Adoption]:
    """Take over what can be, where that is agreed to.

    Raises:
        Misuse: nobody is there to be asked.
        Abort: the answer is no.
    """
    wanted = [one for one in found if one.is_open]
    if wanted:
        agreed(f"Take {'it' if len(wanted) == 1 else f'these {len(wanted)}'} over?", yes=yes)
    return [_taken_over(one, person) if one.is_open else one for one in found]


def _taken_over(one: Adoption, person: Operator) -> Adoption:
    """Take over one table, and say so."""
    from syncd.operations.import_tables import takeover_of
    from syncd.operations.mark_change import done

    assert one.found
    assert one.seen
    takeover, stream = takeover_of(one.found), one.named.stream
    try:
        state = done(one.seen, person, lambda who: who.take_over(stream, takeover))
    except HintedError as error:
        return replace(one, error=error)
    say(f"{one.named.name}: taken over as revision {state.revision}")
    if not one.found.equal:
        count = one.found.verdict.counts.total()
        say(f"{one.named.name}: {count:,} rows differ still: syncd verify -t {one.named.name} --repair --yes")
    return replace(one, made=state)
