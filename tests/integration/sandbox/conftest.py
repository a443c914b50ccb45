from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from syncd.sandbox.process import ProcessId, find_marked
from syncd.sandbox.running_sandbox import Sandbox
from tests.services.servers import BOTH, ENVIRON, environ_of


@pytest.fixture(scope="session")
def environ() -> dict[str, str]:
    """Ours, without servers that a developer works with."""
    return ENVIRON


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """MySQL and S3 for tests that end nothing."""
    with Sandbox(tmp_path_factory.mktemp("shared"), services=["mysql", "s3"], environ=ENVIRON) as sandbox:
        yield sandbox


@pytest.fixture(scope="module", params=BOTH)
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A server to end and to restart: MariaDB, then MySQL itself where it can be had."""
    environ = environ_of(request.param)
    with Sandbox(tmp_path_factory.mktemp("own"), services=["mysql"], environ=environ) as sandbox:
        yield sandbox


@pytest.fixture
def remains() -> Callable[[Path], list[ProcessId]]:
    """What still runs for a sandbox's directory, whoever started it."""
    return lambda directory: [process for _, process in find_marked(f"@{directory}")]
