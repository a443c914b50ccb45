"""`syncd quarantine`, as an engineer and a program meet it; and replays that are killed at every point."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from syncd.app.pass_factory import PassOptions
from syncd.app.stage_services import StageService
from syncd.config.check import read_settings
from syncd.extract.extract_pass import ExtractOutcome
from syncd.s3.lake_client import S3Lake
from tests.integration.load.conftest import Loader, Reader, loader
from tests.integration.run.conftest import Command, Ran
from tests.services.prepared import ID, NAME, UPDATE_AT, json_column, row, text_column
from tests.services.replay_victim import RESTORING
from tests.services.travelling import Travelling
from tests.services.victim import REACHED
from watermarks.batch import BatchKind
from watermarks.extraction import BatchChain
from watermarks.progress import BEFORE_FIRST_BATCH

pytestmark = pytest.mark.services
__all__ = ["loader"]

Make = Callable[..., Command]
Travel = Callable[..., Travelling]
COLUMNS = (ID, NAME, UPDATE_AT, text_column("note"), json_column("doc"))
LONG = "x" * 70_000
TRUNCATE = ", oversize: truncate"
POINTS = [
    *(f"{when} {verb} {place}" for when in ("before", "after") for verb, place in (
        ("create", "owners"), ("create", "plans"), ("create", "replayed"), ("create", "batches"),
        ("create", "history +1"), ("create", "history +2"), ("replace", "claims"), ("replace", "watermarks"),
    )),
    *RESTORING,
]  # fmt: skip
FEW = (
    "after create plans",
    "after create replayed",
    "a part stands",
    "after create batches",
    "before create history +2",
)


@pytest.fixture
def travelling(lake: Any, journal: Any) -> Travel:
    def make(**words: Any) -> Travelling:
        return Travelling(lake, journal, **{"columns": COLUMNS, **words})

    return make


def told(ran: Ran) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    return found


def filled(orders: Travelling) -> None:
    """Three rows that land, one that the extraction puts aside, and one that the warehouse refuses."""
    orders.increment(
        row(1, 1, note="a", doc=b"{}"), row(2, 2, note=LONG, doc=None), row(3, 3, note=None, doc=b"{"),
        row(4, 4, note="", doc=b"[1]"), row(5, 5, note="b", doc=None),
    )  # fmt: skip
    orders.let_go()


def test_a_stream_that_cannot_be_read_keeps_no_other_from_being_looked_at(travelling: Travel, command: Make) -> None:
    broken, orders = travelling(), travelling()
    for each in (broken, orders):
        filled(each)
    name, lake = f"watermarks/{broken.stream.stem}.json", broken.lake
    lake.client.put_object(Bucket=lake.settings.bucket, Key=lake.object_name(name), Body=b"{")
    syncd = command(broken, orders)

    listed, shown = (syncd.say("quarantine", word, "--json") for word in ("list", "show"))

    assert (listed.code, shown.code) == (12, 12), listed.err
    assert {file["table"] for file in told(listed)["files"]} == {f"shop.{orders.table}"}
    assert {line["table"] for line in told(shown)["rows"]} == {f"shop.{orders.table}"}
    for ran in (listed, shown):
        [error] = told(ran)["errors"]
        assert (error["table"], error["error"]["exit"]) == (f"shop.{broken.table}", 12)
        assert f"error: shop.{broken.table}: " in ran.err


def test_list_show_and_replay_tell_a_person_what_to_know(travelling: Travel, command: Make, warehouse: Reader) -> None:
    orders = travelling(columns=COLUMNS[:4])
    table = f'"{orders.table}"'
    warehouse.client.run(
        f'create table {table} ("id" bigint, "name" varchar(200), "update_at" timestamp,'
        ' "note" varchar(65535) not null, "_syncd_batch" bigint)'
    )
    orders.increment(*(row(key, key, note={2: LONG, 3: None}.get(key, "a")) for key in range(1, 21)))
    orders.let_go()
    syncd = command(orders)
    assert syncd.run("--all", "--load-only").code == 0

    listed, shown = syncd.say("quarantine", "list"), syncd.say("quarantine", "show", "-t", orders.table)
    syncd.more = TRUNCATE
    for sql in (
        f'alter table {table} add column "n" varchar(65535)',
        f'update {table} set "n" = "note"',
        f'alter table {table} drop column "note"',
        f'alter table {table} rename column "n" to "note"',
    ):
        warehouse.client.run(sql)
    replayed = syncd.say("quarantine", "replay", "-t", orders.table)
    after = syncd.say("quarantine", "list")

    assert (listed.code, shown.code, replayed.code, after.code) == (0, 0, 0, 0), (replayed.err, replayed.out)
    assert [line.split()[:5] for line in listed.out.splitlines()[1:]] == [
        [f"shop.{orders.table}", "1-1", "extract", "1", "waiting"],
        [f"shop.{orders.table}", "1-1", "load", "1", "waiting"],
    ]
    assert (
        "2 rows wait. To see them: syncd quarantine show. Once they can be loaded: syncd quarantine replay"
        in listed.err
    )
    assert f"shop.{orders.table} batch 1-1, extract: note: oversize (70,000 bytes)" in shown.out
    assert f"note={'x' * 60}… (70,000 bytes)" in shown.out
    assert f"shop.{orders.table} batch 1-1, load: note: Cannot insert a NULL value" in shown.out
    assert "row 0 of quarantine/" in shown.out
    told_in_words = replayed.out.splitlines()[1].split()
    assert told_in_words == [f"shop.{orders.table}", "replayed", "2", "1", "0", "loaded", "2", "0"]
    assert "replayed by 1-2" in after.out
    assert [key for (key,) in warehouse.rows(orders, "id", order="1")] == list(range(1, 21))


def test_a_program_gets_everything_as_json_and_rows_whole_as_lines(travelling: Travel, command: Make) -> None:
    orders = travelling()
    filled(orders)
    syncd = command(orders)
    syncd.run("--all", "--load-only")

    listed = told(syncd.say("quarantine", "list", "--json"))
    shown = told(syncd.say("quarantine", "show", "--json", "--batch", "1-1", "-t", orders.table))
    lines = [json.loads(line) for line in syncd.say("quarantine", "show", "--lines").out.splitlines()]
    syncd.more = TRUNCATE
    replayed = syncd.say("quarantine", "replay", "--json", "--strict")

    assert (listed["waiting_rows"], listed["orphan_files"]) == (2, [])
    assert [(one["stage"], one["rows"], one["state"], one["replayed_by"]) for one in listed["files"]] == [
        ("extract", 1, "waiting", None), ("load", 1, "waiting", None),
    ]  # fmt: skip
    assert [one["reasons"][0]["column"] for one in shown["rows"]] == ["note", "doc"]
    assert (shown["rows"][0]["reasons"], shown["rows"][0]["key"]) == (
        [{"column": "note", "reason": "oversize", "bytes": 70_000}], {"id": 2},
    )  # fmt: skip
    assert [one["values"]["note"] for one in lines] == [LONG, None]
    assert lines[1]["values"]["doc"] == "{"
    [stream] = told(replayed)["streams"]
    assert (replayed.code, stream["state"], stream["rows"], stream["load"]["rows"]) == (7, "replayed", 2, 1)
    assert stream["load"]["quarantined"] == 1


def test_a_replay_that_only_extracts_needs_no_warehouse(travelling: Travel, command: Make) -> None:
    orders = travelling()
    filled(orders)
    syncd = command(orders, more=TRUNCATE, port=9)

    down = syncd.say("quarantine", "replay")
    dry = told(syncd.say("quarantine", "replay", "--extract-only", "--dry-run", "--json"))
    done = syncd.say("quarantine", "replay", "--extract-only", "--json")
    again = syncd.say("quarantine", "replay", "--extract-only")

    assert down.code == 6
    assert (dry["dry_run"], dry["streams"][0]["planned"]["origin"]) == (True, "1-1")
    assert (done.code, told(done)["streams"][0]["rows"]) == (0, 1)
    assert "nothing to do" in again.out
    assert "redshift_connector" not in done.loaded


def test_a_table_without_the_numbers_of_batches_is_refused_with_what_to_do(
    travelling: Travel, command: Make, warehouse: Reader
) -> None:
    orders = travelling()
    filled(orders)
    syncd = command(orders, more=TRUNCATE)
    warehouse.client.run(f'create table "{orders.table}" ("id" bigint)')

    done = syncd.say("quarantine", "replay", "-t", orders.table)

    assert done.code == 2
    assert f"error: shop.{orders.table}: the target of shop.{orders.table} has no column _syncd_batch" in done.err
    assert f"syncd run -t shop.{orders.table} --from INSTANT --until INSTANT" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "--batch", "one"), "'one' is not the number of a batch"),
        (("list", "-t", "nobody"), "no table nobody is configured"),
        (("replay", "--wait", "soon"), "--wait"),
    ],
)
def test_a_wrong_word_is_a_mistake_of_usage(
    travelling: Travel, command: Make, words: tuple[str, ...], said: str
) -> None:
    done = command(travelling()).say("quarantine", *words)

    assert done.code == 2
    assert said in done.err


def test_nothing_in_quarantine_is_said_so(travelling: Travel, command: Make) -> None:
    syncd = command(travelling())

    assert "the quarantine is empty" in syncd.say("quarantine", "list").out
    assert "no rows wait in quarantine" in syncd.say("quarantine", "show").out
    assert "nothing to do" in syncd.say("quarantine", "replay", "--extract-only").out


def test_a_file_that_is_gone_leaves_data_in_doubt(travelling: Travel, command: Make, lake: S3Lake) -> None:
    orders = travelling()
    filled(orders)
    syncd = command(orders)
    [file] = [one["file"] for one in told(syncd.say("quarantine", "list", "--json"))["files"]]
    lake.delete_objects([file])

    done = syncd.say("quarantine", "list", "--json", "-t", orders.table, "--batch", "1-1")

    assert (done.code, told(done)["files"][0]["state"]) == (7, "missing")


def replay(syncd: Command, orders: Travelling, *, ttl: float = 30.0) -> ExtractOutcome:
    settings = read_settings(syncd.config, os.environ)
    stream = next(stream for stream in settings.streams if stream.table == orders.table)
    with StageService(settings, environ=os.environ, emit=lambda _event: None, lease_ttl_seconds=ttl) as service:
        outcome = service.replay(stream, PassOptions(horizon_wait=timedelta(seconds=10)), batch=None, will_load=False)
    assert outcome.error is None, outcome.error
    return outcome


@contextmanager
def victim(
    syncd: Command, orders: Travelling, point: str, number: int, *, ttl: float = 30.0
) -> Iterator["subprocess.Popen[str]"]:
    """A replay in a process of its own, which meets a signal at a point."""
    words = [str(syncd.config), orders.table, point, str(int(number)), str(ttl)]
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.services.replay_victim", *words], stderr=subprocess.PIPE, text=True
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def story(travelling: Travel, loader: Loader) -> Travelling:
    """Two batches with four rows in quarantine, one of which has a newer version."""
    orders = travelling()
    orders.increment(row(1, 1, note="a", doc=None), *(row(key, key, note=LONG, doc=None) for key in (2, 3, 4)))
    orders.increment(row(5, 5, note=LONG, doc=None), row(2, 6, name="newer", note="n", doc=None))
    orders.let_go()
    loader.load(orders)
    return orders


def whole(orders: Travelling, loader: Loader, warehouse: Reader) -> None:
    """Every row once, none over a newer version, every number once in the ledger, no file without a link."""
    assert warehouse.rows(orders, "id, name", order="1") == [
        (1, "row 1"), (2, "newer"), (3, "row 3"), (4, "row 4"), (5, "row 5"),
    ]  # fmt: skip
    state = loader.journal.read_newest(orders.stream.stem)
    assert state
    chain = BatchChain(loader.journal, orders.stream)
    links = [chain.require_link(batch) for batch in state.required_extract_progress.batch_ids(after=BEFORE_FIRST_BATCH)]
    assert [(str(link.origin), link.rows) for link in links if link.kind is BatchKind.REPLAY] == [
        ("1-1", 3),
        ("1-2", 1),
    ]
    assert [batch for batch, _, _ in warehouse.ledger(orders)] == [10**12 + link.id.seq for link in links]
    named = {key for link in links for key in link.files}
    assert {found.key for found in loader.lake.list_objects(f"data/{orders.stream.chain_stem}/")} == named


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=pytest.mark.slow if point in FEW else pytest.mark.long) for point in POINTS]
)
def test_a_replay_killed_anywhere_and_run_again_brings_each_row_back_once(
    travelling: Travel, command: Make, loader: Loader, warehouse: Reader, point: str
) -> None:
    orders = story(travelling, loader)
    syncd = command(orders, more=TRUNCATE)
    state = loader.journal.read_newest(orders.stream.stem)
    assert state
    where = point.replace("+1", str(state.revision + 1)).replace("+2", str(state.revision + 2))
    with victim(syncd, orders, where, signal.SIGKILL) as killed:
        said = killed.communicate(timeout=600)[1]
    assert REACHED in said, (where, killed.returncode, said)

    replay(syncd, orders)
    loader.load(orders)

    whole(orders, loader, warehouse)
    assert replay(syncd, orders).batches == 0
    whole(orders, loader, warehouse)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["after create plans", "a part stands", "before create batches"])
def test_a_paused_replay_that_wakes_after_another_took_over_changes_nothing(
    travelling: Travel, command: Make, loader: Loader, warehouse: Reader, point: str
) -> None:
    orders = story(travelling, loader)
    syncd = command(orders, more=TRUNCATE)
    with victim(syncd, orders, point, signal.SIGSTOP, ttl=2.0) as paused:
        assert paused.stderr is not None
        assert any(REACHED in line for line in paused.stderr)
        replay(syncd, orders, ttl=2.0)
        loader.load(orders)
        whole(orders, loader, warehouse)

        paused.send_signal(signal.SIGCONT)
        said = paused.communicate(timeout=600)[1]

    assert paused.returncode == 1
    assert "Fenced" in said or "Ended" in said, said
    assert replay(syncd, orders).batches == 0
    whole(orders, loader, warehouse)
