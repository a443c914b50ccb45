"""`syncd watermark get | export`: what stands, for people and as it is written."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import show_json, show_table
from syncd.cli.stream_options import Named, chosen, common, error_fields, leave, open_desk, tables, told
from syncd.cli.views.mark_format import moment, position
from syncd.cli.watermark.system_default import default_fields, default_told
from watermarks.document import Stage, Watermark
from watermarks.errors import HintedError
from watermarks.history import StateMissing
from watermarks.names import SYSTEM, StreamName

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One stream as it stands, or why that cannot be told."""

    named: Named
    state: Watermark | None = None
    error: HintedError | None = None
    at_work: dict[str, str | None] | None = None
    files: list[dict[str, Any]] | None = None
    unproven: str = ""
    """Why the mark is not proven, as far as that is known."""

    @property
    def waiting(self) -> int:
        """Batches that are extracted and not loaded."""
        half = self.state.extracted if self.state else None
        return sum(1 for _ in half.ids(after=self.state.loaded.last)) if half and self.state else 0


@click.command()
@tables
@click.option("--show-files", is_flag=True, help="List the files, and what became of each.")
@common
def get(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Show the watermark of a table; without one, the system-wide default."""
    with open_desk(words["config"], looks=True) as desk:
        if not words["tables"] and not words["all_"]:
            _show_default(desk, as_json=words["as_json"])
            return
        named = chosen(desk, words["tables"], all_=words["all_"])
        looked = [look(desk, one, files=words["show_files"]) for one in named]
    if words["as_json"]:
        show_json({"streams": [_fields(one) for one in looked]})
    else:
        for one in looked:
            _show(one)
    leave_by(looked)


def look(desk: "Desk", named: Named, *, files: bool = False, claims: bool = True) -> Looked:
    try:
        state = desk.journal.newest(named.stream.stem)
        at_work = {str(stage): desk.at_work(named.stream, stage) for stage in Stage} if claims else None
        listed = _files(desk, named.stream, state) if files and state is not None else None
        why = _unproven(desk, named.stream, state) if claims and state is not None else ""
    except HintedError as error:
        return Looked(named=named, error=error)
    return Looked(named=named, state=state, at_work=at_work, files=listed, unproven=why)


def _unproven(desk: "Desk", stream: StreamName, state: Watermark) -> str:
    from syncd.operations.proof_gaps import unproven
    from watermarks.extraction import Chain

    found = unproven(state.chain, Chain(desk.journal, stream))
    return found.because if found else ""


def _files(desk: "Desk", stream: StreamName, state: Watermark) -> list[dict[str, Any]]:
    from syncd.lake.manifest import Manifest
    from syncd.operations.change_impact import carried_out, links, of_life
    from watermarks.extraction import Chain

    found: list[dict[str, Any]] = []
    for link in carried_out(links(Chain(desk.journal, stream), of_life(state.chain))):
        if link.id > state.loaded.last:
            became = "waiting"
        else:
            became = "left out" if any(link.id in span for span in state.loaded.skipped) else "loaded"
        found += [
            {
                "file": desk.lake.at(part.key),
                "batch": str(link.id),
                "rows": part.rows,
                "bytes": part.bytes,
                "is": became,
            }
            for part in Manifest.of_link(link).parts
        ]
    return found


def _fields(one: Looked) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "table": one.named.name,
        "source": one.named.stream.source,
        "watermark": one.state.fields() if one.state else None,
        "unproven_because": one.unproven or None,
        "waiting": one.waiting,
        "at_work": one.at_work,
        "error": error_fields(one.error),
    }
    return fields if one.files is None else {**fields, "files": one.files}


def _show(one: Looked) -> None:
    state = one.state
    if one.error is not None:
        return
    if state is None:
        click.echo(f"{one.named.name}: has never run")
        return
    half, loaded = state.chain, state.loaded
    click.echo(f"{one.named.name}  (revision {state.revision}, {moment(state.updated_at)} UTC)")
    extract = (
        ("MySQL to S3", state.status(Stage.EXTRACT)),
        ("mark", position(half.cursor)),
        ("last read", moment(half.at)),
        ("rows", f"{half.tally.run_rows:,} in the last run, {half.tally.rows:,} in all"),
        ("files", f"{half.tally.files:,}"),
        ("batch", f"{half.last}, {'set by hand' if half.strategy == 'manual_cli' else half.strategy}"),
        ("proven", "yes" if half.proven else f"no: {one.unproven}" if one.unproven else "no"),
    )
    load = (
        ("S3 to Redshift", state.status(Stage.LOAD)),
        ("mark", position(loaded.cursor)),
        ("last load", moment(loaded.at)),
        ("rows", f"{loaded.tally.run_rows:,} in the last run, {loaded.tally.rows:,} in all"),
        ("batch", f"{loaded.last}, load generation {loaded.load_generation}"),
        ("waiting", f"{one.waiting:,} batch{'' if one.waiting == 1 else 'es'}"),
        ("left out", ", ".join(f"those behind {span.after} up to {span.upto}" for span in loaded.skipped)),
    )
    for what, said in (*extract, *load):
        indent = "  " if what in {"MySQL to S3", "S3 to Redshift"} else "    "
        click.echo(f"{indent}{what:<{18 - len(indent)}}{said or '-'}")
    for stage, failure in state.failures.items():
        click.echo(f"  {stage} failed at {moment(failure.at)} UTC: {failure.message}")
    for at_work, process in (one.at_work or {}).items():
        if process is not None:
            click.echo(f"  {at_work} is at work: {process}")
    if one.files is not None:
        show_table(("file", "batch", "rows", "is"), [(f["file"], f["batch"], f["rows"], f["is"]) for f in one.files])


def leave_by(looked: Sequence[Looked]) -> None:
    leave([told(one.named.name, one.error) for one in looked if one.error is not None])


def _show_default(desk: "Desk", *, as_json: bool) -> None:
    state = desk.defaults.newest(SYSTEM)
    if as_json:
        show_json({"default": default_fields(state)})
    else:
        click.echo(default_told(state))


@click.command()
@tables
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="A file; it must not be there yet.")
@common
def export(**words: Any) -> None:  # noqa: ANN401  # as above
    """Print the documents as they stand, one JSON object."""
    with open_desk(words["config"], looks=True) as desk:
        documents: dict[str, Any] = {}
        for one in chosen(desk, words["tables"], all_=words["all_"]):
            state = desk.journal.newest(one.stream.stem)
            if state is not None:
                documents[one.stream.stem] = json.loads(state.to_bytes())
            elif not words["all_"]:
                raise StateMissing(f"{one.stream} has never run", hint="See: syncd watermark list")
    exported = {"documents": documents}
    if words["out"] is None:
        show_json(exported)
        return
    try:
        with words["out"].open("x", encoding="utf-8") as file:
            json.dump(exported, file, indent=2)
    except FileExistsError as error:
        raise click.UsageError(f"{words['out']} is there already: name another file") from error
    click.echo(f"{len(documents)} documents in {words['out']}")
