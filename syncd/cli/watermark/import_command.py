"""`syncd watermark import`: takeover of tables that another tool loaded, where both sides are equal."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import InstantType, common_options, consent_options, selection_options, wait_option
from syncd.cli.output import print_message, show_json
from syncd.cli.stream_selection import (
    SelectedStream,
    exit_with_errors,
    open_operator_context,
    require_confirmation,
    select_streams,
)
from syncd.cli.watermark.import_view import TableImport, import_to_json, show
from syncd.observe.formatting import format_count
from watermarks.errors import HintedError
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.import_tables import ImportInspector, ImportRequest


@click.command("import")
@selection_options
@click.option(
    "--from",
    "place",
    metavar="PLACE",
    help="A document of s3-redshift-backup-tool, or a folder of them: a file, s3://BUCKET/KEY, s3://BUCKET/watermarks/.",
)
@click.option("--timestamp", type=InstantType(), help="Upper limit of the marks: before the first row of this instant.")
@click.option(
    "--id",
    "--key",
    "key",
    multiple=True,
    metavar="VALUE",
    help="Upper limit of the marks: this key; repeat the option for each column of the key.",
)
@click.option("--with-differences", is_flag=True, help="Import the table although rows differ, to repair them later.")
@wait_option("60s", "How long to wait for old transactions at the source.")
@consent_options
@common_options
def import_(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Take over tables that another tool has loaded, without copying a row.

    Compares the target with the source up to the last row of the target, or up to the position in the document of the
    earlier tool, without the rows that can still change at the source. If both sides are equal, sets the marks there,
    and the next run reads newer rows. If they differ, sets nothing, and exits with 7.
    """
    from syncd.app.dry_run import open_import_inspector
    from syncd.app.operator_context import current_operator
    from syncd.operations.import_tables import ImportRequest

    with open_operator_context(options["config"]) as context:
        selected = select_streams(context.settings, options["tables"], all_=options["all_"])
        _check_options(options, selected)
        request = ImportRequest(timestamp=options["timestamp"], key=options["key"])
        with open_import_inspector(context, os.environ, horizon_wait=options["wait"]) as inspector:
            imports = [_compare_table(context, inspector, one, request, options) for one in selected]
        operator = Operator(journal=context.journal, author=current_operator(), reason=options["reason"])
        imports = [_preview_import(context, one, operator) for one in imports]
        if not options["as_json"]:
            for one in imports:
                show(one)
        if not options["dry_run"]:
            imports = _import_confirmed(imports, operator, yes=options["yes"])
    if options["as_json"]:
        fields = {"dry_run": options["dry_run"], "author": operator.author, "reason": operator.reason}
        show_json({**fields, "streams": [import_to_json(one) for one in imports]})
    exit_with_errors((one.selected.name, one.error) for one in imports)


def _check_options(options: dict[str, Any], selected: Sequence[SelectedStream]) -> None:
    from syncd.operations.legacy_documents import is_document_address

    if len(selected) > 1 and options["place"] is not None and is_document_address(options["place"]):
        raise click.UsageError(
            "--from names the document of one table: name the table with -t, or a folder ending in /"
        )
    if len(selected) > 1 and options["key"]:
        raise click.UsageError("--id is a key of one table: name the table with -t")


def _compare_table(
    context: "OperatorContext",
    inspector: "ImportInspector",
    selected: SelectedStream,
    request: "ImportRequest",
    options: dict[str, Any],
) -> TableImport:
    """Compare one table, and keep its error, so that the others are still compared."""
    from syncd.operations.adoption_rules import require_equal
    from syncd.operations.legacy_documents import find_legacy_document

    table_import = TableImport(selected=selected)
    try:
        settings = selected.require_settings()
        if options["place"] is not None:
            document = find_legacy_document(context.lake, selected.stream, options["place"])
            table_import = replace(table_import, legacy_document=document)
            request = replace(request, inherited=document)
        if not options["as_json"]:
            print_message(f"{selected.name}: comparing both sides")
        comparison = inspector.inspect(settings, request)
        table_import = replace(table_import, comparison=comparison)
        if not options["with_differences"]:
            require_equal(comparison, settings)
    except HintedError as error:
        return replace(table_import, error=error)
    return table_import


def _preview_import(context: "OperatorContext", table_import: TableImport, operator: Operator) -> TableImport:
    """Add the preview of the change, where the table can be taken over."""
    from syncd.operations.import_tables import takeover_from
    from syncd.operations.mark_change import preview_change

    if table_import.comparison is None or table_import.error is not None:
        return table_import
    takeover, stream = takeover_from(table_import.comparison), table_import.selected.stream
    try:
        preview = preview_change(
            context.journal, context.lake, stream, operator, lambda who: who.import_position(stream, takeover)
        )
    except HintedError as error:
        return replace(table_import, error=error)
    answer = context.query_source(table_import.selected.require_settings(), after=table_import.comparison.mark)
    return replace(table_import, preview=preview, rows=answer.rows_behind)


def _import_confirmed(table_imports: Sequence[TableImport], operator: Operator, *, yes: bool) -> list[TableImport]:
    """Take over the tables that are ready, once the operator confirms.

    Raises:
        Misuse: there is no terminal to ask, and `--yes` is not given.
        Abort: the answer is no.
    """
    ready = [one for one in table_imports if one.is_importable]
    if ready:
        subject = "this table" if len(ready) == 1 else f"these {len(ready)} tables"
        require_confirmation(f"Take over {subject}?", yes=yes)
    return [_import_table(one, operator) if one.is_importable else one for one in table_imports]


def _import_table(table_import: TableImport, operator: Operator) -> TableImport:
    from syncd.operations.import_tables import takeover_from
    from syncd.operations.mark_change import apply_change

    assert table_import.comparison
    assert table_import.preview
    takeover, stream = takeover_from(table_import.comparison), table_import.selected.stream
    try:
        written = apply_change(table_import.preview, operator, lambda who: who.import_position(stream, takeover))
    except HintedError as error:
        return replace(table_import, error=error)
    name = table_import.selected.name
    print_message(f"{name}: taken over as revision {written.revision}")
    if not table_import.comparison.is_equal:
        rows = format_count(table_import.comparison.comparison.counts.total(), "row")
        print_message(f"{name}: {rows} still to repair: syncd verify -t {name} --repair --yes")
    return replace(table_import, written=written)
