"""`check` finds what does not agree and says what comes next; `rebuild` writes what is proven, when told to."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from syncd.errors import SchemaDrift
from syncd.ports.source import LedgerRecord
from syncd.redshift.ledger_reader import WarehouseLedgerReader
from syncd.redshift.load_batches import LoadedFilesGone
from syncd.settings import Mode
from tests.integration.load.conftest import Loader, Reader
from tests.integration.marks.conftest import Marks
from tests.services.prepared import Prepared, row
from watermarks.batch import BatchId
from watermarks.codec import encode, parse_json_object
from watermarks.cursor import START_CURSOR
from watermarks.document import Watermark
from watermarks.loading import LedgerKey
from watermarks.progress import BEFORE_FIRST_BATCH

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
Make = Callable[..., Marks]


@pytest.fixture
def orders(prepared: Prepare, loader: Loader) -> Prepared:
    """Three batches, the first two of them loaded."""
    made = prepared()
    made.increment(row(1, 1), row(2, 2))
    made.increment(row(3, 3))
    loader.load(made)
    made.increment(row(4, 4))
    return made


def put(orders: Prepared, key: str, body: bytes) -> None:
    lake = orders.lake
    lake.client.put_object(Bucket=lake.settings.bucket, Key=lake.object_name(key), Body=body)


def sealed_anew(orders: Prepared, key: str, **words: Any) -> None:
    """The same document with other content, and a digest that fits: as somebody who knows how would edit it."""
    fields = {**parse_json_object(orders.lake.read(key), location=key), **words}
    fields.pop("digest")
    put(orders, key, encode(fields.pop("format"), fields.pop("format_version"), fields))


def document(orders: Prepared) -> str:
    return f"watermarks/{orders.stream.stem}.json"


def batch(orders: Prepared, name: str) -> str:
    return f"batches/{orders.stream.stem}/{name}.json"


def files(orders: Prepared, name: str) -> list[str]:
    found: list[str] = parse_json_object(orders.lake.read(batch(orders, name)), location=name)["files"]
    return found


def state_of(orders: Prepared) -> Watermark:
    state = orders.journal.read_newest(orders.stream.stem)
    assert state is not None
    return state


def test_where_all_agrees_it_says_so_and_writes_nothing(marks: Make, orders: Prepared) -> None:
    made = marks(orders)

    done = made("check", "--all", "--json")

    [told] = json.loads(done.out)["streams"]
    assert (done.code, made.wrote) == (0, set()), done.out
    assert told == {
        "table": f"shop.{orders.table}",
        "source": "shop",
        "consistent": True,
        "entries": state_of(orders).revision,
        "batches": 3,
        "files": 3,
        "removed_files": 0,
        "ledger_entries": 2,
        "complete": True,
        "findings": [],
        "error": None,
    }
    assert "consistent" in made("check", "--all", "--lake-only").out


BREAKS: Mapping[str, tuple[Callable[[Prepared, Reader], object], str, str, str]] = {
    "a file is gone": (
        lambda orders, _: orders.lake.delete_objects(files(orders, "1-3")),
        "files",
        "is missing: batch 1-3 cannot be loaded",
        "syncd watermark reset",
    ),
    "a file that has landed is gone": (
        lambda orders, _: orders.lake.delete_objects(files(orders, "1-1")),
        "files",
        "is missing: batch 1-1 is loaded",
        "--mysql-only",
    ),
    "a file was cut": (
        lambda orders, _: put(orders, files(orders, "1-2")[0], b"PAR1"),
        "files",
        "has 4 bytes, not",
        "restore it",
    ),
    "a manifest is gone": (
        lambda orders, _: orders.lake.delete_objects([batch(orders, "1-2")]),
        "chain",
        "1-2.json is missing",
        "restore it",
    ),
    "a manifest was damaged": (
        lambda orders, _: put(orders, batch(orders, "1-2"), b"{}"),
        "chain",
        "has format None",
        "restore it",
    ),
    "a manifest was edited with care": (
        lambda orders, _: sealed_anew(orders, batch(orders, "1-2"), nonce="other"),
        "chain",
        "batch 1-3 does not name batch 1-2 as its predecessor",
        "restore it",
    ),
    "the newest manifest was edited with care": (
        lambda orders, _: sealed_anew(orders, batch(orders, "1-3"), nonce="other"),
        "chain",
        "the newest batch 1-3 is not the one",
        "restore it",
    ),
    "an entry is gone": (
        lambda orders, _: orders.lake.delete_objects([f"history/{orders.stream.stem}/3.json"]),
        "history",
        "/3.json is missing",
        "restore it",
    ),
    "the ledger was restored": (
        lambda _, reader: reader.client.run("delete from syncd_ledger where batch = 1000000000002"),
        "ledger",
        "it lacks batch 1-2",
        "--load-only",
    ),
    "the ledger is of another manifest": (
        lambda _, reader: reader.client.run("update syncd_ledger set manifest = 'x' where batch = 1000000000001"),
        "ledger",
        "batch 1-1 was loaded from another manifest",
        "restore it",
    ),
    "the target is gone": (
        lambda orders, reader: reader.client.run(f'drop table "{orders.table}"'),
        "target",
        "is missing, although rows were loaded into it",
        "--redshift-only",
    ),
    "the target has another name": (
        lambda orders, reader: reader.client.run(f'alter table "{orders.table}" rename to "{orders.table}_old"'),
        "target",
        "is missing, although rows were loaded into it",
        "--redshift-only",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_does_not_agree_is_found(marks: Make, orders: Prepared, warehouse: Reader, name: str) -> None:
    break_, about, message, after = BREAKS[name]
    break_(orders, warehouse)
    made = marks(orders)

    done = made("check", "-t", orders.table, "--json")
    text = made("check", "-t", orders.table)

    [told] = json.loads(done.out)["streams"]
    assert (done.code, text.code, made.wrote) == (7, 7, set()), done.err
    found = [one for one in told["findings"] if one["subject"] == about and message in one["message"]]
    assert len(found) == 1, told["findings"]
    assert after in found[0]["next_step"]
    assert found[0]["message"] in text.out


def test_a_ledger_that_is_ahead_is_found_and_followed(
    marks: Make, orders: Prepared, loader: Loader, warehouse: Reader
) -> None:
    """As a loader leaves it that dies between its commit and the loaded mark."""
    settled = orders.lake.read(document(orders)), state_of(orders).revision
    loader.load(orders)
    last = state_of(orders).revision
    orders.lake.delete_objects(
        [f"history/{orders.stream.stem}/{revision}.json" for revision in range(settled[1] + 1, last + 1)]
    )
    put(orders, document(orders), settled[0])
    made = marks(orders)

    found = made("check", "--all")
    looked = made("rebuild", "--all", "--from-ledger")
    wrote_looking = made.wrote
    before = state_of(orders).load_progress.last_batch
    done = made("rebuild", "--all", "--from-ledger", "--yes", "--json")

    assert (found.code, "lists batch 1-3, beyond the loaded mark" in found.out) == (7, True)
    assert (looked.code, wrote_looking, before) == (0, set(), BatchId(1, 2))
    assert "1 batch in the ledger, but not loaded according to the mark" in looked.out
    assert "add --yes" in looked.err
    assert done.code == 0, done.err
    state = state_of(orders)
    assert (state.load_progress.last_batch, state.load_progress.load_generation, state.load_progress.counts.rows) == (
        BatchId(1, 3),
        1,
        4,
    )
    assert made("check", "--all").code == 0
    assert loader.load(orders, compare=True).batches == 0
    assert warehouse.ledger(orders)[-1][0] == 1000000000003


def test_a_ledger_of_a_chain_that_was_there_before_a_restore_is_not_followed(
    marks: Make, orders: Prepared, loader: Loader
) -> None:
    """What has its number now never landed: the mark over it would lose its rows."""
    settled, revision = orders.lake.read(document(orders)), state_of(orders).revision
    orders.increment(row(5, 5))
    loader.load(orders)
    last = state_of(orders).revision
    newer = [f"history/{orders.stream.stem}/{number}.json" for number in range(revision + 1, last + 1)]
    orders.lake.delete_objects([*newer, *(f"{what}/{orders.stream.stem}/1-4.json" for what in ("plans", "batches"))])
    put(orders, document(orders), settled)
    orders.increment(row(6, 6))
    made = marks(orders)

    looked = made("rebuild", "--all", "--from-ledger")
    done = made("rebuild", "--all", "--from-ledger", "--yes")

    assert (looked.code, done.code) == (7, 7), done.out
    assert "batch 1-4 of the ledger is not batch 1-4 of the lake" in done.err
    assert f"syncd watermark reset -t shop.{orders.table} --redshift-only" in done.err
    assert state_of(orders).load_progress.last_batch == BatchId(1, 2)


def test_a_ledger_that_is_behind_is_followed_back_and_lands_the_rest_again(
    marks: Make, orders: Prepared, loader: Loader, warehouse: Reader
) -> None:
    warehouse.client.run("delete from syncd_ledger where batch = 1000000000002")
    warehouse.client.run(f'delete from "{orders.table}" where id = 3')
    made = marks(orders)

    done = made("rebuild", "--all", "--from-ledger", "--yes")

    assert done.code == 0, done.err
    assert "proves everything up to batch 1-1: 1 batch loaded according to the mark, but not in the ledger" in done.out
    state = state_of(orders)
    assert (state.load_progress.last_batch, state.load_progress.load_generation) == (BatchId(1, 1), 2)
    loader.load(orders)
    assert [key for key, _ in warehouse.rows(orders)] == [1, 2, 3, 4]
    assert made("check", "--all").code == 0


@pytest.mark.parametrize("when", ["before the ledger tells", "after the ledger told"])
def test_batches_that_land_while_the_ledger_is_asked_are_not_taken_for_lost(
    marks: Make, orders: Prepared, loader: Loader, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    real, keys = WarehouseLedgerReader.read_entries, iter(range(5, 100))

    def landing() -> None:
        orders.increment(row(key := next(keys), key))
        loader.load(orders)

    def entries(books: WarehouseLedgerReader) -> Mapping[LedgerKey, LedgerRecord]:
        if when == "before the ledger tells":
            landing()
        told = real(books)
        landing()
        return told

    monkeypatch.setattr(WarehouseLedgerReader, "read_entries", entries)

    done = marks(orders)("rebuild", "--all", "--from-ledger", "--yes")

    state = state_of(orders)
    assert done.code == 0, done.err
    assert "but not in the ledger" not in done.out
    assert (state.load_progress.last_batch, state.load_progress.load_generation, state.last_manual_revision) == (
        state.required_extract_progress.last_batch,
        1,
        0,
    )


def test_a_ledger_and_a_target_that_are_gone_are_followed_and_everything_lands_again(
    marks: Make, orders: Prepared, loader: Loader, warehouse: Reader
) -> None:
    warehouse.client.run("delete from syncd_ledger")
    warehouse.client.run(f'drop table "{orders.table}"')
    made = marks(orders)

    done = made("rebuild", "--all", "--from-ledger", "--yes")

    assert done.code == 0, done.err
    state = state_of(orders)
    assert (state.load_progress.last_batch, state.load_progress.load_generation, state.load_progress.cursor) == (
        BEFORE_FIRST_BATCH,
        2,
        START_CURSOR,
    )
    loader.load(orders)
    assert [key for key, _ in warehouse.rows(orders)] == [1, 2, 3, 4]
    assert made("check", "--all").code == 0


def test_what_a_hint_names_leads_out_where_the_ledger_and_files_are_lost(
    marks: Make, orders: Prepared, loader: Loader, warehouse: Reader
) -> None:
    """A warehouse restored to an older state, and the files since then cleaned: neither side has those rows."""
    warehouse.client.run("delete from syncd_ledger where batch = 1000000000002")
    warehouse.client.run(f'delete from "{orders.table}" where id = 3')
    orders.lake.delete_objects(files(orders, "1-2"))
    made = marks(orders)

    with pytest.raises(LoadedFilesGone) as caught:
        loader.load(orders)
    commands = [each.strip() for each in re.findall(r"syncd watermark ([^;]+)", caught.value.hint)]
    refused = made("reset", "-t", orders.table, "--redshift-only", "--yes")
    codes = [made(*command.split(), *(() if "--yes" in command else ("--yes",))).code for command in commands]

    assert (refused.code, codes) == (7, [0, 0, 0])
    assert len(commands) == 3
    orders.increment(*(row(key, key) for key in (1, 2, 3, 4)))
    loader.load(orders)
    assert [key for key, _ in warehouse.rows(orders)] == [1, 2, 3, 4]


def test_what_a_hint_names_leads_out_of_a_changed_mode(
    marks: Make, prepared: Prepare, loader: Loader, warehouse: Reader
) -> None:
    orders = prepared(mode=Mode.REPLACE, cursor="none")
    orders.chunk(row(1, 1), row(2, 2), done=True)
    loader.load(orders)
    orders.chunk(row(1, 1), row(2, 2), row(3, 3), done=True)
    orders.mode, orders.cursor = Mode.UPSERT, "update_at"
    made = marks(orders)

    with pytest.raises(SchemaDrift) as caught:
        loader.load(orders)
    commands = re.findall(r"syncd watermark ([^;]+)", caught.value.hint)
    codes = [made(*command.strip().split(), "--yes").code for command in commands]
    orders.increment(row(1, 1), row(2, 2), row(4, 4))
    loader.load(orders)

    assert codes == [0, 0]
    assert [key for key, _ in warehouse.rows(orders)] == [1, 2, 4]


@pytest.mark.parametrize("stands", ["nothing", "rubbish", "an older one"])
def test_a_document_is_rebuilt_from_its_history(marks: Make, orders: Prepared, stands: str) -> None:
    whole = orders.lake.read(document(orders))
    key, older = document(orders), f"history/{orders.stream.stem}/2.json"
    if stands == "nothing":
        orders.lake.delete_objects([key])
    elif stands == "rubbish":
        put(orders, key, b"\x00")
    else:
        fields = parse_json_object(orders.lake.read(older), location=older)["to"]
        del fields["digest"]
        put(orders, key, encode(fields.pop("format"), fields.pop("format_version"), fields))
    made = marks(orders)

    looked = made("rebuild", "--all")
    wrote_looking = made.wrote
    done = made("rebuild", "--all", "--yes", "--json")

    told = {"nothing": "document: nothing", "rubbish": "unreadable", "an older one": "document: revision 2"}[stands]
    assert (looked.code, wrote_looking, told in looked.out) == (0, set(), True), looked.out + looked.err
    assert done.code == 0, done.err
    assert orders.lake.read(key) == whole
    [one] = json.loads(done.out)["streams"]
    assert set(one) == {"table", "source", "history", "ledger", "after", "error"}
    assert set(one["history"]) == {"revision", "entries", "stored_document", "matches_history"}


def test_nothing_is_rebuilt_where_all_is_well_or_nothing_is_proven(
    marks: Make, orders: Prepared, prepared: Prepare
) -> None:
    lost = prepared()
    lost.lake.delete_objects([f"watermarks/{lost.stream.stem}.json", f"history/{lost.stream.stem}/1.json"])
    made = marks(orders, lost)

    done = made("rebuild", "--all", "--yes")

    assert (done.code, made.wrote) == (12, set())
    assert "the document agrees" in done.out
    assert "nothing to write" in done.out
    assert "has no history" in done.err


def test_a_watermark_that_cannot_be_read_is_told_and_the_others_are_checked(
    marks: Make, orders: Prepared, prepared: Prepare
) -> None:
    broken = prepared()
    broken.increment(row(1, 1))
    put(broken, document(broken), b"{")

    done = marks(orders, broken)("check", "--all")

    assert done.code == 12
    assert f"shop.{orders.table}: consistent" in done.out
    assert f"error: shop.{broken.table}" in done.err


def test_a_warehouse_that_is_away_is_told(marks: Make, orders: Prepared) -> None:
    made = marks(orders, port=9)

    away, aside = made("check", "--all"), made("check", "--all", "--lake-only")

    assert (away.code, aside.code) == (6, 0), away.err
