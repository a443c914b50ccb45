"""`syncd watermark set | reset | undo`: what only a person does, shown before it is done, and done when agreed to."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.instant import InstantType
from syncd.cli.stream_options import Named, chosen, common, open_desk, tables
from syncd.cli.watermark.change_flow import carry_out
from syncd.cli.watermark.options import PresetType, consent, halves
from syncd.cli.watermark.system_default import change_default
from watermarks.batch import BadBatch, BatchId
from watermarks.cursor import Cursor
from watermarks.document import Watermark
from watermarks.operator import Operator

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk
    from syncd.operations.batch_choice import Place
    from syncd.operations.mark_change import Act


@click.command("set")
@tables
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
@halves
@click.option("--default", "default", is_flag=True, help="Where streams begin that are told no other.")
@consent
@common
def set_(**words: Any) -> None:  # noqa: ANN401  # options of click arrive by name
    """Set where a table is read on, where its load goes on, or both.

    \b
    Examples:
      syncd watermark set -t orders --timestamp '2026-08-01 00:00:00' --reason 'read August again'
      syncd watermark set -t events --id 4711 --mysql-only
      syncd watermark set -t orders --redshift-only --timestamp 2026-08-01

    Batches are landed whole: with --timestamp those whose files were written after it, with --id those
    that hold something behind that position. The others are left out, and recorded as such.
    """  # click's own mark
    instant = _instant(words)
    with open_desk(words["config"]) as desk:
        if words["default"]:
            if instant is None:
                raise click.UsageError("say which instant: --timestamp or --preset")
            change_default(desk, instant, words)
            return
        _require_sense(words, instant)
        named = chosen(desk, words["tables"], all_=words["all_"])
        carry_out(desk, "set", named, words, lambda one: _setting(desk, one, words, instant))


@click.command()
@tables
@halves
@click.option("--default", "default", is_flag=True, help="Take the system-wide default away.")
@consent
@common
def reset(**words: Any) -> None:  # noqa: ANN401  # as above
    """Read a table anew, or land it anew from its files, or both. No file is removed.

    \b
    Examples:
      syncd watermark reset -t orders --reason 'made anew'
      syncd watermark reset -t orders --redshift-only --reason 'the target was dropped'
    """  # as above
    _require_one_half(words)
    with open_desk(words["config"]) as desk:
        if words["default"]:
            change_default(desk, None, words)
            return
        named = chosen(desk, words["tables"], all_=words["all_"])

        def resetting(one: Named) -> "Act":
            extracted, loaded = not words["redshift_only"], not words["mysql_only"]
            return lambda person: person.reset_marks(one.stream, extracted=extracted, loaded=loaded)

        carry_out(desk, "reset", named, words, resetting)


@click.command()
@tables
@consent
@common
def undo(**words: Any) -> None:  # noqa: ANN401  # as above
    """Take back the last change by a person: marks become what they were, in new generations."""
    with open_desk(words["config"]) as desk:
        named = chosen(desk, words["tables"], all_=words["all_"])
        carry_out(desk, "undo", named, words, lambda one: lambda person: person.undo(one.stream))


# What was asked for.


def _instant(words: dict[str, Any]) -> datetime | None:
    if words["timestamp"] is not None and words["preset"] is not None:
        raise click.UsageError("--timestamp and --preset exclude each other")
    instant: datetime | None = words["timestamp"] or words["preset"]
    return instant


def _require_one_half(words: dict[str, Any]) -> None:
    if words["mysql_only"] and words["redshift_only"]:
        raise click.UsageError("--mysql-only and --redshift-only exclude each other: without either, both are meant")


def _require_sense(words: dict[str, Any], instant: datetime | None) -> None:
    _require_one_half(words)
    if instant is None and not words["key"] and words["after"] is None:
        raise click.UsageError("say what to set: --timestamp, --preset, --id or --after")
    if words["after"] is not None and not words["redshift_only"]:
        raise click.UsageError("--after is about loading: say --redshift-only with it")
    if words["after"] is not None and (instant is not None or words["key"]):
        raise click.UsageError("--after names a batch: leave out --timestamp, --preset and --id")


def _setting(desk: "Desk", one: Named, words: dict[str, Any], instant: datetime | None) -> "Act":
    from syncd.operations.mark_change import require_run
    from syncd.operations.position_input import require_positions

    if instant is not None and instant > desk.clock.now():
        raise click.UsageError(f"{instant:%Y-%m-%d %H:%M:%S} UTC lies in the future")
    state = desk.journal.newest(one.stream.stem)
    if words["redshift_only"]:
        require_run(state, one.stream)
    cursor, place = None, None
    if not words["redshift_only"] or words["key"]:
        require_positions(one.required())
        cursor = _cursor(desk, one, state, instant, words["key"])
    if not words["mysql_only"] and state is not None:
        place = _place(desk, one, state, words["after"] or (cursor if words["key"] else instant))
    extracted = None if words["redshift_only"] else cursor

    def act(person: Operator) -> Watermark:
        if place is None:
            return person.set_marks(one.stream, extracted=extracted)
        return person.set_marks(one.stream, extracted=extracted, after=place.after, loaded=place.reached)

    return act


def _cursor(desk: "Desk", one: Named, state: Watermark | None, instant: datetime | None, key: Sequence[str]) -> Cursor:
    """The position that was written down, in the stream's own kinds: as MySQL tells them, or else the mark."""
    from syncd.errors import SourceDown
    from syncd.operations.position_input import Shape

    settings = one.required()
    asked = desk.asked(settings)
    mark = state.chain.cursor if state else Cursor()
    if asked.order is not None:
        shape: Shape | None = Shape.of_order(asked.order)
    else:
        shape = Shape.of_mark(mark or _newest(desk, one, state), settings, zone=desk.zone(settings))
    if shape is None:
        raise SourceDown(
            f"MySQL cannot be asked what positions of {one.name} are made of: {asked.trouble}",
            hint="Once it answers, ask again. Where a mark stands and `zone` is set, it is not needed.",
        )
    return shape.position(mark, timestamp=instant, key=key)


def _newest(desk: "Desk", one: Named, state: Watermark | None) -> Cursor:
    """The position of the newest batch: after a reset the mark itself tells nothing of positions."""
    from watermarks.extraction import Chain
    from watermarks.progress import ORIGIN

    if state is None:
        return Cursor()
    chain = Chain(desk.journal, one.stream)
    ids = state.chain.ids_back(upto=state.chain.last, after=ORIGIN)
    return next((chain.required(batch).high for batch in ids), Cursor())


def _place(desk: "Desk", one: Named, state: Watermark, behind: "str | Cursor | datetime | None") -> "Place":
    """Where the load goes on: behind a batch that is named, or told by what it holds, or by when it was written."""
    from syncd.operations.batch_choice import batch_of, reached_by, written_by
    from watermarks.extraction import Chain

    chain = Chain(desk.journal, one.stream)
    match behind:
        case str():
            return batch_of(chain, state.chain, _batch(behind))
        case datetime():
            return written_by(chain, state.chain, behind)
        case _:
            return reached_by(chain, state.chain, behind or Cursor())


def _batch(text: str) -> BatchId:
    try:
        return BatchId.of_text(text)
    except BadBatch as error:
        raise click.BadParameter(error.message, param_hint="--after") from error
