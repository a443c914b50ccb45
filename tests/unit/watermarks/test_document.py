import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import NOON, ORDERS, RUN, at, make_chain, make_link, make_watermark
from watermarks.batch import BatchId, SnapshotProgress
from watermarks.codec import DamagedDocument, DocumentTooNew, ForeignDocument, encode
from watermarks.cursor import Cursor
from watermarks.document import FailureRecord, InconsistentMarks, Stage, StageStatus, Watermark
from watermarks.errors import StateUnreadable
from watermarks.progress import BatchOutOfOrder, ExtractProgress, Run, RunStrategy, SkippedBatches

LINKS = make_chain(3)


def again(state: Watermark) -> Watermark:
    return Watermark.from_bytes(state.to_bytes(), location="here", stem=state.stem)


def fields(state: Watermark) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(state.to_bytes())
    return found


FULL = replace(
    make_watermark(*LINKS, landed=2),
    revision=7,
    last_manual_revision=3,
    epochs={Stage.EXTRACT: 4, Stage.LOAD: 2},
    failures={
        Stage.LOAD: FailureRecord(message="no disk", attempt=2, failed_at=NOON, retry_at=NOON + timedelta(minutes=1))
    },
)


@pytest.mark.parametrize(
    "state",
    [
        Watermark.new(ORDERS, created_at=NOON),
        Watermark.new(ORDERS.with_target("wh2"), created_at=NOON),
        FULL,
        replace(
            FULL, failures={}, load_progress=FULL.load_progress.with_new_generation(BatchId(1, 1), cursor=at(1, 1))
        ),
        replace(FULL, load_progress=FULL.load_progress.with_batches_skipped(BatchId(1, 3))),
        replace(FULL, extract_progress=FULL.required_extract_progress.with_new_generation(at(0), snapshot=None)),
        replace(
            FULL,
            extract_progress=replace(
                FULL.required_extract_progress,
                cursor=Cursor.from_values(2**64 - 1),
                generation_start=Cursor.from_values(NOON.replace(tzinfo=None)),
            ),
        ),
        replace(
            FULL,
            extract_progress=replace(
                FULL.required_extract_progress, cursor=Cursor.from_values(NOON.replace(tzinfo=None), "a", 1)
            ),
        ),
        replace(
            FULL,
            extract_progress=replace(
                FULL.required_extract_progress,
                snapshot=SnapshotProgress(horizon=at(9), reached_key=Cursor.from_values(5), done=False),
            ),
        ),
    ],
)
def test_a_watermark_survives_its_document(state: Watermark) -> None:
    assert again(state) == state


def test_the_document_speaks_the_words_of_the_earlier_tool() -> None:
    said = fields(FULL)

    assert said["table_name"] == "shop.orders"
    assert said["last_mysql_data_timestamp"] == "2026-01-31T12:00:03.000000Z"
    assert said["last_mysql_key"] == ["int:3"]
    assert said["last_redshift_data_timestamp"] == "2026-01-31T12:00:02.000000Z"
    assert said["mysql_status"] == "success"
    assert said["redshift_status"] == "failed"
    assert said["last_error"] == "no disk"
    assert said["backup_strategy"] == "sequential"
    assert (said["mysql_rows_extracted"], said["mysql_rows_extracted_total"]) == (30, 30)
    assert (said["s3_file_count"], said["s3_file_count_total"]) == (6, 6)
    assert said["processed_s3_files"] == []
    assert said["processed_s3_files_folded"] == {"through": "1-2", "files": 4}
    assert said["metadata"] == {
        "manual_watermark": False,
        "total_processing_time_seconds": 0.0,
        "average_batch_size": 10,
    }
    expected = {"last_mysql_extraction_time", "last_redshift_load_time", "created_at", "updated_at", "generation"}
    assert expected | {"load_generation", "extracted_seq", "loaded_seq", "proven", "source_identity"} <= said.keys()


def test_the_document_of_a_further_target_has_no_extracted_half() -> None:
    said = fields(Watermark.new(ORDERS.with_target("wh2"), created_at=NOON))

    assert said["stream"] == "shop/shop.orders@wh2"
    assert "extracted_seq" not in said
    assert said["mysql_status"] is None


def test_a_watermark_of_another_stream_is_refused() -> None:
    with pytest.raises(ForeignDocument, match=r"watermark of shop/shop\.orders"):
        Watermark.from_bytes(FULL.to_bytes(), location="here", stem="shop/shop.orders_old")


def test_the_document_of_a_target_is_refused_under_the_streams_own_name() -> None:
    second = Watermark.new(ORDERS.with_target("wh2"), created_at=NOON)

    with pytest.raises(ForeignDocument):
        Watermark.from_bytes(second.to_bytes(), location="here", stem=ORDERS.stem)


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(DocumentTooNew, match="version 2"):
        Watermark.from_bytes(encode("watermarks/watermark", 2, FULL.to_fields()), location="here", stem=ORDERS.stem)


@pytest.mark.parametrize(
    "name",
    sorted(FULL.to_fields().keys() - {"table_name", "mysql_status", "redshift_status", "last_error", "metadata"}),
)
def test_a_field_that_is_gone_or_of_another_type_is_refused(name: str) -> None:
    whole = FULL.to_fields()
    wrong = [{k: v for k, v in whole.items() if k != name}, {**whole, name: 1.5}, {**whole, name: ["x"]}]

    for broken in wrong[:2] if whole[name] is not None else wrong[1:]:
        with pytest.raises(StateUnreadable):
            Watermark.from_bytes(encode("watermarks/watermark", 1, broken), location="here", stem=ORDERS.stem)


@pytest.mark.parametrize(
    "change",
    [
        {"unheard_of": 1},
        {"generation": -1},
        {"revision": True},
        {"backup_strategy": "magic"},
        {"loaded_seq": 9},
        {"load_base": "1_0"},
        {"skipped_batches": [["1-1"]]},
        {"skipped_batches": ["1-1"]},
        {"processed_s3_files": ["s3://bucket/a.parquet"]},
        {"processed_s3_files_folded": {"through": "1-1", "files": 4}},
        {"processed_s3_files_folded": {"through": "1-2", "files": 4, "more": 1}},
        {"epochs": {"dance": 1}},
        {"epochs": {"load": -1}},
        {"epochs": {"load": "1"}},
        {"failures": {"load": {"message": "x"}}},
        {"failures": {"load": "x"}},
        {"closed_generations": {"one": 1}},
        {"closed_generations": {"1": "2"}},
        {"last_mysql_data_timestamp": "2026-01-31 12:00:03"},
        {"last_mysql_key": ["3"]},
        {"last_mysql_key": [3]},
        {"stream": "orders"},
        {"created_at": "yesterday"},
        {"snapshot": {"horizon": [], "reached": [], "done": "no"}},
        {"snapshot": {"horizon": [], "reached": [], "done": True, "more": 1}},
    ],
)
def test_content_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    body = encode("watermarks/watermark", 1, {**FULL.to_fields(), **change})

    with pytest.raises(StateUnreadable):
        Watermark.from_bytes(body, location="here", stem=ORDERS.stem)


def test_more_loaded_than_extracted_is_refused() -> None:
    with pytest.raises(InconsistentMarks, match="batch 1-4 is loaded, but the chain ends at 1-3"):
        replace(FULL, load_progress=replace(FULL.load_progress, last_batch=BatchId(1, 4)))


def test_only_the_default_target_has_an_extracted_half() -> None:
    with pytest.raises(InconsistentMarks):
        replace(FULL, extract_progress=None)
    with pytest.raises(InconsistentMarks):
        replace(Watermark.new(ORDERS.with_target("wh2"), created_at=NOON), extract_progress=ExtractProgress())
    with pytest.raises(InconsistentMarks, match="further target"):
        _ = Watermark.new(ORDERS.with_target("wh2"), created_at=NOON).required_extract_progress


def test_a_failure_moves_no_position() -> None:
    failed = FULL.with_failure(Stage.EXTRACT, FailureRecord(message="gone", attempt=1, failed_at=NOON, retry_at=None))

    assert failed.stage_status(Stage.EXTRACT) is StageStatus.FAILED
    assert (failed.extract_progress, failed.load_progress) == (FULL.extract_progress, FULL.load_progress)


def test_an_advance_ends_the_failure_of_its_own_stage_only() -> None:
    failure = FailureRecord(message="gone", attempt=1, failed_at=NOON, retry_at=None)
    failed = FULL.with_failure(Stage.EXTRACT, failure).with_failure(Stage.LOAD, failure)
    next_link = make_link("1-4", low=LINKS[-1].high, high=at(4, 4), previous=LINKS[-1].digest)

    extracted = failed.with_link(next_link, run=RUN, now=NOON)
    landed = extracted.with_loaded_batch(LINKS[2], rows=10, run=RUN, now=NOON)

    assert set(extracted.failures) == {Stage.LOAD}
    assert set(landed.failures) == set()


def test_the_newest_failure_is_the_last_error() -> None:
    early = FailureRecord(message="early", attempt=1, failed_at=NOON, retry_at=None)
    late = FailureRecord(message="late", attempt=1, failed_at=NOON + timedelta(seconds=1), retry_at=None)

    assert replace(FULL, failures={Stage.LOAD: late, Stage.EXTRACT: early}).last_error == "late"
    assert replace(FULL, failures={}).last_error is None


def test_status_tells_how_each_stage_stands() -> None:
    new = Watermark.new(ORDERS, created_at=NOON)
    extracted = make_watermark(*LINKS)
    chunk = replace(
        extracted.required_extract_progress,
        snapshot=SnapshotProgress(horizon=at(9), reached_key=Cursor.from_values(1), done=False),
    )

    assert (new.stage_status(Stage.EXTRACT), new.stage_status(Stage.LOAD)) == (StageStatus.PENDING, StageStatus.PENDING)
    assert (extracted.stage_status(Stage.EXTRACT), extracted.stage_status(Stage.LOAD)) == (
        StageStatus.SUCCESS,
        StageStatus.PENDING,
    )
    assert make_watermark(*LINKS, landed=1).stage_status(Stage.LOAD) is StageStatus.IN_PROGRESS
    assert make_watermark(*LINKS, landed=3).stage_status(Stage.LOAD) is StageStatus.SUCCESS
    assert replace(extracted, extract_progress=chunk).stage_status(Stage.EXTRACT) is StageStatus.IN_PROGRESS


def test_a_load_leaves_a_manual_mark_as_it_is() -> None:
    """The rule of the manual commands: loading what lies on S3 never touches a mark that a person set."""
    manual = replace(
        make_watermark(*LINKS),
        extract_progress=make_watermark(*LINKS).required_extract_progress.with_new_generation(at(2), snapshot=None),
    )

    landed = manual.with_loaded_batch(LINKS[0], rows=10, run=Run(id="r2"), now=NOON)

    assert landed.extract_progress == manual.extract_progress
    assert fields(landed)["backup_strategy"] == "manual_cli"
    assert fields(landed)["metadata"]["manual_watermark"] is True
    assert fields(landed)["mysql_status"] == "pending"


def test_an_extraction_ends_a_manual_mark() -> None:
    manual = replace(
        make_watermark(*LINKS),
        extract_progress=make_watermark(*LINKS).required_extract_progress.with_new_generation(at(2), snapshot=None),
    )
    link = make_link("2-1", low=at(2), high=at(3, 3), previous=LINKS[-1].digest)

    advanced = manual.with_link(link, run=Run(id="r2"), now=NOON)

    assert advanced.required_extract_progress.strategy is RunStrategy.SEQUENTIAL
    assert fields(advanced)["metadata"]["manual_watermark"] is False


def test_setting_one_half_leaves_the_other() -> None:
    state = make_watermark(*LINKS, landed=2)

    set_extracted = replace(
        state, extract_progress=state.required_extract_progress.with_new_generation(at(0), snapshot=None)
    )
    set_loaded = replace(state, load_progress=state.load_progress.with_new_generation(BatchId(1, 1), cursor=at(1, 1)))

    assert set_extracted.load_progress == state.load_progress
    assert set_loaded.extract_progress == state.extract_progress


def test_a_batch_lands_once() -> None:
    state = make_watermark(*LINKS, landed=2)

    with pytest.raises(BatchOutOfOrder):
        state.with_loaded_batch(LINKS[1], rows=10, run=RUN, now=NOON)


def test_batches_that_a_person_left_out_are_not_expected_in_the_ledger() -> None:
    half = make_watermark(*LINKS, landed=1).load_progress.with_batches_skipped(BatchId(1, 2))

    assert half.skipped_batches == (SkippedBatches(after=BatchId(1, 1), up_to=BatchId(1, 2)),)
    assert [half.expects_in_ledger(BatchId(1, seq)) for seq in (1, 2, 3)] == [True, False, False]


def test_a_damaged_document_is_refused() -> None:
    body = FULL.to_bytes()

    for broken in (b"", b"  ", body[: len(body) // 2], b"null", b"[]", b"\xff\xfe", body.replace(b"1-2", b"1-3")):
        with pytest.raises(DamagedDocument):
            Watermark.from_bytes(broken, location="here", stem=ORDERS.stem)
