"""`syncd watermark import`: tables that somebody else loaded are compared, and taken over where they are equal."""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.instant import InstantType
from syncd.cli.output import print_message, show_json
from syncd.cli.stream_options import (
    SelectedStream,
    common_options,
    exit_with_worst,
    open_operator_context,
    report_error,
    require_confirmation,
    select_streams,
    table_options,
)
from syncd.cli.watermark.import_view import TableImport, import_to_json, show
from syncd.cli.watermark.options import consent_options
from watermarks.errors import HintedError
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.import_tables import ImportInspector, ImportRequest


@click.command("import")
@table_options
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
@consent_options
@common_options
def import_(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Take over tables that something else has loaded; no row is copied.

    The target is compared with the source up to its own last row, or up to where the earlier tool's document says it
    read; what can still change at the source is left out. Where both are equal, the marks are set there, and the next
    run reads what is newer. Where they differ, nothing is set, and the exit code is 7.
    """
    from syncd.app.operator_context import current_operator
    from syncd.app.preview import open_import_inspector
    from syncd.operations.import_tables import ImportRequest

    wait = _parse_wait(options["wait"])
    with open_operator_context(options["config"]) as desk:
        named = select_streams(desk, options["tables"], all_=options["all_"])
        _check_options(options, named)
        wish = ImportRequest(timestamp=options["timestamp"], key=options["key"])
        with open_import_inspector(desk, os.environ, horizon_wait=wait) as adopter:
            found = [_compare_table(desk, adopter, one, wish, options) for one in named]
        person = Operator(journal=desk.journal, author=current_operator(), reason=options["reason"])
        found = [_preview_import(desk, one, person) for one in found]
        if not options["as_json"]:
            for one in found:
                show(one)
        if not options["dry_run"]:
            found = _import_confirmed(found, person, yes=options["yes"])
    if options["as_json"]:
        says = {"dry_run": options["dry_run"], "who": person.author, "reason": person.reason}
        show_json({**says, "streams": [import_to_json(one) for one in found]})
    exit_with_worst([report_error(one.selected.name, one.error) for one in found if one.error is not None])


def _parse_wait(text: str) -> timedelta:
    from syncd.config.value_parsers import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--wait") from error


def _check_options(options: dict[str, Any], selected: Sequence[SelectedStream]) -> None:
    from syncd.operations.legacy_documents import is_document_address

    if len(selected) > 1 and options["place"] is not None and is_document_address(options["place"]):
        raise click.UsageError("--from names the document of one table: name one with -t, or a folder, with / behind")
    if len(selected) > 1 and options["key"]:
        raise click.UsageError("--id is a key of one table: name one with -t")


def _compare_table(
    context: "OperatorContext",
    adopter: "ImportInspector",
    selected: SelectedStream,
    wish: "ImportRequest",
    options: dict[str, Any],
) -> TableImport:
    """What was found of one table; what stands in the way stops no other one."""
    from syncd.operations.adoption_rules import require_equal
    from syncd.operations.legacy_documents import find_legacy_document

    adoption = TableImport(selected=selected)
    try:
        settings = selected.require_settings()
        if options["place"] is not None:
            inherited = find_legacy_document(context.lake, selected.stream, options["place"])
            adoption = replace(adoption, legacy_document=inherited)
            wish = replace(wish, inherited=inherited)
        if not options["as_json"]:
            print_message(f"{selected.name}: comparing both sides")
        found = adopter.inspect(settings, wish)
        adoption = replace(adoption, comparison=found)
        if not options["with_differences"]:
            require_equal(found, settings)
    except HintedError as error:
        return replace(adoption, error=error)
    return adoption


def _preview_import(context: "OperatorContext", table_import: TableImport, operator: Operator) -> TableImport:
    """What the change would be, where it may be made."""
    from syncd.operations.import_tables import takeover_from
    from syncd.operations.mark_change import preview_change

    if table_import.comparison is None or table_import.error is not None:
        return table_import
    takeover = takeover_from(table_import.comparison)
    stream = table_import.selected.stream
    try:
        seen = preview_change(
            context.journal, context.lake, stream, operator, lambda who: who.import_position(stream, takeover)
        )
    except HintedError as error:
        return replace(table_import, error=error)
    asked = context.query_source(table_import.selected.require_settings(), after=table_import.comparison.mark)
    return replace(table_import, preview=seen, rows=asked.rows_behind)


def _import_confirmed(table_imports: Sequence[TableImport], operator: Operator, *, yes: bool) -> list[TableImport]:
    """Take over what can be, where that is agreed to.

    Raises:
        Misuse: nobody is there to be asked.
        Abort: the answer is no.
    """
    wanted = [one for one in table_imports if one.is_importable]
    if wanted:
        require_confirmation(f"Take {'it' if len(wanted) == 1 else f'these {len(wanted)}'} over?", yes=yes)
    return [_import_table(one, operator) if one.is_importable else one for one in table_imports]


def _import_table(table_import: TableImport, operator: Operator) -> TableImport:
    """Take over one table, and say so."""
    from syncd.operations.import_tables import takeover_from
    from syncd.operations.mark_change import apply_change

    assert table_import.comparison
    assert table_import.preview
    takeover, stream = takeover_from(table_import.comparison), table_import.selected.stream
    try:
        state = apply_change(table_import.preview, operator, lambda who: who.import_position(stream, takeover))
    except HintedError as error:
        return replace(table_import, error=error)
    print_message(f"{table_import.selected.name}: taken over as revision {state.revision}")
    if not table_import.comparison.is_equal:
        count = table_import.comparison.comparison.counts.total()
        print_message(
            f"{table_import.selected.name}: {count:,} rows differ still: syncd verify -t {table_import.selected.name} --repair --yes"
        )
    return replace(table_import, written=state)
