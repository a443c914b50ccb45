"""`syncd audit`: independent check of a table's whole chain of batches, from the lake alone."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import common_options, tables_option
from syncd.cli.output import error_to_json, show_json
from syncd.cli.stream_selection import SelectedStream, collect_from_streams, exit_with_result_errors
from syncd.error_classes import ExitCode
from syncd.observe.formatting import format_count

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.cli.stream_selection import StreamResult
    from syncd.operations.chain_audit import AuditResult


@click.command()
@tables_option
@click.option("--deep", is_flag=True, help="Read every file, and check its digest and its rows.")
@common_options
def audit(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Check every link, plan, file, window and history entry of a table, from the lake alone.

    Exit 7: an inconsistency was found. Exit 12: a watermark cannot be read.
    """
    results = collect_from_streams(options, partial(_audit_stream, deep=options["deep"]))
    if options["as_json"]:
        show_json({"deep": options["deep"], "streams": [_to_json(result) for result in results]})
    else:
        for result in results:
            if result.value is not None:
                _show(result.name, result.value, deep=options["deep"])
    doubts = (ExitCode.DOUBT for result in results if result.value is not None and result.value.findings)
    exit_with_result_errors(results, codes=doubts)


def _audit_stream(context: "OperatorContext", selected: SelectedStream, *, deep: bool) -> "AuditResult":
    from syncd.operations.chain_audit import Audit
    from syncd.operations.mark_change import require_known_stream

    read = None
    if deep:
        from syncd.s3.parquet_reader import read_content

        read = partial(read_content, context.lake)
    stream = selected.stream
    watermark = require_known_stream(context.journal.read_newest(stream.stem), stream)
    return Audit(stream=stream, journal=context.journal, lake=context.lake, read_content=read).run(watermark)


def _show(name: str, result: "AuditResult", *, deep: bool) -> None:
    from syncd.operations.chain_audit import CONSEQUENCE_BY_SUBJECT

    verdict = format_count(len(result.findings), "finding") if result.findings else "consistent"
    files = format_count(result.files, "file") + (f" ({result.cleaned:,} of them cleaned)" if result.cleaned else "")
    read = f", {result.contents_read:,} of them read" if deep else ""
    click.echo(
        f"{name}: {verdict}: {format_count(result.batches, 'batch')}, {format_count(result.plans, 'plan')},"
        f" {files}{read}, {result.entries:,} history entries"
    )
    for finding in result.findings:
        click.echo(f"  {finding.about}: {finding.message}")
        click.echo(f"    consequence: {CONSEQUENCE_BY_SUBJECT[finding.about]}")
        click.echo(f"    next: {finding.remedy}")


def _to_json(result: "StreamResult[AuditResult]") -> dict[str, Any]:
    from syncd.operations.chain_audit import CONSEQUENCE_BY_SUBJECT

    audited = result.value
    findings = audited.findings if audited else ()
    return result.selected.to_json() | {
        "consistent": audited is not None and not findings,
        "entries": audited.entries if audited else None,
        "batches": audited.batches if audited else None,
        "plans": audited.plans if audited else None,
        "files": audited.files if audited else None,
        "removed_files": audited.cleaned if audited else None,
        "files_read": audited.contents_read if audited else None,
        "findings": [
            {
                "subject": finding.about,
                "message": finding.message,
                "consequence": CONSEQUENCE_BY_SUBJECT[finding.about],
                "next_step": finding.remedy,
            }
            for finding in findings
        ],
        "error": error_to_json(result.error),
    }
