"""A lake and a warehouse that an older commit left are continued: nothing is refused, read anew or doubled."""

import io
import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

import watermarks
from tests.integration.continuity.conftest import Continued, Left
from tests.services.left_behind import ANSWERS, LOOKS, Answer, stored_objects

pytestmark = pytest.mark.services

READ: Final = {
    "orders": 3,
    "order_lines": 3,
    "events": 2,
    "customers": 2,
    "countries": 4,  # read whole each time
    "readings": 51,  # of its first snapshot 50 of 90 rows were left, and one is new
    "payments": 1,
    "tickets": 3,
    "invoices": 1,
    "sessions": 6,  # those above the held horizon once more, the one that committed late, and a new one
    "shipments": 6,  # five by the plan that was sealed, and one new
    "suppliers": 1,
}
"""Rows that one run of all streams reads after `CHANGES`."""
LOADED: Final = {**READ, "payments": 6}
"""Rows that it loads: a batch of five was waiting."""
BATCHES: Final = {**dict.fromkeys(READ, 1), "readings": 4, "shipments": 2}
NEXT: Final = {
    "orders": "1-9",
    "order_lines": "1-4",
    "events": "1-4",
    "customers": "1-3",
    "countries": "1-4",
    "readings": "1-3",
    "payments": "1-3",
    "tickets": "1-3",
    "invoices": "3-1",  # `set` and `undo` began a generation each
    "sessions": "1-4",
    "shipments": "1-2",
    "suppliers": "2-1",  # `import` began one
}
"""The number of the first batch of that run."""
ONCE: Final = ("history/", "plans/", "batches/", "data/", "quarantine/", "copy/", "markers/")
"""Below these prefixes nothing is ever replaced, but for the newest marker."""
CURRENT: Final = {"orders": "_syncd_deleted_at IS NULL", "customers": "_syncd_valid_to IS NULL"}
"""Which rows of a target stand for rows of the source, where not all do."""
HEX: Final = {"token": ("LOWER(HEX(token))", "LOWER(TO_HEX(token))")}
"""How binary columns are asked for on both sides."""


@pytest.mark.parametrize("name", sorted(LOOKS))
def test_commands_answer_as_the_older_commit_did(looked: dict[str, Answer], name: str) -> None:
    before = json.loads(ANSWERS.read_text())[name]

    answer = looked[name]

    assert answer.exit == before["exit"], str(answer)
    assert list(_missing(before["json"], answer.facts, at=name)) == []


def test_all_sides_agree_before_anything_is_changed(looked: dict[str, Answer]) -> None:
    checked, audited = looked["watermark check"].streams(), looked["audit"].streams()

    assert {table: (one["consistent"], one["complete"]) for table, one in checked.items()} == dict.fromkeys(
        READ, (True, True)
    )
    assert {table: one["findings"] for table, one in audited.items()} == {key: [] for key in READ}
    assert all(one["files_read"] == one["files"] for one in audited.values())


def test_a_document_is_encoded_in_the_bytes_it_was_read_from() -> None:
    parsed = {"watermarks": 0, "history": 0, "plans": 0, "batches": 0}
    for key, body in stored_objects():
        kind, _, rest = key.removesuffix(".json").partition("/")
        if kind not in parsed or "amended" in key:
            continue
        document = _parsed(kind, rest, key, body)
        assert document.to_bytes() == body, key
        parsed[kind] += 1
    assert min(parsed.values()) >= len(READ), parsed


def test_one_run_goes_on_where_each_stream_stood(continued: Continued) -> None:
    streams = continued.ran.streams()

    assert {table: one["rows"] for table, one in streams.items()} == READ
    assert {table: one["load"]["rows"] for table, one in streams.items()} == LOADED
    assert {table: one["batches"] for table, one in streams.items()} == BATCHES
    assert {table: (one["proven"], one["error"], one["load"]["pending_batches"]) for table, one in streams.items()} == (
        dict.fromkeys(READ, (True, None, 0))
    )
    assert not any(one["load"]["incomplete"] for one in streams.values())


def test_batches_are_numbered_on(continued: Continued) -> None:
    new = _new(continued, "batches/")

    first = {table: min((_number(key) for key in new if f"/shop.{table}/" in key), default=None) for table in READ}

    assert {table: "-".join(map(str, number or ())) for table, number in first.items()} == NEXT


def test_a_sealed_plan_is_carried_out_as_it_was(continued: Continued) -> None:
    plan, link = (json.loads(continued.after[f"{kind}/shop/shop.shipments/1-2.json"]) for kind in ("plans", "batches"))

    assert "plans/shop/shop.shipments/1-2.json" in continued.before
    assert (link["kind"], link["plan"]) == ("increment", plan["digest"])


def test_what_is_written_once_stays_as_it_was(continued: Continued) -> None:
    now = continued.after
    once = [key for key in continued.before if key.startswith(ONCE) and "latest" not in key]

    assert [key for key in once if now.get(key) != continued.before[key]] == []
    assert set(continued.before) <= set(now)


def test_new_documents_have_the_keys_formats_and_fields_of_the_old_ones(continued: Continued) -> None:
    before, now = continued.before, continued.after
    changed = {key: body for key, body in now.items() if before.get(key) != body}

    assert {_kind(key) for key in changed} <= {_kind(key) for key in before}
    known = _forms(before)
    assert {kind: forms - known[kind] for kind, forms in _forms(changed).items() if forms - known[kind]} == {}


def test_new_parts_have_the_columns_of_the_old_ones(continued: Continued) -> None:
    before, now = continued.before, continued.after
    added = {key: now[key] for key in _new(continued, "data/")}

    known = {key.split("/")[2]: _schema(body) for key, body in before.items() if key.startswith("data/")}
    adopted = {"shop.suppliers"}  # it has no older part
    compared = {key: _schema(body) for key, body in added.items() if key.split("/")[2] not in adopted}
    assert len(compared) >= len(READ) - len(adopted)
    assert [key for key, schema in compared.items() if schema != known[key.split("/")[2]]] == []


def test_the_warehouse_keeps_its_tables(continued: Continued) -> None:
    assert [row for row in continued.tables if row not in continued.left.tables()] == []
    new = {str(row[0]) for row in continued.left.tables()} - {str(row[0]) for row in continued.tables}
    # The adopted stream had never landed: its fence is made with its first batch.
    assert [re.sub(r"[0-9a-f]{16}$", "", name) for name in new] == ["syncd_fence_"]


def test_each_batch_stands_in_the_ledger_once(continued: Continued) -> None:
    twice = continued.left.in_warehouse(
        "SELECT stream, target, load_generation, batch, COUNT(*) FROM public.syncd_ledger"
        " GROUP BY stream, target, load_generation, batch HAVING COUNT(*) > 1"
    )

    assert twice == []


def test_an_operator_goes_on_with_the_history(continued: Continued) -> None:
    syncd, words = continued.left.syncd, ("-t", "invoices", "--yes", "--json", "--reason", "continued")
    done = syncd("watermark", "set", "--timestamp", "2026-01-02 00:00:00", *words).streams()["invoices"]
    undone = syncd("watermark", "undo", *words).streams()["invoices"]

    assert (done["applied"], undone["applied"]) == (True, True)
    assert (done["before"]["mark"], done["before"]["loaded"]) == (undone["after"]["mark"], undone["after"]["loaded"])


def test_rows_in_quarantine_can_be_replayed(continued: Continued) -> None:
    answer = continued.left.syncd("quarantine", "replay", "-t", "tickets", "--dry-run", "--json").streams()["tickets"]

    assert (answer["state"], answer["error"]) == ("planned", None)


def test_the_warehouse_is_equal_to_the_source_in_the_end(continued: Continued) -> None:
    left = continued.left
    verified = left.syncd("verify", "--all", "--repair", "--yes", "--json").streams()
    states = {table: one["state"] for table, one in verified.items()}

    # One row was deleted at the source, which only a comparison finds. A table without a cursor is read whole instead.
    assert states == {**dict.fromkeys(READ, "equal"), "orders": "repaired", "countries": "not compared"}
    assert verified["orders"]["repaired"]["ghost"] == 1
    assert {table for table, one in verified.items() if not one["proven"]} == {"countries"}
    for table in READ:
        source, target = _rows(left, table)
        assert source == target, table
        assert source, table
    assert left.in_warehouse("SELECT COUNT(*) FROM public.customers WHERE id IN (1, 2, 12)") == [(3 + 2 + 2,)]
    assert left.in_warehouse("SELECT COUNT(*) FROM public.orders WHERE _syncd_deleted_at IS NOT NULL") == [(3,)]

    looked = left.syncd.look("watermark check", "audit", "quarantine list")
    assert {table: one["consistent"] for table, one in looked["watermark check"].streams().items()} == (
        dict.fromkeys(READ, True)
    )
    assert {table: one["findings"] for table, one in looked["audit"].streams().items()} == {key: [] for key in READ}
    assert looked["quarantine list"].json["waiting_rows"] == 3


def _missing(before: Any, now: Any, *, at: str) -> Iterator[str]:
    """Yield where the older answer differs; fields may have been added since."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name, value in before.items():
            if name not in now:
                yield f"{at}.{name} is gone"
            else:
                yield from _missing(value, now[name], at=f"{at}.{name}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _missing(one, other, at=f"{at}[{number}]")
    elif before != now:
        yield f"{at}: {before!r} is now {now!r}"


def _parsed(kind: str, rest: str, key: str, body: bytes) -> Any:
    """Parse the document with the public classes of `watermarks`."""
    if kind == "watermarks":
        return watermarks.Watermark.from_bytes(body, location=key, stem=rest)
    stem, _, number = rest.rpartition("/")
    if kind == "history":
        return watermarks.HistoryEntry.from_bytes(body, location=key, stem=stem, revision=int(number))
    stream, batch = watermarks.StreamName.from_stem(stem), watermarks.BatchId.from_text(number)
    document = watermarks.Plan if kind == "plans" else watermarks.BatchLink
    return document.from_bytes(body, location=key, stream=stream, batch=batch)


def _new(continued: Continued, prefix: str) -> list[str]:
    return sorted(key for key in continued.after if key.startswith(prefix) and key not in continued.before)


def _number(key: str) -> tuple[int, ...]:
    return tuple(map(int, key.rpartition("/")[2].removesuffix(".json").split("-")))


def _kind(key: str) -> str:
    """The key without what differs from one object of its kind to the next."""
    parts = key.split("/")
    if parts[0] == "owners":
        return "owners/*.json"
    named = [
        part if part in {"shop", "default", parts[0]} else re.sub(r"^shop\.[a-z_]+", "shop.*", part) for part in parts
    ]
    return re.sub(r"(?<=[-./])[0-9a-f]{12}(?=[-.])|\d+", "#", "/".join(named))


def _forms(objects: Mapping[str, bytes]) -> dict[str, set[tuple[str, ...]]]:
    """Of each kind of key the formats, versions and field names of its documents."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for key, body in objects.items():
        if body.startswith(b"{"):
            document = json.loads(body)
            form = (str(document.get("format")), str(document.get("format_version")), *sorted(document))
            found.setdefault(_kind(key), set()).add(form)
    return found


def _schema(body: bytes) -> tuple[Any, ...]:
    """Columns with their types and notes, as a file holds them."""
    file = pq.ParquetFile(io.BytesIO(body))
    columns = [file.schema.column(place) for place in range(len(file.schema.names))]
    kinds = [
        (one.path, one.physical_type, str(one.logical_type), one.max_definition_level, one.length) for one in columns
    ]
    return (
        kinds,
        sorted(file.metadata.metadata or {}),
        file.metadata.format_version,
        file.metadata.row_group(0).column(0).compression,
    )


def _rows(left: Left, table: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """All rows of a table on both sides as sorted texts, asked through the servers' own drivers."""
    columns = [name for (name, *_) in left.at_source(f"SHOW COLUMNS FROM {table}")]
    here, there = (", ".join(HEX.get(name, (name, name))[side] for name in columns) for side in (0, 1))
    source = left.at_source(f"SELECT {here} FROM {table}")
    target = left.in_warehouse(f"SELECT {there} FROM public.{table} WHERE {CURRENT.get(table, '1 = 1')}")
    return _texts(source), _texts(target)


def _texts(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return sorted(tuple(map(_text, row)) for row in rows)


def _text(value: object) -> str:
    match value:
        case datetime():
            return value.isoformat(" ", "microseconds")
        case date():
            return value.isoformat()
        case Decimal() | str() | None:
            return f"{value}"
        case float() | int():
            return repr(value)
        case _:
            raise AssertionError(f"no form for {value!r}")
