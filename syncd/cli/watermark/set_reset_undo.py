"""`syncd watermark set | reset | undo`: what only a person does, shown before it is done, and done when agreed to."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.instant import InstantType
from syncd.cli.stream_options import (
    SelectedStream,
    common_options,
    open_operator_context,
    select_streams,
    table_options,
)
from syncd.cli.watermark.change_flow import change_marks
from syncd.cli.watermark.options import PresetType, consent_options, stage_options
from syncd.cli.watermark.system_default import change_default
from watermarks.batch import BadBatch, BatchId
from watermarks.cursor import Cursor
from watermarks.document import Watermark
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from syncd.operations.mark_change import MarkChange
    from syncd.operations.position_input import LoadStart


@click.command("set")
@table_options
@click.option(
    "--timestamp", type=InstantType(), help="Read what is of this instant or later; land what was written after it."
)
@click.option("--preset", type=PresetType(), help="As --timestamp: now, 1day, 1week, 1month, or any instant.")
@click.option(
    "--id",
    "--key",
    "key",
    multiple=True,
    metavar="VALUE",
    help="Read what comes behind this key; again for each column.",
)
@click.option("--after", metavar="BATCH", help="Land what comes behind this batch, such as 1-42.")
@stage_options
@click.option("--default", "default", is_flag=True, help="Where streams begin that are told no other.")
@consent_options
@common_options
def set_(**options: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Set where a table is read on, where its load goes on, or both.

    \b
    Examples:
      syncd watermark set -t orders --timestamp '2026-08-01 00:00:00' --reason 'read August again'
      syncd watermark set -t events --id 4711 --mysql-only
      syncd watermark set -t orders --redshift-only --timestamp 2026-08-01

    Batches are landed whole: with --timestamp those whose files were written after it, with --id those
    that hold something behind that position. The others are left out, and recorded as such.
    """  # click's own mark
    instant = _requested_instant(options)
    with open_operator_context(options["config"]) as desk:
        if options["default"]:
            if instant is None:
                raise click.UsageError("say which instant: --timestamp or --preset")
            change_default(desk, instant, options)
            return
        _check_options(options, instant)
        named = select_streams(desk, options["tables"], all_=options["all_"])
        change_marks(desk, "set", named, options, lambda one: _make_set_act(desk, one, options, instant))


@click.command()
@table_options
@stage_options
@click.option("--default", "default", is_flag=True, help="Take the system-wide default away.")
@consent_options
@common_options
def reset(**options: Any) -> None:  # noqa: ANN401  # as above
    """Read a table anew, or land it anew from its files, or both. No file is removed.

    \b
    Examples:
      syncd watermark reset -t orders --reason 'made anew'
      syncd watermark reset -t orders --redshift-only --reason 'the target was dropped'
    """  # as above
    _check_stage_options(options)
    with open_operator_context(options["config"]) as desk:
        if options["default"]:
            change_default(desk, None, options)
            return
        named = select_streams(desk, options["tables"], all_=options["all_"])

        def resetting(one: SelectedStream) -> "MarkChange":
            extracted, loaded = not options["redshift_only"], not options["mysql_only"]
            return lambda person: person.reset_marks(one.stream, reset_extract=extracted, reset_load=loaded)

        change_marks(desk, "reset", named, options, resetting)


@click.command()
@table_options
@consent_options
@common_options
def undo(**options: Any) -> None:  # noqa: ANN401  # as above
    """Take back the last change by a person: marks become what they were, in new generations."""
    with open_operator_context(options["config"]) as desk:
        named = select_streams(desk, options["tables"], all_=options["all_"])
        change_marks(desk, "undo", named, options, lambda one: lambda person: person.undo(one.stream))


# What was asked for.


def _requested_instant(options: dict[str, Any]) -> datetime | None:
    if options["timestamp"] is not None and options["preset"] is not None:
        raise click.UsageError("--timestamp and --preset exclude each other")
    instant: datetime | None = options["timestamp"] or options["preset"]
    return instant


def _check_stage_options(options: dict[str, Any]) -> None:
    if options["mysql_only"] and options["redshift_only"]:
        raise click.UsageError("--mysql-only and --redshift-only exclude each other: without either, both are meant")


def _check_options(options: dict[str, Any], instant: datetime | None) -> None:
    _check_stage_options(options)
    if instant is None and not options["key"] and options["after"] is None:
        raise click.UsageError("say what to set: --timestamp, --preset, --id or --after")
    if options["after"] is not None and not options["redshift_only"]:
        raise click.UsageError("--after is about loading: say --redshift-only with it")
    if options["after"] is not None and (instant is not None or options["key"]):
        raise click.UsageError("--after names a batch: leave out --timestamp, --preset and --id")


def _make_set_act(
    context: "OperatorContext", selected: SelectedStream, options: dict[str, Any], instant: datetime | None
) -> "MarkChange":
    from syncd.operations.mark_change import require_known_stream
    from syncd.operations.position_input import require_settable_position

    if instant is not None and instant > context.clock.now():
        raise click.UsageError(f"{instant:%Y-%m-%d %H:%M:%S} UTC lies in the future")
    state = context.journal.read_newest(selected.stream.stem)
    if options["redshift_only"]:
        require_known_stream(state, selected.stream)
    cursor, place = None, None
    if not options["redshift_only"] or options["key"]:
        require_settable_position(selected.require_settings())
        cursor = _requested_cursor(context, selected, state, instant, options["key"])
    if not options["mysql_only"] and state is not None:
        place = _requested_load_start(
            context, selected, state, options["after"] or (cursor if options["key"] else instant)
        )
    extracted = None if options["redshift_only"] else cursor

    def act(person: Operator) -> Watermark:
        if place is None:
            return person.set_marks(selected.stream, extract_cursor=extracted)
        return person.set_marks(
            selected.stream, extract_cursor=extracted, load_after=place.after, load_cursor=place.loaded_mark
        )

    return act


def _requested_cursor(
    context: "OperatorContext",
    selected: SelectedStream,
    state: Watermark | None,
    instant: datetime | None,
    key: Sequence[str],
) -> Cursor:
    """The position that was written down, in the stream's own kinds: as MySQL tells them, or else the mark."""
    from syncd.errors import SourceDown
    from syncd.operations.position_input import CursorShape

    settings = selected.require_settings()
    asked = context.query_source(settings)
    mark = state.required_extract_progress.cursor if state else Cursor()
    if asked.order is not None:
        shape: CursorShape | None = CursorShape.from_order(asked.order)
    else:
        shape = CursorShape.from_mark(
            mark or _newest_batch_cursor(context, selected, state), settings, zone=context.writer_time_zone(settings)
        )
    if shape is None:
        raise SourceDown(
            f"MySQL cannot be asked what positions of {selected.name} are made of: {asked.problem}",
            hint="Once it answers, ask again. Where a mark stands and `zone` is set, it is not needed.",
        )
    return shape.parse_position(mark, timestamp=instant, key=key)


def _newest_batch_cursor(context: "OperatorContext", selected: SelectedStream, state: Watermark | None) -> Cursor:
    """The position of the newest batch: after a reset the mark itself tells nothing of positions."""
    from watermarks.extraction import BatchChain
    from watermarks.progress import BEFORE_FIRST_BATCH

    if state is None:
        return Cursor()
    chain = BatchChain(context.journal, selected.stream)
    ids = state.required_extract_progress.batch_ids_newest_first(
        up_to=state.required_extract_progress.last_batch, after=BEFORE_FIRST_BATCH
    )
    return next((chain.require_link(batch).high for batch in ids), Cursor())


def _requested_load_start(
    context: "OperatorContext", selected: SelectedStream, state: Watermark, behind: "str | Cursor | datetime | None"
) -> "LoadStart":
    """Where the load goes on: behind a batch that is named, or told by what it holds, or by when it was written."""
    from syncd.operations.position_input import find_start_by_cursor, find_start_by_time, start_after_batch
    from watermarks.extraction import BatchChain

    chain = BatchChain(context.journal, selected.stream)
    match behind:
        case str():
            return start_after_batch(chain, state.required_extract_progress, _parse_batch(behind))
        case datetime():
            return find_start_by_time(chain, state.required_extract_progress, behind)
        case _:
            return find_start_by_cursor(chain, state.required_extract_progress, behind or Cursor())


def _parse_batch(text: str) -> BatchId:
    try:
        return BatchId.from_text(text)
    except BadBatch as error:
        raise click.BadParameter(error.message, param_hint="--after") from error
