"""One load pass in a process of its own, with nothing else in it; prints its cost as JSON.

python -m benchmarks.one_load CONFIG
"""

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.config.check import read_settings
from syncd.redshift.session import WarehouseSession


def main(config: Path) -> None:
    statements: list[str] = []
    execute = WarehouseSession._execute  # noqa: SLF001  # every statement goes through it

    def recording(session: WarehouseSession, sql: str, *rest: Any, **options: Any) -> Any:  # noqa: ANN401  # as it is given
        statements.append(sql)
        return execute(session, sql, *rest, **options)

    setattr(WarehouseSession, "_execute", recording)  # noqa: B010  # a plain assignment is for types that match
    settings = read_settings(config, {})
    with StageService(settings, environ=os.environ, emit=lambda _: None) as service:
        start, began = processor(), time.perf_counter()
        for stream in settings.streams:
            outcome = service.load(stream, PassOptions())
            if outcome.error is not None:
                raise outcome.error
        seconds = time.perf_counter() - began
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    result = {"seconds": seconds, "cpu": processor(), "start": start, "peak": peak, "statements": statements}
    sys.stdout.write(json.dumps(result))


def processor() -> float:
    """Return the seconds of processor time so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]))
