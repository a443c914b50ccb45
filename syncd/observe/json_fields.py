"""What the API tells of streams, as JSON has it; the fields are listed in docs/http.md, and only grow."""

from datetime import datetime
from typing import Any

from syncd.observe.board_view import BoardSeen, Complete, Ended, Mood, Moved, StageSeen, StreamSeen, Trouble
from watermarks.cursor import instant_text
from watermarks.names import StreamName


def board_fields(seen: BoardSeen) -> dict[str, Any]:
    """All streams, each in short."""
    return {
        "at": instant_text(seen.at),
        "since": instant_text(seen.since),
        "states": {str(mood): seen.count(mood) for mood in Mood},
        "streams": [stream_fields(one) for one in seen.streams],
    }


def one_fields(one: StreamSeen, *, at: datetime) -> dict[str, Any]:
    """One stream with all that is remembered of it."""
    return {
        "at": instant_text(at),
        **stream_fields(one),
        "runs": [_run(run) for run in one.runs],
        "batches": [_batch(batch) for batch in one.batches],
        "notices": [{"at": instant_text(notice.at), "text": notice.text} for notice in one.notices],
    }


def stream_fields(one: StreamSeen) -> dict[str, Any]:
    return {
        **named(one.stream),
        "target": one.target or None,
        "every": one.every,
        "state": one.mood,
        "promised_lag_seconds": one.promised.total_seconds() if one.promised else None,
        "complete": _complete(one.last_stage.complete),
        "pending_batches": one.pending,
        "quarantined_rows": one.quarantined,
        "stages": {str(stage.stage): _stage(stage) for stage in one.stages},
    }


def named(stream: StreamName) -> dict[str, Any]:
    return {"name": str(stream), "table": f"{stream.database}.{stream.table}", "source": stream.source}


def _stage(stage: StageSeen) -> dict[str, Any]:
    return {
        "state": stage.state,
        "running": stage.running,
        "strategy": stage.strategy or None,
        "began": _moment(stage.began),
        "rows_so_far": stage.rows_so_far,
        "why": stage.why or None,
        "until": _moment(stage.until),
        "error": _trouble(stage.trouble),
        "next": _moment(stage.next),
        "last": _moment(stage.last),
        "last_good": _moment(stage.last_good),
        "complete": _complete(stage.complete),
        "mark": stage.mark.texts() if stage.mark is not None else None,
        "rows_per_second": round(stage.rows_a_second, 3),
        "lags": [None if lag is None else round(lag, 3) for lag in stage.lags],
    }


def _trouble(trouble: Trouble | None) -> dict[str, Any] | None:
    if trouble is None:
        return None
    return {
        "message": trouble.message,
        "hint": trouble.hint or None,
        "since": instant_text(trouble.since),
        "times": trouble.times,
    }


def _complete(complete: Complete | None) -> dict[str, Any] | None:
    if complete is None:
        return None
    return {
        "upto": instant_text(complete.upto),
        "proven": complete.proven,
        "lag_seconds": round(complete.behind.total_seconds(), 3),
    }


def _run(run: Ended) -> dict[str, Any]:
    return {
        "stage": run.stage,
        "at": instant_text(run.at),
        "state": run.state,
        "batches": run.batches,
        "rows": run.rows,
        "seconds": round(run.seconds, 3),
        "reason": run.reason or None,
        "error": run.error or None,
        "times": run.times,
    }


def _batch(batch: Moved) -> dict[str, Any]:
    return {
        "stage": batch.stage,
        "at": instant_text(batch.at),
        "batch": batch.batch,
        "last": batch.last,
        "kind": batch.kind,
        "rows": batch.rows,
        "files": batch.files,
        "bytes": batch.bytes,
        "quarantined": batch.quarantined,
        "seconds": round(batch.seconds, 3),
        "mark": batch.mark.texts(),
    }


def _moment(at: datetime | None) -> str | None:
    return instant_text(at) if at is not None else None
