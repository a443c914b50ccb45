"""System-wide default: the instant at which streams without their own `first_run` begin."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import print_message, show_json
from syncd.cli.stream_selection import require_confirmation
from syncd.cli.views.formats import format_instant
from watermarks.names import SYSTEM_STEM
from watermarks.operator import set_system_default

if TYPE_CHECKING:
    from syncd.app.operator_context import OperatorContext
    from watermarks.system_default import SystemDefault


def change_default(context: "OperatorContext", start: datetime | None, options: dict[str, Any]) -> None:
    """Set the default, or remove it, once the operator confirms.

    Raises:
        UsageError: tables are named.
        Misuse: there is no terminal to ask, and `--yes` is not given.
        Abort: the answer is no.
    """
    from syncd.app.operator_context import current_operator

    if options["tables"] or options["all_"] or options["mysql_only"] or options["redshift_only"]:
        raise click.UsageError("--default belongs to no table: leave out -t, --all, --mysql-only and --redshift-only")
    before = context.default_journal.read_newest(SYSTEM_STEM)
    if not options["as_json"]:
        click.echo(f"before: {describe_default(before)}")
        click.echo(f"after:  {_describe_start(start)}")
    after = before
    if not options["dry_run"]:
        require_confirmation("Set this default? Streams that have begun stay where they are.", yes=options["yes"])
        after = set_system_default(context.default_journal, start, author=current_operator(), reason=options["reason"])
        print_message(f"the system-wide default is set as revision {after.revision}")
    if options["as_json"]:
        request = {"dry_run": options["dry_run"], "author": current_operator(), "reason": options["reason"]}
        show_json({**request, "before": default_to_json(before), "after": default_to_json(after)})


def default_to_json(state: "SystemDefault | None") -> dict[str, Any]:
    if state is None:
        return {"start": None, "revision": 0, "updated_at": None}
    fields = state.to_fields()
    return {"start": fields["last_run_timestamp"], "revision": state.revision, "updated_at": fields["updated_at"]}


def describe_default(state: "SystemDefault | None") -> str:
    return _describe_start(state.start if state else None)


def _describe_start(start: datetime | None) -> str:
    if start is None:
        return "no system-wide default: streams without `first_run` begin with their first row"
    return f"streams without `first_run` begin at {format_instant(start)} UTC"
