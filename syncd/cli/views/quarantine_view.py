"""How `syncd quarantine` shows files, rows and replays: tables and lines for people, JSON for programs."""

import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from syncd.cli.output import say, show_json, show_table
from syncd.cli.views.run_view import error_fields, load_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncd.extract.extract_pass import Outcome
    from syncd.lake.quarantine import Aside, RefusedRow, Trouble
    from syncd.load.load_pass import LoadOutcome
    from syncd.load.quarantine_listing import Lying
    from syncd.settings import StreamSettings
    from watermarks.errors import HintedError

Failed: TypeAlias = "tuple[StreamSettings, HintedError]"
"""A stream that could not be looked at, and why."""
SHOWN: Final = 60
"""Characters of a value that people are shown."""


def show_asides(found: "Sequence[tuple[StreamSettings, Lying]]", errors: "Sequence[Failed]", *, as_json: bool) -> None:
    """The files of each stream, and what lies among them and is nobody's."""
    asides = [(stream, aside) for stream, lying in found for aside in lying.asides]
    strays = [(stream, stray) for stream, lying in found for stray in lying.strays]
    waiting = sum(aside.part.rows for _, aside in asides if aside.replayed_by is None)
    if as_json:
        show_json(
            {
                "waiting": waiting,
                "files": [_aside_fields(*one) for one in asides],
                "strays": [{"table": _name(s), "file": stray.key, "reason": stray.reason} for s, stray in strays],
                "errors": _error_fields(errors),
            }
        )
        return
    if asides:
        columns = ("table", "batch", "by", "rows", "state", "from", "until", "file")
        show_table(columns, [(_name(s), *_aside_cells(aside)) for s, aside in asides])
    elif not errors:
        click.echo("nothing is in quarantine")
    for stream, stray in strays:
        say(f"{_name(stream)}: {stray.key} is no part of the quarantine: {stray.reason}")
    if waiting:
        say(f"{waiting:,} rows wait. See them: syncd quarantine show. Mended? syncd quarantine replay")


def _error_fields(errors: "Sequence[Failed]") -> list[dict[str, object]]:
    return [{"table": _name(stream), "error": error_fields(error)} for stream, error in errors]


def _name(stream: "StreamSettings") -> str:
    return f"{stream.database}.{stream.table}"


def _state(aside: "Aside") -> str:
    return "replayed" if aside.replayed_by else "gone" if aside.gone else "waiting"


def _aside_cells(aside: "Aside") -> tuple[object, ...]:
    by = f" by {aside.replayed_by}" if aside.replayed_by else ""
    low, high = aside.span or (None, None)
    return aside.batch, aside.stage, f"{aside.part.rows:,}", _state(aside) + by, _at(low), _at(high), aside.part.key


def _at(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


def _aside_fields(stream: "StreamSettings", aside: "Aside") -> dict[str, object]:
    low, high = aside.span or (None, None)
    return {
        "table": _name(stream),
        "source": stream.source,
        "batch": str(aside.batch),
        "stage": aside.stage,
        "rows": aside.part.rows,
        "bytes": aside.part.bytes,
        "state": _state(aside),
        "replayed_by": str(aside.replayed_by) if aside.replayed_by else None,
        "from": _at(low),
        "until": _at(high),
        "file": aside.part.key,
    }


def show_rows(
    rows: "Iterable[tuple[StreamSettings, RefusedRow]]", errors: "Sequence[Failed]", *, lines: bool, as_json: bool
) -> None:
    """Rows as they come: two lines each for people, cut; whole, a line of JSON each, where `lines` are asked for."""
    if as_json and not lines:
        shown = [_row_fields(*one, whole=False) for one in rows]
        show_json({"rows": shown, "errors": _error_fields(errors)})  # these are known once all rows were looked at
        return
    none = True
    for stream, row in rows:
        none = False
        if lines:
            click.echo(json.dumps(_row_fields(stream, row, whole=True)))
            continue
        why = "; ".join(map(_why, row.troubles))
        click.echo(f"{_name(stream)} batch {row.aside.batch}, {row.aside.stage}: {why}")
        click.echo("  " + "  ".join(f"{name}={_cut(value)}" for name, value in row.values.items()))
        click.echo(f"  row {row.place} of {row.aside.part.key}")
    if none and not lines and not errors:
        click.echo("no row waits in quarantine")


def _why(trouble: "Trouble") -> str:
    column = f"{trouble.column}: " if trouble.column else ""
    size = f" ({trouble.size:,} bytes)" if trouble.size is not None else ""
    return f"{column}{trouble.reason}{size}"


def _row_fields(stream: "StreamSettings", row: "RefusedRow", *, whole: bool) -> dict[str, object]:
    value = _plain if whole else _cut
    return {
        "table": _name(stream),
        "batch": str(row.aside.batch),
        "stage": row.aside.stage,
        "file": row.aside.part.key,
        "row": row.place,
        "reasons": [{"column": one.column, "reason": one.reason, "bytes": one.size} for one in row.troubles],
        "key": {name: value(found) for name, found in row.key.items()},
        "values": {name: value(found) for name, found in row.values.items()},
    }


def _plain(value: object) -> object:
    """A value that JSON knows: text where it is text, other bytes as base64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _cut(value: object) -> object:
    """A value in few characters, and how long it is where some are left out."""
    if isinstance(value, bytes):
        text = value[: 4 * SHOWN].decode(errors="backslashreplace")
        size = len(value)
    elif isinstance(value, str):
        text, size = value, len(value.encode())
    else:
        return value if value is None or isinstance(value, bool | int | float) else str(value)
    text = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({size:,} bytes)"


def show_replays(
    done: "Sequence[tuple[StreamSettings, Outcome, LoadOutcome | None]]", *, as_json: bool, dry_run: bool
) -> None:
    """What came of replays, and of the landings after them."""
    if as_json:
        show_json({"dry_run": dry_run, "streams": [_replay_fields(*one) for one in done]})
        return
    columns = ("table", "replay", "rows", "files", "put aside anew", "load", "landed", "pending")
    show_table(columns, [_replay_cells(*one) for one in done])
    for stream, made, landed in done:
        if made.reason:
            say(f"{_name(stream)}: {made.reason}")
        if made.planned is not None:
            say(f"{_name(stream)}: rows of batch {made.planned['origin']} would be brought back first")
        if landed is not None and landed.quarantined:
            say(f"{_name(stream)}: {landed.quarantined:,} rows were refused by the warehouse, and lie in quarantine")


def _replay_cells(stream: "StreamSettings", made: "Outcome", landed: "LoadOutcome | None") -> tuple[object, ...]:
    begin = (_name(stream), _word(made), made.rows, made.files, made.quarantined)
    return (*begin, landed.state, landed.rows, landed.waiting) if landed is not None else (*begin, None, None, None)


def _word(made: "Outcome") -> str:
    """How a replay ended, in one word."""
    if made.error is not None:
        return "failed"
    if made.planned is not None:
        return "planned"
    return "replayed" if made.batches else "nothing to do"


def _replay_fields(stream: "StreamSettings", made: "Outcome", landed: "LoadOutcome | None") -> dict[str, object]:
    return {
        "table": _name(stream),
        "source": stream.source,
        "state": _word(made),
        "batches": made.batches,
        "rows": made.rows,
        "files": made.files,
        "quarantined": made.quarantined,
        "reason": made.reason or None,
        "seconds": round(made.seconds, 3),
        "planned": made.planned,
        "error": error_fields(made.error),
        "load": load_fields(landed) if landed is not None else None,
    }
