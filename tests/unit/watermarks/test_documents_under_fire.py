"""Faults found in review: content that leaks an error of Python instead of a refusal."""

import json
from typing import Any

import pytest

from tests.unit.watermarks.test_history_under_fire import DOC, STREAM, extraction
from watermarks.codec import DamagedDocument, encode, parse_json_object
from watermarks.cursor import BadCursor, CursorValue, ValueKind
from watermarks.document import FORMAT_VERSION, WATERMARK_FORMAT_NAME, Watermark
from watermarks.errors import StateUnreadable
from watermarks.legacy import read_legacy_watermark
from watermarks.stores.memory import MemoryStore

CASES: list[tuple[str, Any]] = [
    ("closed_generations", {"1": None}),
    ("closed_generations", {"1": []}),
    ("closed_generations", {"1": 1.5}),
    ("closed_generations", {"1": True}),
    ("closed_generations", {"1": -3}),
    ("closed_generations", {" 1_0": 3}),
    ("closed_generations", {"9": 3}),
    ("failures", {"extract": 5}),
    ("failures", {"extract": None}),
    ("failures", {"extract": [1, 2]}),
    ("last_mysql_key", ["time:" + "9" * 30]),
    ("earlier_landings", [[True, "1-0", "1-1"]]),
    ("loaded_generation", 4),
    ("load_base", "9-9"),
]


@pytest.mark.parametrize(("name", "value"), CASES, ids=lambda case: str(case)[:40])
def test_a_sealed_document_with_a_wrong_content_is_refused_by_name(name: str, value: object) -> None:
    store = MemoryStore()
    extraction(store, batches=1)
    stored = store.read(DOC)
    assert stored
    fields = parse_json_object(stored.body, location="x")
    for gone in ("digest", "format", "format_version"):
        fields.pop(gone)
    fields[name] = value
    if name == "loaded_generation":
        fields["processed_s3_files_folded"]["through"] = "4-0"

    with pytest.raises(StateUnreadable):
        Watermark.from_bytes(encode(WATERMARK_FORMAT_NAME, FORMAT_VERSION, fields), location="x", stem=STREAM.stem)


def test_a_time_beyond_all_time_is_no_value() -> None:
    with pytest.raises(BadCursor):
        CursorValue.from_text("time:" + "9" * 30)


def test_an_integer_beyond_all_text_is_no_value() -> None:
    with pytest.raises(BadCursor):
        CursorValue(ValueKind.INT, 10**6000)


@pytest.mark.parametrize("moment", ["0001-01-01 00:00:00+05:00", "9999-12-31 23:59:59-05:00"])
def test_an_old_moment_at_the_end_of_time_is_damaged(moment: str) -> None:
    body = {"table_name": "a.b", "last_mysql_data_timestamp": moment, "mysql_status": "success"}

    with pytest.raises(DamagedDocument):
        read_legacy_watermark(json.dumps(body).encode(), location="x")
