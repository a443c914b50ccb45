"""The stages for those who only look: what a look notes for the next one, such as the horizon, is left nowhere."""

from collections.abc import Mapping

from syncd.app import StageService, open_overlay_store
from syncd.app.operator_context import OperatorContext


def open_preview_service(context: OperatorContext, environ: Mapping[str, str]) -> StageService:
    """Both stages over what the desk has open already, and nothing that they write is kept."""
    return StageService(
        context.settings,
        environ=environ,
        emit=lambda _: None,
        clock=context.clock,
        make_store=open_overlay_store,
        lake=context.lake,
        one_shot=True,
        response_monitor=context.response_monitor,
    )
