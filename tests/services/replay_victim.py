"""A replay that is killed at a named point.

python -m tests.services.replay_victim CONFIG TABLE POINT SIGNAL TTL

A point is one of the store, as in `tests.services.victim`, or one of RESTORING.
"""

import os
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from syncd.app.lake_access import open_store
from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.config.check import read_settings
from syncd.lake.quarantine import RestoreRequest
from syncd.s3.parts_writer import PartsWriter
from tests.services.victim import Point, StoppingStore

if TYPE_CHECKING:
    from syncd.lake.read_requests import Part, ReadResult
    from syncd.s3.lake_client import S3Lake
    from syncd.s3.quarantine_files import LakeQuarantineRestorer
    from watermarks.store import Store

RESTORING: Final = ("before restoring", "a part stands", "after restoring")


@dataclass(frozen=True)
class StoppingRestorer:
    """A restorer that is real, and stops the process around or within its work."""

    inner: "LakeQuarantineRestorer"
    point: Point

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def restore(self, restoring: RestoreRequest) -> "ReadResult":
        self.point.reached("before restoring")
        finish = PartsWriter.finish

        def finished(writer: PartsWriter) -> "list[Part]":
            parts = finish(writer)
            if parts:
                self.point.reached("a part stands")
            return parts

        setattr(PartsWriter, "finish", finished)  # noqa: B010  # mypy knows it as a method
        done = self.inner.restore(restoring)
        self.point.reached("after restoring")
        return done


class StoppingService(StageService):
    """The service as it is wired, but for the point."""

    point: Point

    @cached_property
    def quarantine_reader(self) -> Any:
        from syncd.s3.quarantine_files import LakeQuarantineRestorer  # noqa: PLC0415  # as it is wired

        return StoppingRestorer(LakeQuarantineRestorer(self.lake), self.point)


def main() -> None:
    config, table, text, number, ttl = sys.argv[1:]
    point = Point(text, int(number))
    settings = read_settings(Path(config), os.environ)
    stream = next(stream for stream in settings.streams if stream.table == table)

    def store(lake: "S3Lake") -> "Store":
        return StoppingStore(open_store(lake), point)

    with StoppingService(
        settings, environ=os.environ, emit=lambda _event: None, make_store=store, lease_ttl_seconds=float(ttl)
    ) as service:
        service.point = point
        outcome = service.replay(stream, PassOptions(), batch=None, will_load=False)
    if outcome.error is not None:
        sys.exit(f"{type(outcome.error).__name__}: {outcome.error.message}")


if __name__ == "__main__":
    main()
