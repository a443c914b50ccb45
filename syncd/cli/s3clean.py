"""`syncd s3clean`: what lies in the lake and is needed no more, shown and, when told to, removed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.output import print_message, show_json
from syncd.cli.stream_options import (
    SelectedStream,
    common_options,
    exit_with_worst,
    open_operator_context,
    report_error,
    select_streams,
)
from syncd.cli.views.s3clean_view import CleanupOutcome, clean_to_json, list_to_json, show, show_removed
from syncd.error_classes import ExitCode
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.cleanup_rules import RemovalReason

Command = Callable[..., None]
DEFAULT_MINIMUM_AGE: Final = "7d"


@click.group()
def s3clean() -> None:
    """Show and remove what the lake holds and nobody needs any more."""


def _selection_options(command: Command) -> Command:
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
        click.option(
            "--older-than",
            default=DEFAULT_MINIMUM_AGE,
            show_default=True,
            metavar="AGE",
            help="Only files so old or older.",
        ),
        click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one."),
    ):
        command = option(command)
    return command


@s3clean.command("list")
@_selection_options
@common_options
def list_(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """List what could be removed, and what stays and why; without a kind, all kinds."""
    with open_operator_context(options["config"], read_only=True) as desk:
        looked = _propose_all(desk, options, _selected_kinds(options, default=("loaded", "orphan", "replayed")))
    if options["as_json"]:
        show_json(list_to_json(looked, files=options["show_files"]))
    else:
        show(looked, files=options["show_files"])
    exit_with_worst([report_error(one.selected.name, one.error) for one in looked if one.error is not None])


@s3clean.command()
@click.option("--versions", is_flag=True, help="In a bucket that keeps versions: remove all versions of the files.")
@click.option("--yes", "--force", "yes", is_flag=True, help="Remove; without it nothing is.")
@click.option("--reason", default="", help="Why; it stays in the record of what was removed.")
@_selection_options
@common_options
def clean(**options: Any) -> None:  # noqa: ANN401  # as above
    """Remove files; without a kind, those that have landed in every target. Without --yes only say what would go.

    What has landed and is removed cannot land again from its files: see `syncd watermark reset`.

    Exit 5: some could not be removed.
    """
    with open_operator_context(options["config"]) as desk:
        looked = _propose_all(desk, options, _selected_kinds(options, default=("loaded",)))
        versions = _count_versions(desk, looked)
        if not options["as_json"]:
            show(looked, files=options["show_files"])
        if options["yes"]:
            looked = [_clean_stream(desk, one, options) for one in looked]
    if options["as_json"]:
        show_json(clean_to_json(looked, versions, dry_run=not options["yes"], files=options["show_files"]))
    elif options["yes"]:
        show_removed(looked)
    _report_versions(versions, options)
    if not options["yes"] and any(one.removable for one in looked):
        print_message("nothing was removed: say --yes")
    codes = [report_error(one.selected.name, one.error) for one in looked if one.error is not None]
    exit_with_worst([*codes, *(ExitCode.LAKE for one in looked if one.removed is not None and one.removed.failed)])


def _selected_kinds(options: dict[str, Any], *, default: Sequence[str]) -> "frozenset[RemovalReason]":
    from syncd.operations.cleanup_rules import RemovalReason

    named = {"loaded": options["loaded"], "orphan": options["orphans"], "replayed": options["quarantined"]}
    return frozenset(map(RemovalReason, [kind for kind, said in named.items() if said] or default))


def _propose_all(
    context: "OperatorContext", options: dict[str, Any], wanted: "frozenset[RemovalReason]"
) -> list[CleanupOutcome]:
    now = context.clock.now()
    before = now - _parse_age(options["older_than"])
    named = select_streams(context, options["tables"], all_=not options["tables"])
    return [
        _propose_stream(context, one, wanted, now=now, before=before, ask_warehouse=not options["lake_only"])
        for one in named
    ]


def _propose_stream(
    context: "OperatorContext",
    selected: SelectedStream,
    wanted: "frozenset[RemovalReason]",
    *,
    now: datetime,
    before: datetime,
    ask_warehouse: bool,
) -> CleanupOutcome:
    from syncd.operations.cleanup_preview import CleaningSearch
    from syncd.operations.cleanup_rules import RemovalReason

    needs = ask_warehouse and selected.settings is not None and wanted & {RemovalReason.LOADED, RemovalReason.REPLAYED}
    try:
        books = context.ledger_reader(selected.settings) if needs and selected.settings is not None else None
        look = CleaningSearch(stream=selected.stream, journal=context.journal, lake=context.lake, ledger=books)
        return CleanupOutcome(selected=selected, proposal=look.propose(wanted, now=now, before=before))
    except HintedError as error:
        return CleanupOutcome(selected=selected, error=error)


def _clean_stream(context: "OperatorContext", outcome: CleanupOutcome, options: dict[str, Any]) -> CleanupOutcome:
    from syncd.app.operator_context import current_operator
    from syncd.operations.cleanup import FileRemoval
    from syncd.s3.object_removal import LakeRemover

    if outcome.proposal is None or not outcome.removable:
        return outcome
    why = options["reason"] or f"older than {options['older_than']}"
    removal = FileRemoval(
        journal=context.journal,
        remover=LakeRemover(context.lake),
        operator=current_operator(),
        reason=why,
        include_versions=options["versions"],
    )
    removed = removal.run(outcome.proposal)
    return replace(outcome, removed=removed, error=removed.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketVersions:
    """What a bucket keeps of what is removed."""

    keeps_versions: bool | None
    """Whether it keeps versions at all; None where it does not say."""
    count: int | None = None
    """Versions of the files that may go; None where they were not counted."""


def _count_versions(context: "OperatorContext", outcomes: Sequence[CleanupOutcome]) -> BucketVersions:
    from syncd.errors import LakeUnfit
    from syncd.s3.object_removal import LakeRemover

    keys = [file.key for one in outcomes for file in one.removable]
    if not keys:
        return BucketVersions(keeps_versions=False, count=0)
    lakes = LakeRemover(context.lake)
    kept = lakes.keeps_versions()
    if not kept:
        return BucketVersions(keeps_versions=kept)
    try:
        return BucketVersions(keeps_versions=True, count=len(lakes.versions(keys)))
    except LakeUnfit:
        return BucketVersions(keeps_versions=True)


def _report_versions(versions: BucketVersions, options: dict[str, Any]) -> None:
    if versions.keeps_versions is None:
        print_message(
            "whether the bucket keeps versions of what is removed, it does not say: allow s3:GetBucketVersioning"
        )
    elif versions.keeps_versions and not options["versions"]:
        many = "their versions stay" if versions.count is None else f"{versions.count:,} versions of these files stay"
        print_message(f"the bucket keeps versions: {many}, and are billed; --versions removes them too, for ever")


def _parse_age(text: str) -> timedelta:
    from syncd.config.value_parsers import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--older-than") from error
