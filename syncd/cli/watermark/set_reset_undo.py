"""`syncd watermark set | reset | undo`: mark changes that only an operator makes, after preview and confirmation."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.option_types import (
    BatchType,
    InstantType,
    PresetType,
    common_options,
    consent_options,
    selection_options,
    stage_options,
)
from syncd.cli.stream_selection import SelectedStream, open_operator_context, select_streams
from syncd.cli.watermark.change_flow import change_marks
from syncd.cli.watermark.system_default import change_default
from watermarks.batch import BatchId
from watermarks.cursor import Cursor
from watermarks.document import Watermark
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.mark_change import MarkChange
    from syncd.operations.position_input import LoadStart


@click.command("set")
@selection_options
@click.option(
    "--timestamp", type=InstantType(), help="Read rows from this instant on; load files that were written after it."
)
@click.option("--preset", type=PresetType(), help="Like --timestamp: now, 1day, 1week, 1month, or any instant.")
@click.option(
    "--id",
    "--key",
    "key",
    multiple=True,
    metavar="VALUE",
    help="Read rows after this key; repeat the option for each column of the key.",
)
@click.option("--after", type=BatchType(), metavar="BATCH", help="Load the batches after this one, such as 1-42.")
@stage_options
@click.option("--default", "default", is_flag=True, help="Set the instant at which streams without `first_run` begin.")
@consent_options
@common_options
def set_(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Set the position from which a table is read, loaded, or both.

    \b
    Examples:
      syncd watermark set -t orders --timestamp '2026-08-01 00:00:00' --reason 'read August again'
      syncd watermark set -t events --id 4711 --mysql-only
      syncd watermark set -t orders --redshift-only --timestamp 2026-08-01

    Whole batches are loaded: with --timestamp those whose files were written after it, with --id those
    that contain rows after that position. The others are skipped, and recorded as skipped.
    """
    instant = _requested_instant(options)
    with open_operator_context(options["config"]) as context:
        if options["default"]:
            if instant is None:
                raise click.UsageError("name the instant: --timestamp or --preset")
            change_default(context, instant, options)
            return
        _check_options(options, instant)
        selected = select_streams(context.settings, options["tables"], all_=options["all_"])
        change_marks(context, "set", selected, options, lambda one: _make_set_act(context, one, options, instant))


@click.command()
@selection_options
@stage_options
@click.option("--default", "default", is_flag=True, help="Remove the system-wide default.")
@consent_options
@common_options
def reset(**options: Any) -> None:  # noqa: ANN401  # as above
    """Read a table again from its start, or load it again from its files, or both. No file is removed.

    \b
    Examples:
      syncd watermark reset -t orders --reason 'loaded again'
      syncd watermark reset -t orders --redshift-only --reason 'the target was dropped'
    """
    _check_stage_options(options)
    extract, load = not options["redshift_only"], not options["mysql_only"]

    def make_reset(one: SelectedStream) -> "MarkChange":
        return lambda operator: operator.reset_marks(one.stream, reset_extract=extract, reset_load=load)

    with open_operator_context(options["config"]) as context:
        if options["default"]:
            change_default(context, None, options)
            return
        selected = select_streams(context.settings, options["tables"], all_=options["all_"])
        change_marks(context, "reset", selected, options, make_reset)


@click.command()
@selection_options
@consent_options
@common_options
def undo(**options: Any) -> None:  # noqa: ANN401  # as above
    """Undo the last change by an operator: the marks return to their values, in new generations."""
    with open_operator_context(options["config"]) as context:
        selected = select_streams(context.settings, options["tables"], all_=options["all_"])
        change_marks(context, "undo", selected, options, lambda one: lambda operator: operator.undo(one.stream))


def _requested_instant(options: dict[str, Any]) -> datetime | None:
    if options["timestamp"] is not None and options["preset"] is not None:
        raise click.UsageError("--timestamp and --preset exclude each other")
    instant: datetime | None = options["timestamp"] or options["preset"]
    return instant


def _check_stage_options(options: dict[str, Any]) -> None:
    if options["mysql_only"] and options["redshift_only"]:
        raise click.UsageError(
            "--mysql-only and --redshift-only exclude each other: without either, both stages change"
        )


def _check_options(options: dict[str, Any], instant: datetime | None) -> None:
    _check_stage_options(options)
    if instant is None and not options["key"] and options["after"] is None:
        raise click.UsageError("name a position: --timestamp, --preset, --id or --after")
    if options["after"] is not None and not options["redshift_only"]:
        raise click.UsageError("--after applies to the load: use it with --redshift-only")
    if options["after"] is not None and (instant is not None or options["key"]):
        raise click.UsageError("--after names a batch: leave out --timestamp, --preset and --id")


def _make_set_act(
    context: "OperatorContext", selected: SelectedStream, options: dict[str, Any], instant: datetime | None
) -> "MarkChange":
    from syncd.operations.mark_change import require_known_stream
    from syncd.operations.position_input import require_settable_position

    if instant is not None and instant > context.clock.now():
        raise click.UsageError(f"{instant:%Y-%m-%d %H:%M:%S} UTC is in the future")
    watermark = context.journal.read_newest(selected.stream.stem)
    if options["redshift_only"]:
        require_known_stream(watermark, selected.stream)
    cursor, load_start = None, None
    if not options["redshift_only"] or options["key"]:
        require_settable_position(selected.require_settings())
        cursor = _requested_cursor(context, selected, watermark, instant, options["key"])
    if not options["mysql_only"] and watermark is not None:
        after = options["after"] or (cursor if options["key"] else instant)
        load_start = _requested_load_start(context, selected, watermark, after)
    extract_cursor = None if options["redshift_only"] else cursor

    def act(operator: Operator) -> Watermark:
        if load_start is None:
            return operator.set_marks(selected.stream, extract_cursor=extract_cursor)
        return operator.set_marks(
            selected.stream,
            extract_cursor=extract_cursor,
            load_after=load_start.after,
            load_cursor=load_start.loaded_mark,
        )

    return act


def _requested_cursor(
    context: "OperatorContext",
    selected: SelectedStream,
    watermark: Watermark | None,
    instant: datetime | None,
    key: Sequence[str],
) -> Cursor:
    """Parse the requested position in the types of the stream's order: those of MySQL, or else those of the mark."""
    from syncd.errors import SourceDown
    from syncd.operations.position_input import CursorShape

    settings = selected.require_settings()
    answer = context.query_source(settings)
    mark = watermark.required_extract_progress.cursor if watermark else Cursor()
    if answer.order is not None:
        shape: CursorShape | None = CursorShape.from_order(answer.order)
    else:
        shape = CursorShape.from_mark(
            mark or _newest_batch_cursor(context, selected, watermark),
            settings,
            zone=context.writer_time_zone(settings),
        )
    if shape is None:
        raise SourceDown(
            f"the column types of a position of {selected.name} are unknown, because MySQL does not answer:"
            f" {answer.problem}",
            hint="Retry when MySQL answers. It is not needed if the stream has a mark and the configuration a `zone`.",
        )
    return shape.parse_position(mark, timestamp=instant, key=key)


def _newest_batch_cursor(context: "OperatorContext", selected: SelectedStream, watermark: Watermark | None) -> Cursor:
    """Return the position of the newest batch, because after a reset the mark is empty."""
    from watermarks.extraction import BatchChain
    from watermarks.progress import BEFORE_FIRST_BATCH

    if watermark is None:
        return Cursor()
    chain = BatchChain(context.journal, selected.stream)
    extract = watermark.required_extract_progress
    ids = extract.batch_ids_newest_first(up_to=extract.last_batch, after=BEFORE_FIRST_BATCH)
    return next((chain.require_link(batch).high for batch in ids), Cursor())


def _requested_load_start(
    context: "OperatorContext",
    selected: SelectedStream,
    watermark: Watermark,
    after: "BatchId | Cursor | datetime | None",
) -> "LoadStart":
    """Return where the load continues: after a batch, a position, or the time at which files were written."""
    from syncd.operations.position_input import find_start_by_cursor, find_start_by_time, start_after_batch
    from watermarks.extraction import BatchChain

    chain, extract = BatchChain(context.journal, selected.stream), watermark.required_extract_progress
    match after:
        case BatchId():
            return start_after_batch(chain, extract, after)
        case datetime():
            return find_start_by_time(chain, extract, after)
        case _:
            return find_start_by_cursor(chain, extract, after or Cursor())
