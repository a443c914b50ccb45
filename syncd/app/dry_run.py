"""Previews for operator commands: dry runs of both stages whose notes, such as the horizon, are discarded."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from syncd.app.lake_access import new_nonce, open_overlay_store
from syncd.app.operator_context import OperatorContext
from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.extract.extract_pass import ExtractOutcome
from syncd.extract.plan_rules import ExtractRequest
from syncd.load.load_pass import LoadOutcome
from syncd.ports.source import SourceBound
from syncd.settings import StreamSettings

if TYPE_CHECKING:
    from syncd.operations.import_tables import ImportInspector
    from syncd.operations.row_explainer import RowExplainer
    from syncd.operations.run_forecast import RunForecaster


@dataclass(frozen=True, slots=True)
class StagePreviewer:
    """Dry runs of both stages; see the port `PassPreviewer`."""

    service: StageService

    def preview_extract(
        self, settings: StreamSettings, *, horizon_wait: timedelta, limit: int | None = None
    ) -> ExtractOutcome:
        request = ExtractRequest(limit=limit)
        return self.service.extract(settings, PassOptions(request=request, horizon_wait=horizon_wait, dry_run=True))

    def preview_load(self, settings: StreamSettings, *, limit: int | None = None) -> LoadOutcome:
        return self.service.load(settings, PassOptions(request=ExtractRequest(limit=limit), dry_run=True))

    def find_closed_position(self, settings: StreamSettings, *, horizon_wait: timedelta) -> SourceBound:
        return self.service.find_closed_position(settings, PassOptions(horizon_wait=horizon_wait, dry_run=True))


@contextmanager
def open_previewer(context: OperatorContext, environ: Mapping[str, str]) -> Iterator[StagePreviewer]:
    """Open both stages over the clients that the context has open already."""
    with StageService(
        context.settings,
        environ=environ,
        emit=lambda _: None,
        clock=context.clock,
        make_store=open_overlay_store,
        lake=context.lake,
        one_shot=True,
        response_monitor=context.response_monitor,
    ) as service:
        yield StagePreviewer(service)


@contextmanager
def open_run_forecaster(
    context: OperatorContext, environ: Mapping[str, str], *, horizon_wait: timedelta
) -> "Iterator[RunForecaster]":
    from syncd.operations.run_forecast import RunForecaster  # noqa: PLC0415  # only `syncd plan` needs it

    with open_previewer(context, environ) as previewer:
        yield RunForecaster(access=context, previewer=previewer, horizon_wait=horizon_wait)


@contextmanager
def open_import_inspector(
    context: OperatorContext, environ: Mapping[str, str], *, horizon_wait: timedelta
) -> "Iterator[ImportInspector]":
    from syncd.app.verification_setup import StreamVerifier  # noqa: PLC0415  # only the import needs it
    from syncd.operations.import_tables import ImportInspector  # noqa: PLC0415  # as above

    with (
        open_previewer(context, environ) as previewer,
        StreamVerifier(context.settings, lake=context.lake, response_monitor=context.response_monitor) as comparer,
    ):
        yield ImportInspector(
            access=context, previewer=previewer, comparer=comparer, horizon_wait=horizon_wait, make_nonce=new_nonce
        )


def build_row_explainer(
    context: OperatorContext, settings: StreamSettings, environ: Mapping[str, str], *, search_all_files: bool
) -> "RowExplainer":
    from syncd.operations.row_explainer import RowExplainer  # noqa: PLC0415  # only `syncd explain` needs it

    return RowExplainer(
        access=context,
        settings=settings,
        open_previewer=lambda: open_previewer(context, environ),
        search_all_files=search_all_files,
    )
