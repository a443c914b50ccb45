"""`syncd s3clean`: what lies in the lake and is needed no more, shown and, when told to, removed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.exit_codes import Exit
from syncd.cli.output import say, show_json
from syncd.cli.stream_options import Named, chosen, common, leave, open_desk, told
from syncd.cli.views.s3clean_view import Looked, clean_fields, list_fields, show, show_removed
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk
    from syncd.operations.cleanup_rules import Why

Command = Callable[..., None]
AGE: Final = "7d"


@click.group()
def s3clean() -> None:
    """Show and remove what the lake holds and nobody needs any more."""


def _what(command: Command) -> Command:
    for option in (
        click.option(
            "--lake-only", is_flag=True, help="Believe the loaded marks, and do not ask the warehouse's ledger."
        ),
        click.option("--show-files", is_flag=True, help="List the files."),
        click.option(
            "--quarantined", is_flag=True, help="Files of quarantine whose rows were brought back and landed."
        ),
        click.option("--orphans", is_flag=True, help="Files that no batch names, and none ever will."),
        click.option("--loaded", is_flag=True, help="Files whose batch has landed in every target."),
        click.option("--older-than", default=AGE, show_default=True, metavar="AGE", help="Only files so old or older."),
        click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one."),
    ):
        command = option(command)
    return command


@s3clean.command("list")
@_what
@common
def list_(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """List what could be removed, and what stays and why; without a kind, all kinds."""
    with open_desk(words["config"], looks=True) as desk:
        looked = _looked(desk, words, _kinds(words, otherwise=("loaded", "orphan", "replayed")))
    if words["as_json"]:
        show_json(list_fields(looked, files=words["show_files"]))
    else:
        show(looked, files=words["show_files"])
    leave([told(one.named.name, one.error) for one in looked if one.error is not None])


@s3clean.command()
@click.option("--versions", is_flag=True, help="In a bucket that keeps versions: remove all versions of the files.")
@click.option("--yes", "--force", "yes", is_flag=True, help="Remove; without it nothing is.")
@click.option("--reason", default="", help="Why; it stays in the record of what was removed.")
@_what
@common
def clean(**words: Any) -> None:  # noqa: ANN401  # as above
    """Remove files; without a kind, those that have landed in every target. Without --yes only say what would go.

    What has landed and is removed cannot land again from its files: see `syncd watermark reset`.

    Exit 5: some could not be removed.
    """
    with open_desk(words["config"]) as desk:
        looked = _looked(desk, words, _kinds(words, otherwise=("loaded",)))
        versions = _versions(desk, looked)
        if not words["as_json"]:
            show(looked, files=words["show_files"])
        if words["yes"]:
            looked = [_cleaned(desk, one, words) for one in looked]
    if words["as_json"]:
        show_json(clean_fields(looked, versions, dry_run=not words["yes"], files=words["show_files"]))
    elif words["yes"]:
        show_removed(looked)
    _tell_versions(versions, words)
    if not words["yes"] and any(one.goes for one in looked):
        say("nothing was removed: say --yes")
    codes = [told(one.named.name, one.error) for one in looked if one.error is not None]
    leave([*codes, *(Exit.LAKE for one in looked if one.removed is not None and one.removed.failed)])


def _kinds(words: dict[str, Any], *, otherwise: Sequence[str]) -> "frozenset[Why]":
    from syncd.operations.cleanup_rules import Why

    named = {"loaded": words["loaded"], "orphan": words["orphans"], "replayed": words["quarantined"]}
    return frozenset(map(Why, [kind for kind, said in named.items() if said] or otherwise))


def _looked(desk: "Desk", words: dict[str, Any], wanted: "frozenset[Why]") -> list[Looked]:
    now = desk.clock.now()
    before = now - _age(words["older_than"])
    named = chosen(desk, words["tables"], all_=not words["tables"])
    return [_look(desk, one, wanted, now=now, before=before, asks=not words["lake_only"]) for one in named]


def _look(
    desk: "Desk", named: Named, wanted: "frozenset[Why]", *, now: datetime, before: datetime, asks: bool
) -> Looked:
    from syncd.operations.cleanup_preview import Look
    from syncd.operations.cleanup_rules import Why

    needs = asks and named.settings is not None and wanted & {Why.LOADED, Why.REPLAYED}
    try:
        books = desk.books(named.settings) if needs and named.settings is not None else None
        look = Look(stream=named.stream, journal=desk.journal, shelves=desk.lake, books=books)
        return Looked(named=named, proposal=look.proposal(wanted, now=now, before=before))
    except HintedError as error:
        return Looked(named=named, error=error)


def _cleaned(desk: "Desk", one: Looked, words: dict[str, Any]) -> Looked:
    from syncd.app.operator_context import who
    from syncd.operations.cleanup import Removal
    from syncd.s3.object_removal import LakeBin

    if one.proposal is None or not one.goes:
        return one
    why = words["reason"] or f"older than {words['older_than']}"
    removal = Removal(journal=desk.journal, bin=LakeBin(desk.lake), who=who(), why=why, versions=words["versions"])
    removed = removal.removed(one.proposal)
    return replace(one, removed=removed, error=removed.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What a bucket keeps of what is removed."""

    kept: bool | None
    """Whether it keeps versions at all; None where it does not say."""
    count: int | None = None
    """Versions of the files that may go; None where they were not counted."""


def _versions(desk: "Desk", looked: Sequence[Looked]) -> Versions:
    from syncd.errors import LakeUnfit
    from syncd.s3.object_removal import LakeBin

    keys = [file.key for one in looked for file in one.goes]
    if not keys:
        return Versions(kept=False, count=0)
    lakes = LakeBin(desk.lake)
    kept = lakes.keeps_versions()
    if not kept:
        return Versions(kept=kept)
    try:
        return Versions(kept=True, count=len(lakes.versions(keys)))
    except LakeUnfit:
        return Versions(kept=True)


def _tell_versions(versions: Versions, words: dict[str, Any]) -> None:
    if versions.kept is None:
        say("whether the bucket keeps versions of what is removed, it does not say: allow s3:GetBucketVersioning")
    elif versions.kept and not words["versions"]:
        many = "their versions stay" if versions.count is None else f"{versions.count:,} versions of these files stay"
        say(f"the bucket keeps versions: {many}, and are billed; --versions removes them too, for ever")


def _age(text: str) -> timedelta:
    from syncd.config.value_parsers import duration

    try:
        return duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--older-than") from error
