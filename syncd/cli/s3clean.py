"""`syncd s3clean`: list and remove files of the lake that are no longer needed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.option_types import Command, DurationType, common_options, tables_option
from syncd.cli.output import print_message, show_json
from syncd.cli.stream_selection import (
    SelectedStream,
    StreamResult,
    collect_result,
    exit_with_result_errors,
    open_operator_context,
    select_streams,
)
from syncd.cli.views.formats import format_duration
from syncd.cli.views.s3clean_view import BucketVersions, Cleanup, clean_to_json, list_to_json, show, show_removed
from syncd.error_classes import ExitCode

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.cleanup_rules import RemovalReason

DEFAULT_MINIMUM_AGE: Final = "7d"


@click.group()
def s3clean() -> None:
    """List and remove files of the lake that are no longer needed."""


def _file_options(command: Command) -> Command:
    for option in (
        click.option(
            "--lake-only", is_flag=True, help="Trust the loaded marks, without reading the warehouse's ledger."
        ),
        click.option("--show-files", is_flag=True, help="List the files."),
        click.option("--quarantined", is_flag=True, help="Files of quarantined rows that were replayed and loaded."),
        click.option(
            "--orphans", is_flag=True, help="Files that belong to no batch: leftovers of interrupted attempts."
        ),
        click.option("--loaded", is_flag=True, help="Files of batches that are loaded into every target."),
        click.option(
            "--older-than",
            type=DurationType(),
            default=DEFAULT_MINIMUM_AGE,
            show_default=True,
            metavar="AGE",
            help="Only files of at least this age.",
        ),
        tables_option,
    ):
        command = option(command)
    return command


@s3clean.command("list")
@_file_options
@common_options
def list_(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """List the files that can be removed, and the reasons why others stay. Default: all kinds of files."""
    with open_operator_context(options["config"], read_only=True) as context:
        results = _propose_all(context, options, default=("loaded", "orphan", "replayed"))
    if options["as_json"]:
        show_json(list_to_json(results, files=options["show_files"]))
    else:
        show(results, files=options["show_files"])
    exit_with_result_errors(results)


@s3clean.command()
@click.option("--versions", is_flag=True, help="Also remove all object versions of the files.")
@click.option("--yes", "--force", "yes", is_flag=True, help="Remove the files; without it, nothing is removed.")
@click.option("--reason", default="", help="Reason of the removal, kept in the record of removed files.")
@_file_options
@common_options
def clean(**options: Any) -> None:  # noqa: ANN401  # as above
    """Remove files, by default those loaded into every target. Without --yes only show what would be removed.

    Removed files cannot be loaded again: see `syncd watermark reset`.

    Exit 5: some files could not be removed.
    """
    with open_operator_context(options["config"]) as context:
        results = _propose_all(context, options, default=("loaded",))
        versions = _count_versions(context, results)
        if not options["as_json"]:
            show(results, files=options["show_files"])
        if options["yes"]:
            results = [_clean_stream(context, result, options) for result in results]
    if options["as_json"]:
        show_json(clean_to_json(results, versions, dry_run=not options["yes"], files=options["show_files"]))
    elif options["yes"]:
        show_removed(results)
    _report_versions(versions, options)
    if not options["yes"] and any(result.value and result.value.removable for result in results):
        print_message("nothing was removed: to remove the files, add --yes")
    failed = [result for result in results if result.value and result.value.removed and result.value.removed.failed]
    exit_with_result_errors(results, codes=[ExitCode.LAKE] * bool(failed))


def _propose_all(
    context: "OperatorContext", options: dict[str, Any], *, default: Sequence[str]
) -> list[StreamResult[Cleanup]]:
    from syncd.operations.cleanup_rules import RemovalReason

    flags = {"loaded": options["loaded"], "orphan": options["orphans"], "replayed": options["quarantined"]}
    kinds = frozenset(map(RemovalReason, [kind for kind, is_set in flags.items() if is_set] or default))
    now = context.clock.now()
    propose = partial(
        _propose_stream,
        context,
        kinds=kinds,
        now=now,
        before=now - options["older_than"],
        ask_warehouse=not options["lake_only"],
    )
    selected = select_streams(context.settings, options["tables"], all_=not options["tables"])
    return [collect_result(one, propose) for one in selected]


def _propose_stream(
    context: "OperatorContext",
    selected: SelectedStream,
    *,
    kinds: "frozenset[RemovalReason]",
    now: datetime,
    before: datetime,
    ask_warehouse: bool,
) -> Cleanup:
    from syncd.operations.cleanup_preview import CleaningSearch
    from syncd.operations.cleanup_rules import RemovalReason

    needs_ledger = ask_warehouse and kinds & {RemovalReason.LOADED, RemovalReason.REPLAYED}
    ledger = context.ledger_reader(selected.settings) if needs_ledger and selected.settings is not None else None
    search = CleaningSearch(stream=selected.stream, journal=context.journal, lake=context.lake, ledger=ledger)
    return Cleanup(proposal=search.propose(kinds, now=now, before=before))


def _clean_stream(
    context: "OperatorContext", result: StreamResult[Cleanup], options: dict[str, Any]
) -> StreamResult[Cleanup]:
    from syncd.app.operator_context import current_operator
    from syncd.operations.cleanup import FileRemoval
    from syncd.s3.object_removal import LakeRemover

    if result.value is None or not result.value.removable:
        return result
    removal = FileRemoval(
        journal=context.journal,
        remover=LakeRemover(context.lake),
        operator=current_operator(),
        reason=options["reason"] or f"older than {format_duration(options['older_than'])}",
        include_versions=options["versions"],
    )
    removed = removal.run(result.value.proposal)
    return replace(result, value=replace(result.value, removed=removed), error=removed.error)


def _count_versions(context: "OperatorContext", results: Sequence[StreamResult[Cleanup]]) -> BucketVersions:
    from syncd.errors import LakeUnfit
    from syncd.s3.object_removal import LakeRemover

    keys = [file.key for result in results if result.value for file in result.value.removable]
    if not keys:
        return BucketVersions(keeps_versions=False, count=0)
    remover = LakeRemover(context.lake)
    keeps_versions = remover.keeps_versions()
    if not keeps_versions:
        return BucketVersions(keeps_versions=keeps_versions)
    try:
        return BucketVersions(keeps_versions=True, count=len(remover.versions(keys)))
    except LakeUnfit:
        return BucketVersions(keeps_versions=True)


def _report_versions(versions: BucketVersions, options: dict[str, Any]) -> None:
    if versions.keeps_versions is None:
        print_message("whether the bucket keeps versions of removed objects is unknown: allow s3:GetBucketVersioning")
    elif versions.keeps_versions and not options["versions"]:
        count = "versions" if versions.count is None else f"{versions.count:,} versions"
        print_message(
            f"the bucket keeps {count} of these files, which are billed; to remove them permanently, add --versions"
        )
