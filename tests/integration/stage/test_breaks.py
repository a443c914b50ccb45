"""A server that is another than before, or whose clock went back: real polls, and notes that remember it otherwise.

No server here can have its clock set. What its notes of a poll say can be: to the next poll that is the same.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from syncd.error_classes import ExitCode, exit_code_for
from syncd.errors import SourceReplaced
from syncd.events import BatchExtracted
from syncd.extract.extract_pass import ExtractState
from syncd.horizon import HorizonNotes
from tests.integration.stage.conftest import Pipe
from tests.services.arrivals import Arrivals
from tests.services.clients import Client
from watermarks.batch import BatchKind

pytestmark = pytest.mark.services

Change = Callable[[HorizonNotes], HorizonNotes]


def another(notes: HorizonNotes) -> HorizonNotes:
    return replace(notes, identity="the server before", t0=notes.t0 + timedelta(days=1))


def later(notes: HorizonNotes) -> HorizonNotes:
    """So the clock went back by some minutes, and has passed the mark again since."""
    return replace(notes, t0=notes.t0 + timedelta(minutes=5))


@pytest.fixture
def fine(pipe: Pipe) -> Pipe:
    """A table of a hundred rows, read, and stamped ten seconds ago; then five of them a little later."""
    pipe.tables = "fine: {ahead_after: 1h}"
    pipe.options = "reread: 5m"  # more than lies between a stamp and the poll that meets a break
    pipe.sql(
        "SET time_zone = '+00:00'",
        "DROP TABLE IF EXISTS fine",
        "CREATE TABLE fine (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL DEFAULT 1, update_at DATETIME(6)"
        " NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (update_at, id))",
        f"INSERT INTO fine (update_at) VALUES {', '.join(['(NOW(6) - INTERVAL 10 SECOND)'] * 100)}",
    )
    assert pipe.run("fine").rows == 100
    pipe.sql("SET time_zone = '+00:00'", "UPDATE fine SET v = 2 WHERE id <= 5")
    assert pipe.run("fine").rows == 5
    pipe.events.clear()
    return pipe


def remember(pipe: Pipe, change: Change) -> None:
    key = f"{pipe.prefix}/notes/mysql.json"
    body = pipe.client.get_object(Bucket=pipe.box.s3.bucket, Key=key)["Body"].read()
    changed = change(HorizonNotes.from_bytes(body, at=key)).to_bytes()
    pipe.client.put_object(Bucket=pipe.box.s3.bucket, Key=key, Body=changed)


def kinds(pipe: Pipe) -> list[str]:
    return [event.kind for event in pipe.events if isinstance(event, BatchExtracted)]


@pytest.mark.parametrize("change", [another, later])
def test_rows_stamped_below_the_mark_are_read_after_a_break(fine: Pipe, change: Change) -> None:
    fine.sql(
        "SET time_zone = '+00:00'",
        "UPDATE fine SET v = 7, update_at = NOW(6) - INTERVAL 40 SECOND WHERE id = 50",
    )
    assert fine.run("fine").rows == 0, "a cursor does not see it"
    remember(fine, change)

    first, second = fine.run("fine"), fine.run("fine")

    assert (first.error, kinds(fine)) == (None, [BatchKind.REPAIR])
    assert Arrivals.of(fine.lake, "mysql/shop.fine").versions[50] == 7
    assert (first.mark, second.rows, second.state) == (second.mark, 0, ExtractState.NOTHING)


@pytest.mark.parametrize("change", [another, later])
def test_what_is_open_at_first_sight_of_a_break_is_waited_for(fine: Pipe, change: Change) -> None:
    remember(fine, change)

    with Client(fine.box.mysql) as client:
        client.run(
            "SET time_zone = '+00:00'",
            "BEGIN",
            "UPDATE fine SET v = 8, update_at = NOW(6) - INTERVAL 40 SECOND WHERE id = 60",
        )
        waiting = [fine.run("fine") for _ in range(2)]
        client.run("COMMIT")
    after = fine.run("fine")

    assert [outcome.rows for outcome in waiting] == [0, 0]
    said = " ".join(outcome.wait_reason or str(outcome.error) for outcome in waiting)
    assert "another server" in said or "clock went back" in said
    assert all((outcome.error is None) is (change is another) for outcome in waiting)
    assert after.error is None
    assert Arrivals.of(fine.lake, "mysql/shop.fine").versions[60] == 8


def test_both_clocks_gone_back_stop_the_stream_until_a_person_says_from_when_on(fine: Pipe) -> None:
    def both(notes: HorizonNotes) -> HorizonNotes:
        assert notes.local_time
        return replace(later(notes), local_time=notes.local_time + timedelta(days=1))

    remember(fine, both)

    first, second = fine.run("fine"), fine.run("fine")

    for outcome in (first, second):
        assert isinstance(outcome.error, SourceReplaced)
        assert exit_code_for(outcome.error) is ExitCode.DOUBT
        assert "by an unknown time" in outcome.error.message
        assert "syncd watermark set -t shop.fine --mysql-only --timestamp" in outcome.error.hint
    assert kinds(fine) == []
