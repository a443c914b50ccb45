"""`syncd watermark` on batches prepared without a JVM: a lake, a stand-in, and a MySQL that is away."""

import contextlib
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from syncd.cli.main import entry
from syncd.s3.lake_client import S3Lake
from syncd.sandbox.redshift import RedshiftStandIn
from tests.integration.load.conftest import journal, lake, loader, prepared, warehouse
from tests.integration.run.conftest import Command, Ran
from tests.services.prepared import Prepared
from tests.standin.conftest import bucket, client, clients, no_fault_left, s3_url, server

__all__ = [
    "bucket", "client", "clients", "journal", "lake", "loader", "no_fault_left", "prepared", "s3_url", "server",
    "warehouse",
]  # fmt: skip

READS = {"GetObject", "HeadObject", "ListObjectsV2"}


@dataclass
class Marks(Command):
    """`syncd watermark` in this process; other commands in one of their own."""

    group: tuple[str, ...] = ("watermark",)
    """What comes before the words."""
    requests: list[str] = field(default_factory=list)
    """What was asked of S3 by the last command."""
    said: str | None = None
    """What somebody at a terminal answers; None where nobody is there."""
    meanwhile: Callable[[], object] = lambda: None
    """What happens while they think."""

    def __call__(self, *words: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        self.requests.clear()
        stdin = Terminal(self.said, self.meanwhile) if self.said is not None else io.StringIO()
        argv, sys.argv = sys.argv, ["syncd", *self.group, *words, "--config", str(self.config)]
        before, sys.stdin = sys.stdin, stdin
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                entry()
            code: Any = 0
        except SystemExit as end:
            code = end.code
        finally:
            sys.argv, sys.stdin = argv, before
        return Ran(code=int(code or 0), out=out.getvalue(), err=err.getvalue())

    @property
    def wrote(self) -> set[str]:
        """Requests of the last command that change anything."""
        return {request for request in self.requests if request not in READS}


class Terminal(io.StringIO):
    def __init__(self, said: str, meanwhile: Callable[[], object]) -> None:
        super().__init__(said)
        self.meanwhile = meanwhile

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]  # typeshed has two of them
        self.meanwhile()
        return super().readline(-1 if size is None else size)


@pytest.fixture
def marks(
    lake: S3Lake, server: RedshiftStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Marks]:
    requests: list[str] = []
    real: Any = BaseClient._make_api_call  # type: ignore[attr-defined]  # the one place where all pass

    def recorded(self: BaseClient, operation: str, words: Any) -> Any:
        requests.append(operation)
        return real(self, operation, words)

    monkeypatch.setattr(BaseClient, "_make_api_call", recorded)

    def make(*tables: Prepared, **words: Any) -> Marks:
        return Marks(lake=lake, server=server, directory=tmp_path, tables=list(tables), requests=requests, **words)

    return make
