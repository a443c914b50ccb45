"""A pass is ended from another thread: what is held for it ends, and nothing that is another's by now."""

import threading
from concurrent.futures import Future

import pytest

from syncd.concurrency.running_pass import RunningPass, StageSlot, run_in_thread
from syncd.errors import PassAlreadyRunning, PassStopped
from watermarks.document import Stage
from watermarks.names import StreamName

ORDERS = StreamName(source="shop", database="shop", table="orders")


def test_what_is_held_is_ended_and_what_was_given_back_is_not() -> None:
    under_way, ended = RunningPass("extract of shop.orders"), list[str]()
    with under_way.call_on_end(lambda: ended.append("before")):
        pass

    with under_way.call_on_end(lambda: ended.append("held")):
        under_way.end("it took longer than 6 h")
        under_way.end("again")

    assert ended == ["held"]


def test_nothing_is_begun_for_a_pass_that_was_ended() -> None:
    under_way = RunningPass("extract of shop.orders")
    under_way.end("it took longer than 6 h")

    with pytest.raises(PassStopped, match=r"extract of shop.orders was ended: it took longer than 6 h"):
        under_way.require_running()
    with pytest.raises(PassStopped), under_way.call_on_end(lambda: pytest.fail("nothing is held")):
        pytest.fail("it was begun")


def test_a_pause_ends_with_the_pass() -> None:
    under_way = RunningPass()
    pausing = run_in_thread(lambda: under_way.pause(60), name="pausing")

    under_way.end("the daemon stops")

    with pytest.raises(PassStopped, match="the daemon stops"):
        pausing.result(10)


def test_work_apart_goes_on_unheard() -> None:
    under_way, done = RunningPass(), Future[str]()
    heard = run_in_thread(lambda: under_way.run_detached(lambda: done.result(10), name="work"), name="hearing")

    under_way.end("the daemon stops")

    with pytest.raises(PassStopped):
        heard.result(10)
    done.set_result("done")


def test_what_others_work_out_is_awaited_no_longer_than_told() -> None:
    with pytest.raises(TimeoutError):
        RunningPass().wait_for(Future[str](), timeout_seconds=0.01)


def test_a_stage_of_a_stream_has_one_pass_at_a_time() -> None:
    lane = StageSlot(ORDERS, Stage.EXTRACT)

    with lane.begin_pass(), pytest.raises(PassAlreadyRunning), lane.begin_pass():
        pytest.fail("two passes of one stage")
    with lane.begin_pass() as again:
        assert not again.is_ended


def test_the_end_of_one_pass_is_none_of_the_next() -> None:
    lane, given_back = StageSlot(ORDERS, Stage.EXTRACT), list[str]()
    assert not lane.end("nothing is under way")

    with lane.begin_pass() as first:
        first.cleanup.callback(lambda: given_back.append("first"))
        assert lane.end("a stop was requested")
    with lane.begin_pass() as second:
        second.require_running()

    assert given_back == ["first"]


def test_two_threads_that_begin_at_once_are_told_apart() -> None:
    lane, ready, refused = StageSlot(ORDERS, Stage.LOAD), threading.Barrier(8), list[PassAlreadyRunning]()
    over = threading.Event()

    def begin() -> None:
        ready.wait()
        try:
            with lane.begin_pass():
                over.wait(10)
        except PassAlreadyRunning as error:
            refused.append(error)
            if len(refused) == 7:
                over.set()

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert len(refused) == 7
