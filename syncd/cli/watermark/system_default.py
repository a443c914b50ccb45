"""The system-wide default: where streams begin that are told no other."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from syncd.cli.output import say, show_json
from syncd.cli.stream_options import agreed
from syncd.cli.views.mark_format import moment
from watermarks.names import SYSTEM
from watermarks.operator import set_default

if TYPE_CHECKING:
    from syncd.app.operator_context import Desk
    from watermarks.system_default import SystemDefault


def change_default(desk: "Desk", start: datetime | None, words: dict[str, Any]) -> None:
    """Set the default, or take it away, where that is agreed to.

    Raises:
        UsageError: tables are named.
        Misuse: nobody is there to be asked.
        Abort: the answer is no.
    """
    from syncd.app.operator_context import who

    if words["tables"] or words["all_"] or words["mysql_only"] or words["redshift_only"]:
        raise click.UsageError("--default is of no table: leave out -t, --all, --mysql-only and --redshift-only")
    before = desk.defaults.newest(SYSTEM)
    if not words["as_json"]:
        click.echo(f"before: {default_told(before)}")
        click.echo(f"after:  {_told(start)}")
    after = before
    if not words["dry_run"]:
        agreed("Set this default? It moves no stream that has begun.", yes=words["yes"])
        after = set_default(desk.defaults, start, who=who(), why=words["reason"])
        say(f"the system-wide default is set as revision {after.revision}")
    if words["as_json"]:
        told = {"dry_run": words["dry_run"], "who": who(), "reason": words["reason"]}
        show_json({**told, "before": default_fields(before), "after": default_fields(after)})


def default_fields(state: "SystemDefault | None") -> dict[str, Any]:
    if state is None:
        return {"start": None, "revision": 0, "updated_at": None}
    fields = state.fields()
    return {"start": fields["last_run_timestamp"], "revision": state.revision, "updated_at": fields["updated_at"]}


def default_told(state: "SystemDefault | None") -> str:
    return _told(state.start if state else None)


def _told(start: datetime | None) -> str:
    if start is None:
        return "no system-wide default: streams that are told no other begin with their first row"
    return f"streams that are told no other begin at {moment(start)} UTC"
