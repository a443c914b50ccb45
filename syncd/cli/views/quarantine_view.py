"""Output of `syncd quarantine`: files, rows and replays."""

import base64
import json
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from syncd.cli.output import error_to_json, print_message, show_json, show_table
from syncd.cli.views.run_view import load_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from syncd.extract.extract_pass import ExtractOutcome
    from syncd.lake.quarantine import QuarantinedFile, QuarantinedRow, QuarantineReason
    from syncd.load.load_pass import LoadOutcome
    from syncd.load.quarantine_listing import QuarantineListing
    from syncd.settings import StreamSettings
    from watermarks.errors import HintedError

StreamFailure: TypeAlias = "tuple[StreamSettings, HintedError]"
"""Stream that could not be read, and the error."""
MAX_VALUE_CHARACTERS: Final = 60
"""Characters of a value in the output for people."""


def show_quarantined_files(
    listings: "Sequence[tuple[StreamSettings, QuarantineListing]]", errors: "Sequence[StreamFailure]", *, as_json: bool
) -> None:
    """Print the files of each stream, and stray objects among them."""
    files = [(stream, file) for stream, listing in listings for file in listing.files]
    strays = [(stream, stray) for stream, listing in listings for stray in listing.strays]
    waiting = sum(file.part.rows for _, file in files if file.replayed_by is None)
    if as_json:
        show_json(
            {
                "waiting_rows": waiting,
                "files": [_file_to_json(stream, file) for stream, file in files],
                "orphan_files": [
                    {"table": stream.name, "file": stray.key, "reason": stray.reason} for stream, stray in strays
                ],
                "errors": _errors_to_json(errors),
            }
        )
        return
    if files:
        columns = ("table", "batch", "stage", "rows", "state", "from", "until", "file")
        show_table(columns, [(stream.name, *_file_cells(file)) for stream, file in files])
    elif not errors:
        click.echo("the quarantine is empty")
    for stream, stray in strays:
        print_message(f"{stream.name}: {stray.key} is not a quarantine file: {stray.reason}")
    if waiting:
        print_message(
            f"{waiting:,} rows wait. To see them: syncd quarantine show. Once they can be loaded: syncd"
            " quarantine replay"
        )


def _errors_to_json(errors: "Sequence[StreamFailure]") -> list[dict[str, object]]:
    return [{"table": stream.name, "error": error_to_json(error)} for stream, error in errors]


def _file_state(file: "QuarantinedFile") -> str:
    return "replayed" if file.replayed_by else "missing" if file.is_missing else "waiting"


def _file_cells(file: "QuarantinedFile") -> tuple[object, ...]:
    by = f" by {file.replayed_by}" if file.replayed_by else ""
    low, high = file.time_range or (None, None)
    return (
        file.batch,
        file.stage,
        f"{file.part.rows:,}",
        _file_state(file) + by,
        low.isoformat() if low else None,
        high.isoformat() if high else None,
        file.part.key,
    )


def _file_to_json(stream: "StreamSettings", file: "QuarantinedFile") -> dict[str, object]:
    low, high = file.time_range or (None, None)
    return {
        "table": stream.name,
        "source": stream.source,
        "batch": str(file.batch),
        "stage": file.stage,
        "rows": file.part.rows,
        "bytes": file.part.bytes,
        "state": _file_state(file),
        "replayed_by": str(file.replayed_by) if file.replayed_by else None,
        "from": low.isoformat() if low else None,
        "until": high.isoformat() if high else None,
        "file": file.part.key,
    }


def show_rows(
    rows: "Iterable[tuple[StreamSettings, QuarantinedRow]]",
    errors: "Sequence[StreamFailure]",
    *,
    lines: bool,
    as_json: bool,
) -> None:
    """Print rows as they arrive: shortened in three lines for people; with `lines`, complete as one line of JSON."""
    if as_json and not lines:
        documents = [_row_to_json(stream, row, whole=False) for stream, row in rows]
        show_json({"rows": documents, "errors": _errors_to_json(errors)})  # `errors` is complete after the last row
        return
    is_empty = True
    for stream, row in rows:
        is_empty = False
        if lines:
            click.echo(json.dumps(_row_to_json(stream, row, whole=True)))
            continue
        reasons = "; ".join(map(_describe_reason, row.reasons))
        click.echo(f"{stream.name} batch {row.file.batch}, {row.file.stage}: {reasons}")
        click.echo("  " + "  ".join(f"{name}={_shorten_value(value)}" for name, value in row.values.items()))
        click.echo(f"  row {row.row_number} of {row.file.part.key}")
    if is_empty and not lines and not errors:
        click.echo("no rows wait in quarantine")


def _describe_reason(reason: "QuarantineReason") -> str:
    column = f"{reason.column}: " if reason.column else ""
    size = f" ({reason.size:,} bytes)" if reason.size is not None else ""
    return f"{column}{reason.reason}{size}"


def _row_to_json(stream: "StreamSettings", row: "QuarantinedRow", *, whole: bool) -> dict[str, object]:
    convert = _value_to_json if whole else _shorten_value
    return {
        "table": stream.name,
        "batch": str(row.file.batch),
        "stage": row.file.stage,
        "file": row.file.part.key,
        "row": row.row_number,
        "reasons": [{"column": reason.column, "reason": reason.reason, "bytes": reason.size} for reason in row.reasons],
        "key": {name: convert(value) for name, value in row.key.items()},
        "values": {name: convert(value) for name, value in row.values.items()},
    }


def _value_to_json(value: object) -> object:
    """Return a JSON value; bytes that are not UTF-8 become base64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _shorten_value(value: object) -> object:
    """Shorten a value, with its size in bytes where it is cut."""
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
    """Print the outcome of replays, and of the loads after them."""
    if as_json:
        show_json({"dry_run": dry_run, "streams": [_replay_to_json(*replay) for replay in replays]})
        return
    columns = ("table", "replay", "rows", "files", "quarantined again", "load", "loaded", "pending")
    show_table(columns, [_replay_cells(*replay) for replay in replays])
    for stream, extracted, loaded in replays:
        if extracted.wait_reason:
            print_message(f"{stream.name}: {extracted.wait_reason}")
        if extracted.preview is not None:
            print_message(f"{stream.name}: rows of batch {extracted.preview['origin']} would be replayed first")
        if loaded is not None and loaded.quarantined:
            print_message(f"{stream.name}: the warehouse refused {loaded.quarantined:,} rows, which are in quarantine")


def _replay_cells(
    stream: "StreamSettings", extracted: "ExtractOutcome", loaded: "LoadOutcome | None"
) -> tuple[object, ...]:
    begin = (stream.name, _replay_state(extracted), extracted.rows, extracted.files, extracted.quarantined)
    return (
        (*begin, loaded.state, loaded.rows, loaded.pending_batches)
        if loaded is not None
        else (*begin, None, None, None)
    )


def _replay_state(extracted: "ExtractOutcome") -> str:
    if extracted.error is not None:
        return "failed"
    if extracted.preview is not None:
        return "planned"
    return "replayed" if extracted.batches else "nothing to do"


def _replay_to_json(
    stream: "StreamSettings", extracted: "ExtractOutcome", loaded: "LoadOutcome | None"
) -> dict[str, object]:
    return {
        "table": stream.name,
        "source": stream.source,
        "state": _replay_state(extracted),
        "batches": extracted.batches,
        "rows": extracted.rows,
        "files": extracted.files,
        "quarantined": extracted.quarantined,
        "reason": extracted.wait_reason or None,
        "seconds": round(extracted.seconds, 3),
        "planned": extracted.preview,
        "error": error_to_json(extracted.error),
        "load": load_to_json(loaded) if loaded is not None else None,
    }
