"""`syncd audit`: an outsider's check of the whole chain, from the lake alone."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import show_json
from syncd.cli.stream_options import (
    SelectedStream,
    common_options,
    error_to_json,
    exit_with_worst,
    open_operator_context,
    report_error,
    select_streams,
)
from syncd.error_classes import ExitCode
from syncd.observe.formatting import format_count
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.chain_audit import AuditResult
    from syncd.operations.consistency_check import Inconsistency


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOutcome:
    """One stream that was audited, or why it could not be."""

    selected: SelectedStream
    audited: "AuditResult | None" = None
    error: HintedError | None = None

    @property
    def findings(self) -> "tuple[Inconsistency, ...]":
        return self.audited.findings if self.audited else ()


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one.")
@click.option("--deep", is_flag=True, help="Read every file: the digest of its content, and its rows.")
@common_options
def audit(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Check every link, plan, file, window and entry of history of a table, from the lake alone.

    Exit 7: something was found. Exit 12: a watermark cannot be read.
    """
    with open_operator_context(options["config"], read_only=True) as desk:
        named = select_streams(desk, options["tables"], all_=not options["tables"])
        looked = [_audit_stream(desk, one, deep=options["deep"]) for one in named]
    if options["as_json"]:
        show_json({"deep": options["deep"], "streams": [_to_json(one) for one in looked]})
    else:
        for one in looked:
            _show(one, deep=options["deep"])
    codes = [report_error(one.selected.name, one.error) for one in looked if one.error is not None]
    exit_with_worst([*codes, *(ExitCode.DOUBT for one in looked if one.findings)])


def _audit_stream(context: "OperatorContext", selected: SelectedStream, *, deep: bool) -> AuditOutcome:
    from syncd.operations.chain_audit import Audit
    from syncd.operations.mark_change import require_known_stream

    read = None
    if deep:
        from syncd.s3.parquet_reader import read_content

        read = partial(read_content, context.lake)
    try:
        state = require_known_stream(context.journal.read_newest(selected.stream.stem), selected.stream)
        audit_ = Audit(stream=selected.stream, journal=context.journal, lake=context.lake, read_content=read)
        return AuditOutcome(selected=selected, audited=audit_.run(state))
    except HintedError as error:
        return AuditOutcome(selected=selected, error=error)


def _show(outcome: AuditOutcome, *, deep: bool) -> None:
    from syncd.operations.chain_audit import CONSEQUENCE_BY_SUBJECT

    if outcome.audited is None:
        return
    seen = outcome.audited
    verdict = f"{len(seen.findings)} found" if seen.findings else "whole"
    files = format_count(seen.files, "file") + (f" ({seen.cleaned:,} of them cleaned)" if seen.cleaned else "")
    read = f", {seen.contents_read:,} of them read" if deep else ""
    click.echo(
        f"{outcome.selected.name}: {verdict}: {format_count(seen.batches, 'batch')}, {format_count(seen.plans, 'plan')}, {files}{read},"
        f" {seen.entries:,} entries of history"
    )
    for finding in seen.findings:
        click.echo(f"  {finding.about}: {finding.message}")
        click.echo(f"    so: {CONSEQUENCE_BY_SUBJECT[finding.about]}")
        click.echo(f"    next: {finding.remedy}")


def _to_json(outcome: AuditOutcome) -> dict[str, Any]:
    from syncd.operations.chain_audit import CONSEQUENCE_BY_SUBJECT

    seen = outcome.audited
    return {
        "table": outcome.selected.name,
        "source": outcome.selected.stream.source,
        "whole": seen is not None and not seen.findings,
        "entries": seen.entries if seen else None,
        "batches": seen.batches if seen else None,
        "plans": seen.plans if seen else None,
        "files": seen.files if seen else None,
        "cleaned": seen.cleaned if seen else None,
        "read": seen.contents_read if seen else None,
        "findings": [
            {
                "about": each.about,
                "message": each.message,
                "consequence": CONSEQUENCE_BY_SUBJECT[each.about],
                "next": each.remedy,
            }
            for each in outcome.findings
        ],
        "error": error_to_json(outcome.error),
    }
