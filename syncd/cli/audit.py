"""`syncd audit`: an outsider's check of the whole chain, from the lake alone."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.exit_codes import Exit
from syncd.cli.output import show_json
from syncd.cli.stream_options import Named, chosen, common, error_fields, leave, open_desk, told
from syncd.observe.event_text import counted
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk
    from syncd.operations.chain_audit import Audited
    from syncd.operations.consistency_check import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One stream that was audited, or why it could not be."""

    named: Named
    audited: "Audited | None" = None
    error: HintedError | None = None

    @property
    def findings(self) -> "tuple[Finding, ...]":
        return self.audited.findings if self.audited else ()


@click.command()
@click.option("-t", "--table", "tables", multiple=True, metavar="TABLE", help="A table; default: every one.")
@click.option("--deep", is_flag=True, help="Read every file: the digest of its content, and its rows.")
@common
def audit(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Check every link, plan, file, window and entry of history of a table, from the lake alone.

    Exit 7: something was found. Exit 12: a watermark cannot be read.
    """
    with open_desk(words["config"], looks=True) as desk:
        named = chosen(desk, words["tables"], all_=not words["tables"])
        looked = [_look(desk, one, deep=words["deep"]) for one in named]
    if words["as_json"]:
        show_json({"deep": words["deep"], "streams": [_fields(one) for one in looked]})
    else:
        for one in looked:
            _show(one, deep=words["deep"])
    codes = [told(one.named.name, one.error) for one in looked if one.error is not None]
    leave([*codes, *(Exit.DOUBT for one in looked if one.findings)])


def _look(desk: "Desk", named: Named, *, deep: bool) -> Looked:
    from syncd.operations.chain_audit import Audit
    from syncd.operations.mark_change import require_run

    depth = None
    if deep:
        from syncd.s3.content_check import LakeDepth

        depth = LakeDepth(desk.lake)
    try:
        state = require_run(desk.journal.newest(named.stream.stem), named.stream)
        audit_ = Audit(stream=named.stream, journal=desk.journal, shelf=desk.lake, depth=depth)
        return Looked(named=named, audited=audit_.audited(state))
    except HintedError as error:
        return Looked(named=named, error=error)


def _show(one: Looked, *, deep: bool) -> None:
    from syncd.operations.chain_audit import CONSEQUENCES

    if one.audited is None:
        return
    seen = one.audited
    verdict = f"{len(seen.findings)} found" if seen.findings else "whole"
    files = counted(seen.files, "file") + (f" ({seen.cleaned:,} of them cleaned)" if seen.cleaned else "")
    read = f", {seen.read:,} of them read" if deep else ""
    click.echo(
        f"{one.named.name}: {verdict}: {counted(seen.batches, 'batch')}, {counted(seen.plans, 'plan')}, {files}{read},"
        f" {seen.entries:,} entries of history"
    )
    for finding in seen.findings:
        click.echo(f"  {finding.about}: {finding.message}")
        click.echo(f"    so: {CONSEQUENCES[finding.about]}")
        click.echo(f"    next: {finding.next}")


def _fields(one: Looked) -> dict[str, Any]:
    from syncd.operations.chain_audit import CONSEQUENCES

    seen = one.audited
    return {
        "table": one.named.name,
        "source": one.named.stream.source,
        "whole": seen is not None and not seen.findings,
        "entries": seen.entries if seen else None,
        "batches": seen.batches if seen else None,
        "plans": seen.plans if seen else None,
        "files": seen.files if seen else None,
        "cleaned": seen.cleaned if seen else None,
        "read": seen.read if seen else None,
        "findings": [
            {
                "about": each.about,
                "message": each.message,
                "consequence": CONSEQUENCES[each.about],
                "next": each.next,
            }
            for each in one.findings
        ],
        "error": error_fields(one.error),
    }
