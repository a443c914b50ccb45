"""How `syncd quarantine` shows files, rows and replays: tables and lines for people, JSON for programs."""

import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from syncd.cli.output import print_message, show_json, show_table
from syncd.cli.views.run_view import error_to_json, load_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncd.extract.extract_pass import ExtractOutcome
    from syncd.lake.quarantine import QuarantinedFile, QuarantinedRow, QuarantineReason
    from syncd.load.load_pass import LoadOutcome
    from syncd.load.quarantine_listing import QuarantineListing
    from syncd.settings import StreamSettings
    from watermarks.errors import HintedError

StreamFailure: TypeAlias = "tuple[StreamSettings, HintedError]"
"""A stream that could not be looked at, and why."""
MAX_VALUE_CHARACTERS: Final = 60
"""Characters of a value that people are shown."""


def show_quarantined_files(
    found: "Sequence[tuple[StreamSettings, QuarantineListing]]", errors: "Sequence[StreamFailure]", *, as_json: bool
) -> None:
    """The files of each stream, and what lies among them and is nobody's."""
    asides = [(stream, aside) for stream, lying in found for aside in lying.files]
    strays = [(stream, stray) for stream, lying in found for stray in lying.strays]
    waiting = sum(aside.part.rows for _, aside in asides if aside.replayed_by is None)
    if as_json:
        show_json(
            {
                "waiting": waiting,
                "files": [_file_to_json(*one) for one in asides],
                "strays": [
                    {"table": _stream_name(s), "file": stray.key, "reason": stray.reason} for s, stray in strays
                ],
                "errors": _errors_to_json(errors),
            }
        )
        return
    if asides:
        columns = ("table", "batch", "by", "rows", "state", "from", "until", "file")
        show_table(columns, [(_stream_name(s), *_file_cells(aside)) for s, aside in asides])
    elif not errors:
        click.echo("nothing is in quarantine")
    for stream, stray in strays:
        print_message(f"{_stream_name(stream)}: {stray.key} is no part of the quarantine: {stray.reason}")
    if waiting:
        print_message(f"{waiting:,} rows wait. See them: syncd quarantine show. Mended? syncd quarantine replay")


def _errors_to_json(errors: "Sequence[StreamFailure]") -> list[dict[str, object]]:
    return [{"table": _stream_name(stream), "error": error_to_json(error)} for stream, error in errors]


def _stream_name(stream: "StreamSettings") -> str:
    return stream.name


def _file_state(aside: "QuarantinedFile") -> str:
    return "replayed" if aside.replayed_by else "gone" if aside.is_missing else "waiting"


def _file_cells(aside: "QuarantinedFile") -> tuple[object, ...]:
    by = f" by {aside.replayed_by}" if aside.replayed_by else ""
    low, high = aside.time_range or (None, None)
    return (
        aside.batch,
        aside.stage,
        f"{aside.part.rows:,}",
        _file_state(aside) + by,
        _format_instant(low),
        _format_instant(high),
        aside.part.key,
    )


def _format_instant(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


def _file_to_json(stream: "StreamSettings", aside: "QuarantinedFile") -> dict[str, object]:
    low, high = aside.time_range or (None, None)
    return {
        "table": _stream_name(stream),
        "source": stream.source,
        "batch": str(aside.batch),
        "stage": aside.stage,
        "rows": aside.part.rows,
        "bytes": aside.part.bytes,
        "state": _file_state(aside),
        "replayed_by": str(aside.replayed_by) if aside.replayed_by else None,
        "from": _format_instant(low),
        "until": _format_instant(high),
        "file": aside.part.key,
    }


def show_rows(
    rows: "Iterable[tuple[StreamSettings, QuarantinedRow]]",
    errors: "Sequence[StreamFailure]",
    *,
    lines: bool,
    as_json: bool,
) -> None:
    """Rows as they come: two lines each for people, cut; whole, a line of JSON each, where `lines` are asked for."""
    if as_json and not lines:
        shown = [_row_to_json(*one, whole=False) for one in rows]
        show_json({"rows": shown, "errors": _errors_to_json(errors)})  # these are known once all rows were looked at
        return
    none = True
    for stream, row in rows:
        none = False
        if lines:
            click.echo(json.dumps(_row_to_json(stream, row, whole=True)))
            continue
        why = "; ".join(map(_describe_trouble, row.reasons))
        click.echo(f"{_stream_name(stream)} batch {row.file.batch}, {row.file.stage}: {why}")
        click.echo("  " + "  ".join(f"{name}={_shorten_value(value)}" for name, value in row.values.items()))
        click.echo(f"  row {row.row_number} of {row.file.part.key}")
    if none and not lines and not errors:
        click.echo("no row waits in quarantine")


def _describe_trouble(trouble: "QuarantineReason") -> str:
    column = f"{trouble.column}: " if trouble.column else ""
    size = f" ({trouble.size:,} bytes)" if trouble.size is not None else ""
    return f"{column}{trouble.reason}{size}"


def _row_to_json(stream: "StreamSettings", row: "QuarantinedRow", *, whole: bool) -> dict[str, object]:
    value = _value_to_json if whole else _shorten_value
    return {
        "table": _stream_name(stream),
        "batch": str(row.file.batch),
        "stage": row.file.stage,
        "file": row.file.part.key,
        "row": row.row_number,
        "reasons": [{"column": one.column, "reason": one.reason, "bytes": one.size} for one in row.reasons],
        "key": {name: value(found) for name, found in row.key.items()},
        "values": {name: value(found) for name, found in row.values.items()},
    }


def _value_to_json(value: object) -> object:
    """A value that JSON knows: text where it is text, other bytes as base64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _shorten_value(value: object) -> object:
    """A value in few characters, and how long it is where some are left out."""
    if isinstance(value, bytes):
        text = value[: 4 * MAX_VALUE_CHARACTERS].decode(errors="backslashreplace")
        size = len(value)
    elif isinstance(value, str):
        text, size = value, len(value.encode())
    else:
        return value if value is None or isinstance(value, bool | int | float) else str(value)
    text = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}… ({size:,} bytes)"


def show_replays(
    replays: "Sequence[tuple[StreamSettings, ExtractOutcome, LoadOutcome | None]]", *, as_json: bool, dry_run: bool
) -> None:
    """What came of replays, and of the landings after them."""
    if as_json:
        show_json({"dry_run": dry_run, "streams": [_replay_to_json(*one) for one in replays]})
        return
    columns = ("table", "replay", "rows", "files", "put aside anew", "load", "landed", "pending")
    show_table(columns, [_replay_cells(*one) for one in replays])
    for stream, made, landed in replays:
        if made.wait_reason:
            print_message(f"{_stream_name(stream)}: {made.wait_reason}")
        if made.preview is not None:
            print_message(f"{_stream_name(stream)}: rows of batch {made.preview['origin']} would be brought back first")
        if landed is not None and landed.quarantined:
            print_message(
                f"{_stream_name(stream)}: {landed.quarantined:,} rows were refused by the warehouse, and lie in quarantine"
            )


def _replay_cells(stream: "StreamSettings", made: "ExtractOutcome", landed: "LoadOutcome | None") -> tuple[object, ...]:
    begin = (_stream_name(stream), _replay_state(made), made.rows, made.files, made.quarantined)
    return (
        (*begin, landed.state, landed.rows, landed.pending_batches)
        if landed is not None
        else (*begin, None, None, None)
    )


def _replay_state(made: "ExtractOutcome") -> str:
    """How a replay ended, in one word."""
    if made.error is not None:
        return "failed"
    if made.preview is not None:
        return "planned"
    return "replayed" if made.batches else "nothing to do"


def _replay_to_json(
    stream: "StreamSettings", made: "ExtractOutcome", landed: "LoadOutcome | None"
) -> dict[str, object]:
    return {
        "table": _stream_name(stream),
        "source": stream.source,
        "state": _replay_state(made),
        "batches": made.batches,
        "rows": made.rows,
        "files": made.files,
        "quarantined": made.quarantined,
        "reason": made.wait_reason or None,
        "seconds": round(made.seconds, 3),
        "planned": made.preview,
        "error": error_to_json(made.error),
        "load": load_to_json(landed) if landed is not None else None,
    }
