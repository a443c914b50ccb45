"""`syncd audit`: what does not hold is found, each with its consequence; and `syncd runs`: what past runs did."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from syncd.error_classes import ExitCode
from tests.integration.marks.conftest import Marks
from tests.services.prepared import Prepared, moment, row
from watermarks.batch import BatchLink
from watermarks.codec import encode, parse_json_object
from watermarks.document import FailureRecord, Stage, Watermark
from watermarks.extraction import BatchChain
from watermarks.history import ChangeKind, ChangeNote
from watermarks.operator import Operator

pytestmark = pytest.mark.services

Make = Callable[..., Marks]
Break = Callable[[Prepared], object]
FIELDS = {
    "table", "source", "consistent", "entries", "batches", "plans", "files", "removed_files", "files_read", "findings",
    "error",
}  # fmt: skip


def put(orders: Prepared, key: str, body: bytes) -> None:
    lake = orders.lake
    lake.client.put_object(Bucket=lake.settings.bucket, Key=lake.object_name(key), Body=body)


def edited(orders: Prepared, key: str, **words: Any) -> None:
    """The same document with other content and a digest that fits: as somebody who knows how would edit it."""
    fields = {**parse_json_object(orders.lake.read(key), location=key), **words}
    fields.pop("digest")
    put(orders, key, encode(fields.pop("format"), fields.pop("format_version"), fields))


def key(orders: Prepared, what: str, name: str) -> str:
    return f"{what}/{orders.stream.stem}/{name}.json"


def document(orders: Prepared) -> str:
    return f"watermarks/{orders.stream.stem}.json"


def link(orders: Prepared, number: int) -> BatchLink:
    state = orders.journal.read_newest(orders.stream.stem)
    assert state
    return BatchChain(orders.journal, orders.stream).require_link(
        replace(state.required_extract_progress.last_batch, seq=number)
    )


def other_rows(orders: Prepared) -> None:
    """A file swapped for another of the same length; S3's own tag is what a bucket's copy would have."""
    part = link(orders, 1).files[0]
    body = bytearray(orders.lake.read(part))
    body[len(body) // 3] ^= 1
    put(orders, part, bytes(body))


BREAKS: Mapping[str, tuple[Break, str, str]] = {
    "a link was edited": (
        lambda orders: edited(orders, key(orders, "batches", "1-1"), nonce="x"),
        "chain",
        "batch 1-2 does not name batch 1-1 as its predecessor",
    ),
    "a plan is gone": (
        lambda orders: orders.lake.delete_objects([key(orders, "plans", "1-2")]),
        "plans",
        "1-2.json is missing",
    ),
    "a plan was edited": (
        lambda orders: edited(orders, key(orders, "plans", "1-1"), nonce="x"),
        "plans",
        "batch 1-1 was made from another plan",
    ),
    "a file is gone": (
        lambda orders: orders.lake.delete_objects(link(orders, 3).files),
        "files",
        "is missing: batch 1-3",
    ),
    "a file is another one": (other_rows, "files", "its ETag has changed"),
    "an entry is gone": (
        lambda orders: orders.lake.delete_objects([key(orders, "history", "3")]),
        "history",
        "/3.json is missing",
    ),
    "the document says more than its history": (
        lambda orders: edited(orders, document(orders), mysql_rows_extracted=7),
        "document",
        "differs from entry",
    ),
    "a link is gone": (
        lambda orders: orders.lake.delete_objects([key(orders, "batches", "1-2")]),
        "chain",
        "1-2.json is missing",
    ),
}


def test_where_all_holds_it_says_so_and_writes_nothing(syncd: Make, two_landed: Prepared) -> None:
    made = syncd(two_landed)

    done = made("audit", "--deep", "--json")

    [told] = json.loads(done.out)["streams"]
    assert (done.code, made.wrote, set(told)) == (0, set(), FIELDS), done.out
    assert (told["consistent"], told["batches"], told["plans"], told["files"], told["files_read"]) == (True, 3, 3, 3, 3)
    assert f"shop.{two_landed.table}: consistent: 3 batches, 3 plans, 3 files" in made("audit").out


def test_each_break_is_found_with_its_consequence(syncd: Make, two_landed: Prepared) -> None:
    """One after the other on one chain: what was found stays found."""
    made = syncd(two_landed)
    whole = made("audit", "--json")
    assert whole.code == 0, whole.out

    for name, (break_, about, said) in BREAKS.items():
        break_(two_landed)
        done = made("audit", "--json")
        [told] = json.loads(done.out)["streams"]
        found = [each for each in told["findings"] if each["subject"] == about and said in each["message"]]
        assert (done.code, bool(found)) == (ExitCode.DOUBT, True), f"{name}: {told['findings']}"
        assert all(each["consequence"] and each["next_step"] for each in told["findings"])
    assert "consequence: a target that is rebuilt from the lake" in made("audit").out


def test_a_batch_that_does_not_begin_where_the_one_before_ended_is_found(syncd: Make, two_landed: Prepared) -> None:
    """A chain made by hand, each link naming the one before: only the plans tell."""
    gap = link(two_landed, 1)
    plan = parse_json_object(two_landed.lake.read(key(two_landed, "plans", "1-2")), location="plan")
    low = plan["windows"][0][0]
    moved = [low[0].replace("14:13:22", "14:13:21"), *low[1:]]
    windows = [[moved, plan["windows"][0][1]]]
    edited(two_landed, key(two_landed, "plans", "1-2"), windows=windows, world={**plan["world"], "mark": moved})

    done = syncd(two_landed)("audit", "--json")

    [told] = json.loads(done.out)["streams"]
    assert gap.high.to_texts() == low
    assert "windows" in {each["subject"] for each in told["findings"]}


def test_only_a_deep_look_finds_what_a_tag_does_not_tell(syncd: Make, two_landed: Prepared) -> None:
    """The manifest, and every digest after it, edited with care: its file is another one than was written."""
    part = link(two_landed, 3).files[0]
    other = link(two_landed, 2).files[0]
    body = two_landed.lake.read(other)
    fields = parse_json_object(two_landed.lake.read(key(two_landed, "batches", "1-3")), location="link")
    put(two_landed, part, body)
    [listed] = two_landed.lake.list_objects(part)
    mine = {**fields["body"]["parts"][0], "bytes": listed.bytes, "etag": listed.etag}
    edited(two_landed, key(two_landed, "batches", "1-3"), body={**fields["body"], "parts": [mine]})
    made = syncd(two_landed)

    shallow = json.loads(made("audit", "--json").out)["streams"][0]["findings"]
    deep = json.loads(made("audit", "--deep", "--json").out)["streams"][0]["findings"]

    assert {each["subject"] for each in shallow} == {"chain"}  # the document knows the digest of its newest link
    assert {each["subject"] for each in deep} == {"chain", "content"}


def test_what_a_person_did_and_what_was_cleaned_is_no_finding(syncd: Make, two_landed: Prepared) -> None:
    person = Operator(journal=two_landed.journal, author="ann", reason="again")
    person.reset_marks(two_landed.stream, reset_load=False)
    two_landed.increment(row(5, 5))
    made = syncd(two_landed)
    made("s3clean", "clean", "--older-than", "0s", "--yes")

    done = made("audit", "--json")

    [told] = json.loads(done.out)["streams"]
    assert (done.code, told["findings"], told["removed_files"]) == (0, [], 2)


def test_runs_are_told_from_history(syncd: Make, two_landed: Prepared) -> None:
    def failed(state: Watermark | None) -> Watermark:
        assert state
        return state.with_failure(
            Stage.LOAD, FailureRecord(message="no way", attempt=1, failed_at=moment(1), retry_at=None)
        )

    two_landed.journal.commit(
        two_landed.stream.stem,
        failed,
        ChangeNote(change=ChangeKind.FAIL, author="loader-9", reason="no way", stage="load"),
    )
    made = syncd(two_landed)

    done = made("runs", "--json")

    told = json.loads(done.out)
    assert (done.code, made.wrote, set(told)) == (0, set(), {"runs", "errors"})
    newest = told["runs"][0]
    assert set(newest) == {
        "table", "source", "stage", "run", "author", "started_at", "ended_at", "seconds", "batches", "rows", "files",
        "abandoned",
        "failures",
    }  # fmt: skip
    assert (newest["stage"], newest["author"], newest["failures"], newest["rows"]) == (
        "load",
        "loader-9",
        ["no way"],
        0,
    )
    assert {(one["stage"], one["batches"], one["rows"], one["files"]) for one in told["runs"][1:]} == {
        ("extract", 3, 4, 3),
        ("load", 2, 3, 2),
    }
    assert len(json.loads(made("runs", "--json", "--last", "1").out)["runs"]) == 1
    text = made("runs")
    assert "load failed at " in text.err
    assert f"shop.{two_landed.table}  load" in text.out


def test_a_history_with_a_hole_is_told(syncd: Make, two_landed: Prepared) -> None:
    two_landed.lake.delete_objects([key(two_landed, "history", "3")])

    done = syncd(two_landed)("runs")

    assert done.code == ExitCode.STATE
    assert "/3.json is missing" in done.err
