import copy
import json
import pickle

from syncd.events import WaitKind, WaitReason, wait_kind, with_context

BUSY = WaitReason("99 threads run at db", WaitKind.THROTTLED)


def test_a_reason_is_its_text_and_keeps_its_kind_in_copies() -> None:
    assert BUSY == "99 threads run at db"
    assert json.dumps({"reason": BUSY}) == '{"reason": "99 threads run at db"}'
    assert {wait_kind(each) for each in (BUSY, copy.deepcopy(BUSY), pickle.loads(pickle.dumps(BUSY)))} == {
        WaitKind.THROTTLED
    }
    assert wait_kind("waits for orders, which runs first") is None


def test_a_context_before_a_reason_keeps_its_kind() -> None:
    reason = with_context("another server answers", BUSY)

    assert reason == "another server answers: 99 threads run at db"
    assert wait_kind(reason) is WaitKind.THROTTLED
    assert with_context("another server answers", "") == "another server answers"
