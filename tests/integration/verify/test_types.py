"""Every type on both servers: what was loaded is equal by sums alone, and a changed value of each is told."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from syncd.sandbox.running_sandbox import Sandbox
from syncd.verify.result import ComparisonState
from tests.integration.verify.conftest import Both
from tests.services.prepared import numbers
from tests.services.whole_types import ALONE, WIDE, Group, Stream

pytestmark = pytest.mark.services

STRANGE = {"double", "datetime_impossible", "computed", "nuls", "boolean"}
"""Those of them have values that policies meet, or that the server makes by itself."""
SUMS = 3
"""One on each side, and what opens the snapshot."""


def loaded(both: Callable[..., Both], box: Sandbox, group: Group, kind: str) -> tuple[Both, Stream]:
    mine = replace(group.on(kind), name=f"{group.name}{next(numbers)}")
    if not mine.cases:
        pytest.skip(f"{kind} has none of the types of {group.name}")
    stream = Stream(mine, "upsert", "shop", box.mysql)
    stream.create()
    pair = both(tables=stream.configured, defaults="invalid_text: quarantine")
    pair.run()
    return pair, stream


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["box"])


@pytest.mark.parametrize("group", WIDE, ids=lambda group: group.name)
def test_what_was_loaded_is_equal_by_its_sums(both: Callable[..., Both], box: Sandbox, group: Group, kind: str) -> None:
    pair, stream = loaded(both, box, group, kind)

    verdict = pair.verify(stream.table)

    assert verdict.state is ComparisonState.EQUAL, verdict.differences
    assert verdict.fetched_count == SUMS
    assert {one.name for one in verdict.uncomparable} <= {"c_json"}


@pytest.mark.parametrize("group", [one for one in ALONE if one.name in STRANGE], ids=lambda group: group.name)
def test_what_a_policy_met_is_no_difference(both: Callable[..., Both], box: Sandbox, group: Group, kind: str) -> None:
    pair, stream = loaded(both, box, group, kind)

    verdict = pair.verify(stream.table)

    assert verdict.state is ComparisonState.EQUAL, verdict.differences
    assert verdict.left_out.quarantined == verdict.rows - _landed(pair, stream)


def _landed(pair: Both, stream: Stream) -> int:
    return int(pair.client.value(f"select count(*) from {stream.table}"))


@pytest.mark.parametrize("group", WIDE, ids=lambda group: group.name)
def test_a_null_in_any_column_is_told(both: Callable[..., Both], box: Sandbox, group: Group, kind: str) -> None:
    pair, stream = loaded(both, box, group, kind)
    names = [f"c_{case.name}" for case in stream.group.cases]
    told: set[str] = set()
    wanted: set[str] = set()
    for name in names:
        held = pair.client.value(f"select min(n) from {stream.table} where {name} is not null")
        if held is not None:
            wanted.add(name)
            pair.there(f"update {stream.table} set {name} = null where n = {held}")

    for one in pair.verify(stream.table).differences:
        told.update(one.columns)

    assert told == wanted
