"""JSON documents of the HTTP API; docs/reference/http.md lists the fields, and none is ever removed."""

from datetime import datetime
from typing import Any

from syncd.observe.board_view import (
    BatchRecord,
    BoardView,
    CompletenessView,
    PassRecord,
    StageFailure,
    StageView,
    StreamState,
    StreamView,
)
from watermarks.cursor import format_instant
from watermarks.names import StreamName


def board_to_json(view: BoardView) -> dict[str, Any]:
    """Return all streams without their passes and batches."""
    return {
        "at": format_instant(view.at),
        "since": format_instant(view.since),
        "states": {str(state): view.count(state) for state in StreamState},
        "streams": [stream_to_json(stream) for stream in view.streams],
    }


def stream_detail_to_json(stream: StreamView, *, at: datetime) -> dict[str, Any]:
    """Return one stream with its recent passes, batches and notices."""
    return {
        "at": format_instant(at),
        **stream_to_json(stream),
        "runs": [_pass_to_json(run) for run in stream.runs],
        "batches": [_batch_to_json(batch) for batch in stream.batches],
        "notices": [{"at": format_instant(notice.noticed_at), "text": notice.text} for notice in stream.notices],
    }


def stream_to_json(stream: StreamView) -> dict[str, Any]:
    return {
        **stream_name_to_json(stream.stream),
        "target": stream.target or None,
        "schedule": stream.schedule,
        "state": stream.state,
        "promised_lag_seconds": stream.promised_lag.total_seconds() if stream.promised_lag else None,
        "complete": _completeness_to_json(stream.last_stage.complete),
        "pending_batches": stream.pending_batches,
        "quarantined_rows": stream.quarantined_rows,
        "stages": {str(stage.stage): _stage_to_json(stage) for stage in stream.stages},
    }


def stream_name_to_json(stream: StreamName) -> dict[str, Any]:
    return {"name": str(stream), "table": stream.table_name, "source": stream.source}


def _stage_to_json(stage: StageView) -> dict[str, Any]:
    return {
        "state": stage.state,
        "running": stage.running,
        "strategy": stage.strategy or None,
        "started_at": _instant_to_json(stage.began_at),
        "rows_so_far": stage.rows_so_far,
        "reason": stage.waiting_reason or None,
        "held_until": _instant_to_json(stage.held_until),
        "error": _failure_to_json(stage.failure),
        "next_at": _instant_to_json(stage.next_due_at),
        "last_ended_at": _instant_to_json(stage.last_ended_at),
        "last_success_at": _instant_to_json(stage.last_success_at),
        "complete": _completeness_to_json(stage.complete),
        "mark": stage.mark.to_texts() if stage.mark is not None else None,
        "rows_per_second": round(stage.rows_per_second, 3),
        "recent_lag_seconds": [None if lag is None else round(lag, 3) for lag in stage.lag_seconds],
    }


def _failure_to_json(failure: StageFailure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "message": failure.message,
        "hint": failure.hint or None,
        "since": format_instant(failure.since),
        "count": failure.times,
    }


def _completeness_to_json(complete: CompletenessView | None) -> dict[str, Any] | None:
    if complete is None:
        return None
    return {
        "up_to": format_instant(complete.upto),
        "proven": complete.is_proven,
        "lag_seconds": round(complete.lag.total_seconds(), 3),
    }


def _pass_to_json(run: PassRecord) -> dict[str, Any]:
    return {
        "stage": run.stage,
        "ended_at": format_instant(run.ended_at),
        "state": run.state,
        "batches": run.batches,
        "rows": run.rows,
        "seconds": round(run.seconds, 3),
        "reason": run.reason or None,
        "error": run.error or None,
        "count": run.times,
    }


def _batch_to_json(batch: BatchRecord) -> dict[str, Any]:
    return {
        "stage": batch.stage,
        "at": format_instant(batch.moved_at),
        "batch": batch.first_batch,
        "last_batch": batch.last_batch,
        "kind": batch.kind,
        "rows": batch.rows,
        "files": batch.files,
        "bytes": batch.bytes,
        "quarantined": batch.quarantined,
        "seconds": round(batch.seconds, 3),
        "mark": batch.mark.to_texts(),
    }


def _instant_to_json(at: datetime | None) -> str | None:
    return format_instant(at) if at is not None else None
