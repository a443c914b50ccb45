"""`syncd watermark check | rebuild`: whether everything agrees, and what is made anew from what proves it."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.exit_codes import Exit
from syncd.cli.output import say, show_json
from syncd.cli.stream_options import Named, chosen, common, error_fields, leave, open_desk, tables, told
from syncd.cli.views.mark_format import marks
from syncd.cli.watermark.options import consent
from syncd.observe.event_text import counted
from watermarks.document import Watermark
from watermarks.errors import HintedError
from watermarks.history import Journal
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk
    from syncd.operations.consistency_check import Checked, Finding
    from syncd.operations.watermark_rebuild import FromHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One stream that was checked, or why it could not be."""

    named: Named
    checked: "Checked | None" = None
    error: HintedError | None = None

    @property
    def findings(self) -> "tuple[Finding, ...]":
        return self.checked.findings if self.checked else ()


@click.command()
@tables
@click.option("--full", is_flag=True, help="Look at every entry and batch, not only at the newest 1,000.")
@click.option("--lake-only", is_flag=True, help="Do not ask the warehouse.")
@common
def check(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Compare marks, history, manifests, files, ledger and target; nothing is changed.

    Exit 7: something does not agree. Exit 12: a watermark cannot be read.
    """
    with open_desk(words["config"]) as desk:
        named = chosen(desk, words["tables"], all_=words["all_"])
        looked = [_checked(desk, one, full=words["full"], warehouse=not words["lake_only"]) for one in named]
    if words["as_json"]:
        show_json({"streams": [_check_fields(one) for one in looked]})
    else:
        for one in looked:
            _show_check(one)
    codes = [told(one.named.name, one.error) for one in looked if one.error is not None]
    leave([*codes, *(Exit.DOUBT for one in looked if one.findings)])


def _checked(desk: "Desk", named: Named, *, full: bool, warehouse: bool) -> Looked:
    from syncd.operations.consistency_check import Check
    from syncd.operations.mark_change import require_run

    try:
        state = require_run(desk.journal.newest(named.stream.stem), named.stream)
        books = desk.books(named.settings) if warehouse and named.settings is not None else None
        checking = Check(stream=named.stream, journal=desk.journal, shelf=desk.lake, books=books, all_=full)
        return Looked(named=named, checked=checking.checked(state))
    except HintedError as error:
        return Looked(named=named, error=error)


def _show_check(one: Looked) -> None:
    if one.checked is None:
        return
    seen = one.checked
    ledger = "the warehouse was not asked" if seen.landed is None else f"{seen.landed:,} entries of the ledger"
    files = counted(seen.files, "file") + (f" ({seen.cleaned:,} of them cleaned)" if seen.cleaned else "")
    what = f"{seen.entries:,} entries of history, {counted(seen.batches, 'batch')}, {files}, {ledger}"
    only = "" if seen.whole else " (the newest; all of them with --full)"
    verdict = f"{len(seen.findings)} found" if seen.findings else "all agree"
    click.echo(f"{one.named.name}: {verdict}: {what}{only}")
    for finding in seen.findings:
        click.echo(f"  {finding.about}: {finding.message}")
        click.echo(f"    next: {finding.next}")


def _check_fields(one: Looked) -> dict[str, Any]:
    seen = one.checked
    return {
        "table": one.named.name,
        "source": one.named.stream.source,
        "agrees": seen is not None and not seen.findings,
        "entries": seen.entries if seen else None,
        "batches": seen.batches if seen else None,
        "files": seen.files if seen else None,
        "cleaned": seen.cleaned if seen else None,
        "landed": seen.landed if seen else None,
        "whole": seen.whole if seen else None,
        "findings": [{"about": each.about, "message": each.message, "next": each.next} for each in one.findings],
        "error": error_fields(one.error),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """One stream, what proves its marks, and what was or would be written."""

    named: Named
    history: "FromHistory | None" = None
    ledger: str | None = None
    """What the ledger proves, in words; None where it was not asked."""
    after: Watermark | None = None
    """What stands once it is written; None where nothing has to be."""
    error: HintedError | None = None


@click.command()
@tables
@click.option("--from-ledger", is_flag=True, help="Move the loaded mark to what the warehouse's ledger proves.")
@consent
@common
def rebuild(**words: Any) -> None:  # noqa: ANN401  # as above
    """Write a watermark anew from its history alone; with --from-ledger its loaded half from the ledger.

    Without --yes it says what is proven and what would be written, and changes nothing.
    """
    writes = words["yes"] and not words["dry_run"]
    with open_desk(words["config"]) as desk:
        named = chosen(desk, words["tables"], all_=words["all_"])
        mended = [_mended(desk, one, words, writes=False) for one in named]
        if not words["as_json"]:
            for one in mended:
                _show_mended(one)
        if writes:
            mended = [
                one if one.error or not one.after else _mended(desk, one.named, words, writes=True) for one in mended
            ]
            for one in mended:
                if one.after is not None and one.error is None:
                    say(f"{one.named.name}: written, revision {one.after.revision}")
    if words["as_json"]:
        show_json({"written": writes, "streams": [_mended_fields(one) for one in mended]})
    elif not writes and any(one.after for one in mended):
        say("nothing was written: say --yes")
    leave([told(one.named.name, one.error) for one in mended if one.error is not None])


def _mended(desk: "Desk", named: Named, words: dict[str, Any], *, writes: bool) -> Mended:
    from syncd.operations.overlay_store import Unwritten
    from syncd.operations.watermark_rebuild import from_history

    store = desk.store if writes else Unwritten(desk.store)
    journal = Journal(store, Watermark, clock=desk.clock)
    one = Mended(named=named)
    try:
        if words["from_ledger"]:
            return _from_ledger(desk, one, journal, words)
        one = replace(one, history=from_history(journal, named.stream))
        assert one.history is not None
        return one if one.history.same else replace(one, after=journal.rebuild(named.stream.stem))
    except HintedError as error:
        return replace(one, error=error)


def _from_ledger(desk: "Desk", one: Mended, journal: Journal[Watermark], words: dict[str, Any]) -> Mended:
    from syncd.app.operator_context import who
    from syncd.errors import ConfigError
    from syncd.operations.watermark_rebuild import follow_ledger

    books = desk.books(one.named.required())
    if books is None:
        raise ConfigError(f"{one.named.name} has no warehouse", hint="Add `warehouse:` to the configuration.")
    person = Operator(journal=journal, who=who(), why=words["reason"] or "what the ledger proves")
    followed = follow_ledger(journal, one.named.stream, books, person=person)
    if followed.after is None:
        return replace(one, ledger=f"{followed.entries:,} entries, and the loaded mark agrees with them")
    held = followed.held
    what = (
        f"{len(held.behind)} batches that the mark says are loaded are not there"
        if held.behind
        else (f"{len(held.ahead)} batches have landed that the mark does not know of")
    )
    return replace(one, ledger=f"proves everything up to batch {held.upto}: {what}", after=followed.after)


def _show_mended(one: Mended) -> None:
    if one.error is not None:
        return
    if one.history is not None:
        told_of = one.history
        proof = f"{told_of.entries:,} entries of its history follow each other up to revision {told_of.revision}"
        stands = "the document says the same" if told_of.same else f"in the document's place stands {told_of.stood}"
        click.echo(f"{one.named.name}: {proof}; {stands}")
    if one.ledger is not None:
        click.echo(f"{one.named.name}: the ledger {one.ledger}" if one.after else f"{one.named.name}: {one.ledger}")
    if one.after is not None:
        half = one.after.chain
        click.echo(f"  to write: batch {half.last} extracted, batch {one.after.loaded.last} loaded")
    else:
        click.echo("  nothing has to be written")


def _mended_fields(one: Mended) -> dict[str, Any]:
    return {
        "table": one.named.name,
        "source": one.named.stream.source,
        "history": None
        if one.history is None
        else {
            "revision": one.history.revision,
            "entries": one.history.entries,
            "stood": one.history.stood,
            "same": one.history.same,
        },
        "ledger": one.ledger,
        "after": marks(one.after) if one.after else None,
        "error": error_fields(one.error),
    }
