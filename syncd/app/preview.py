"""The stages for those who only look: what a look notes for the next one, such as the horizon, is left nowhere."""

from collections.abc import Mapping

from syncd.app import Service, open_unwritten
from syncd.app.operator_context import Desk


def looking(desk: Desk, environ: Mapping[str, str]) -> Service:
    """Both stages over what the desk has open already, and nothing that they write is kept."""
    return Service(
        desk.settings,
        environ=environ,
        tell=lambda _: None,
        clock=desk.clock,
        store=open_unwritten,
        lake=desk.lake,
        one_shot=True,
        silences=desk.silences,
    )
