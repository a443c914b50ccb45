"""`syncd s3clean`: what may go is shown, goes when told to, and nothing goes that is needed."""

import io
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from syncd.error_classes import ExitCode
from syncd.operations.cleanup import FileRemoval
from syncd.operations.cleanup_preview import CleaningProposal, CleaningSearch
from syncd.operations.cleanup_rules import RemovalReason
from syncd.operations.mark_change import ChangedMeanwhile
from syncd.redshift.load_batches import LoadedFilesGone
from syncd.s3.lake_client import S3Lake
from syncd.s3.object_removal import LakeRemover
from syncd.settings import LakeSettings
from tests.builders import make_increment
from tests.integration.load.conftest import Loader, Reader
from tests.integration.marks.conftest import Marks
from tests.services.moto_server import moto_server
from tests.services.prepared import Prepared, moment, row
from watermarks.batch import BatchId, BatchKind
from watermarks.cursor import Cursor
from watermarks.document import Watermark
from watermarks.extraction import BatchChain
from watermarks.history import Journal
from watermarks.operator import Operator
from watermarks.stores.s3 import S3Store

pytestmark = pytest.mark.services

Prepare = Callable[..., Prepared]
Make = Callable[..., Marks]
NOW = ("--older-than", "0s")
FIELDS = {"table", "source", "removable", "kept", "batches_to_abandon", "error"}


def data(orders: Prepared) -> dict[str, int]:
    """How many files lie there of each batch."""
    found: dict[str, int] = {}
    for each in orders.lake.list_objects(f"data/{orders.stream.chain_stem}/"):
        batch = each.key.split("/")[-2]
        found[batch] = found.get(batch, 0) + 1
    return found


def told(text: str) -> dict[str, Any]:
    [found] = json.loads(text)["streams"]
    return dict(found)


def orphan(orders: Prepared, batch: str, name: str = "00000.000-gone.parquet") -> str:
    key = f"data/{orders.stream.chain_stem}/2026/09/21/{batch}/{name}"
    orders.lake.put(key, b"PAR1")
    return key


def proposal(orders: Prepared, *wanted: RemovalReason) -> CleaningProposal:
    look = CleaningSearch(stream=orders.stream, journal=orders.journal, lake=orders.lake)
    now = orders.journal.clock.now()
    return look.propose(frozenset(wanted), now=now, before=now + timedelta(seconds=1))


def removal(orders: Prepared, **more: Any) -> FileRemoval:
    return FileRemoval(journal=orders.journal, remover=LakeRemover(orders.lake), operator="ann", reason="old", **more)


def test_without_yes_it_says_what_would_go_and_does_nothing(syncd: Make, two_landed: Prepared) -> None:
    made = syncd(two_landed)
    before = data(two_landed)

    listed = made("s3clean", "list", *NOW)
    shown = made("s3clean", "clean", "--loaded", "--orphans", "--quarantined", *NOW)

    assert (listed.code, shown.code, made.wrote) == (0, 0, {"GetBucketVersioning"})
    assert re.search(r"loaded +would be removed +2 ", listed.out)
    assert "kept: it waits to be loaded" in listed.out
    assert "reset --redshift-only` and a restored warehouse will need MySQL" in shown.out
    assert "nothing was removed: to remove the files, add --yes" in shown.err
    assert data(two_landed) == before


def test_what_is_young_stays(syncd: Make, two_landed: Prepared) -> None:
    found = told(syncd(two_landed)("s3clean", "list", "--json").out)

    assert (found["removable"], found["kept"]) == (
        [],
        [{"reason": "it is too young", "files": 4}],
    )  # a list for COPY too


def test_what_has_landed_goes_and_the_neighbour_stays(syncd: Make, prepared: Prepare, loader: Loader) -> None:
    orders, old = prepared(table="o"), prepared(table="o_old")
    for one in (orders, old):
        one.increment(row(1, 1), row(2, 2), parts=2)
        loader.load(one)
        one.increment(row(3, 3))
    made = syncd(orders, old)

    done = made("s3clean", "clean", "-t", "o", *NOW, "--yes", "--json", "--reason", "too much")

    found = json.loads(done.out)
    [one] = found["streams"]
    assert (done.code, set(found), set(one)) == (0, {"dry_run", "versions", "streams"}, FIELDS | {"removed"}), done.err
    assert (found["dry_run"], one["removed"]["files"], one["removed"]["failed"]) == (False, 2, [])
    assert one["removable"] == [{"kind": "loaded", "files": 2, "bytes": one["removed"]["bytes"]}]
    assert (data(orders), data(old)) == ({"1-2": 1}, {"1-1": 2, "1-2": 1})
    assert orders.lake.list_objects("cleaned/shop/shop.o/")
    assert not orders.lake.list_objects("cleaned/shop/shop.o_old/")
    loader.load(orders)
    assert made("s3clean", "clean", "-t", "o", *NOW, "--yes").code == 0
    assert data(orders) == {}


def test_whoever_needs_what_was_cleaned_is_told_by_whom(
    syncd: Make, two_landed: Prepared, loader: Loader, warehouse: Reader
) -> None:
    made = syncd(two_landed)
    made("s3clean", "clean", *NOW, "--yes")

    checked = told(made("watermark", "check", "--all", "--json").out)
    reset = made("watermark", "reset", "--all", "--redshift-only", "--yes")
    warehouse.client.run("delete from syncd_ledger where batch = 1000000000002")
    with pytest.raises(LoadedFilesGone) as caught:
        loader.load(two_landed)

    assert (checked["consistent"], checked["files"], checked["removed_files"]) == (True, 3, 2)
    assert (reset.code, "are missing; the last of these is batch 1-2: it was cleaned by " in reset.err) == (7, True)
    assert "it was cleaned by " in caught.value.message


def test_what_was_lost_is_still_a_loss(syncd: Make, two_landed: Prepared) -> None:
    """A record speaks for the files that it names, and for no other."""
    made = syncd(two_landed)
    made("s3clean", "clean", *NOW, "--yes")
    state = two_landed.journal.read_newest(two_landed.stream.stem)
    assert state
    two_landed.lake.delete_objects(
        BatchChain(two_landed.journal, two_landed.stream).require_link(state.required_extract_progress.last_batch).files
    )

    done = made("watermark", "check", "--all", "--lake-only")

    assert done.code == ExitCode.DOUBT
    assert "is missing: batch 1-3 cannot be loaded" in done.out


def test_what_the_ledger_does_not_hold_stays_whatever_the_mark_says(
    syncd: Make, two_landed: Prepared, warehouse: Reader
) -> None:
    warehouse.client.run(
        f"delete from syncd_ledger where batch = 1000000000002 and table_name = 'public.{two_landed.table}'"
    )

    found = told(syncd(two_landed)("s3clean", "list", *NOW, "--json").out)
    believed = told(syncd(two_landed)("s3clean", "list", *NOW, "--json", "--lake-only").out)

    assert found["removable"][0]["files"] == 1
    assert {"reason": "the warehouse's ledger does not list its batch", "files": 1} in found["kept"]
    assert believed["removable"][0]["files"] == 2


def test_a_warehouse_that_is_away_keeps_all_that_has_landed(syncd: Make, two_landed: Prepared) -> None:
    done = syncd(two_landed, port=9)("s3clean", "clean", *NOW, "--yes")

    assert done.code == ExitCode.WAREHOUSE
    assert sum(data(two_landed).values()) == 3


def test_what_was_left_out_by_hand_stays(syncd: Make, two_landed: Prepared) -> None:
    person = Operator(journal=two_landed.journal, author="ann", reason="skip it")
    person.skip_batches(two_landed.stream, BatchId(1, 3))

    found = told(syncd(two_landed)("s3clean", "list", *NOW, "--json").out)

    assert {"reason": "an operator skipped it, and it was never loaded", "files": 1} in found["kept"]


def test_every_target_counts(syncd: Make, two_landed: Prepared) -> None:
    other = two_landed.stream.with_target("second")
    two_landed.journal.store.put(
        f"watermarks/{other.stem}.json",
        Watermark.new(other, created_at=moment(1)).with_revision(1, updated_at=moment(1)).to_bytes(),
        expected=None,
    )

    found = told(syncd(two_landed)("s3clean", "list", *NOW, "--json").out)

    assert found["removable"] == []
    assert {"reason": "it waits to be loaded into second", "files": 2} in found["kept"]


def test_orphans_of_a_closed_generation_go_once_their_number_is_closed(syncd: Make, two_landed: Prepared) -> None:
    low = two_landed.journal.read_newest(two_landed.stream.stem)
    assert low
    mark = low.required_extract_progress.cursor
    plan = two_landed.sealed(make_increment(mark, Cursor.from_values(moment(9).replace(tzinfo=None), 9)))
    left = [part.key for part in two_landed.write(plan, [row(9, 9)], 1)]
    made = syncd(two_landed)
    working = told(made("s3clean", "list", "--orphans", *NOW, "--json").out)
    Operator(journal=two_landed.journal, author="ann", reason="again").reset_marks(two_landed.stream, reset_load=False)

    seen = told(made("s3clean", "clean", "--orphans", *NOW, "--json").out)
    untouched = BatchChain(two_landed.journal, two_landed.stream).read_link(plan.id)
    done = made("s3clean", "clean", "--orphans", *NOW, "--yes", "--json")

    assert (working["removable"], working["batches_to_abandon"]) == ([], [])
    assert (seen["batches_to_abandon"], untouched) == (["1-4"], None)
    assert told(done.out)["removed"]["files"] == 1
    link = BatchChain(two_landed.journal, two_landed.stream).read_link(plan.id)
    assert link is not None
    assert (link.kind, link.high) == (BatchKind.ABANDONED, mark)
    assert left[0] not in {found.key for found in two_landed.lake.list_objects("data/")}
    assert made("watermark", "check", "--all", "--lake-only").code == 0


def test_orphans_go_and_strangers_stay(syncd: Make, two_landed: Prepared) -> None:
    orphan(two_landed, "1-1")
    orphan(two_landed, "1-4")
    orphan(two_landed, "1-1", "mine.txt")

    done = told(syncd(two_landed)("s3clean", "clean", "--orphans", *NOW, "--yes", "--json", "--show-files").out)

    assert (done["removed"]["files"], [file["batch"] for file in done["files"]]) == (1, ["1-1"])
    assert {"reason": "it belongs to the next batch, which a writer may be working on", "files": 1} in done["kept"]
    assert {"reason": "its name is not that of a part", "files": 1} in done["kept"]


def test_a_document_that_cannot_be_believed_keeps_everything(syncd: Make, two_landed: Prepared) -> None:
    settings = two_landed.lake.settings
    key = two_landed.lake.object_name(f"watermarks/{two_landed.stream.stem}.json")
    two_landed.lake.client.put_object(Bucket=settings.bucket, Key=key, Body=b"{")

    done = syncd(two_landed)("s3clean", "clean", "--loaded", "--orphans", *NOW, "--yes")

    assert done.code == ExitCode.STATE
    assert sum(data(two_landed).values()) == 3


def test_rows_that_wait_in_quarantine_stay(syncd: Make, prepared: Prepare, loader: Loader) -> None:
    orders = prepared()
    orders.increment(row(1, 1, name="a\0b"), row(2, 2))
    loader.load(orders)

    done = told(syncd(orders)("s3clean", "clean", "--loaded", "--quarantined", *NOW, "--yes", "--json").out)

    assert {"reason": "its rows wait in quarantine", "files": 1} in done["kept"]
    assert done["removed"]["files"] == 2  # the file, and the one without the refused row
    assert len(orders.lake.list_objects(f"quarantine/{orders.stream.chain_stem}/")) == 1


def test_marks_that_a_person_moves_meanwhile_stop_it(two_landed: Prepared) -> None:
    seen = proposal(two_landed, RemovalReason.LOADED)
    Operator(journal=two_landed.journal, author="ben", reason="again").reset_marks(
        two_landed.stream, reset_extract=False
    )

    removed = removal(two_landed).run(seen)

    assert isinstance(removed.error, ChangedMeanwhile)
    assert (removed.files, sum(data(two_landed).values())) == (0, 3)


def test_files_that_are_cleaned_while_a_reset_is_thought_over_keep_it_from_being_made(
    syncd: Make, two_landed: Prepared
) -> None:
    made = syncd(two_landed)
    before = two_landed.journal.read_newest(two_landed.stream.stem)
    made.said, made.meanwhile = "y\n", lambda: removal(two_landed).run(proposal(two_landed, RemovalReason.LOADED))

    done = made("watermark", "reset", "-t", two_landed.table, "--redshift-only")

    assert (done.code, "are missing; the last of these is batch 1-2: it was cleaned by ann" in done.err) == (7, True)
    assert data(two_landed) == {"1-3": 1}
    assert two_landed.journal.read_newest(two_landed.stream.stem) == before


REFUSED = """<DeleteResult><Error><Key>{}</Key><Code>AccessDenied</Code><Message>No.</Message></Error></DeleteResult>"""


class Answer(io.BytesIO):
    def stream(self, **_: object) -> list[bytes]:
        return [self.read()]


def test_what_s3_refuses_to_remove_is_told_and_not_counted(two_landed: Prepared) -> None:
    seen = proposal(two_landed, RemovalReason.LOADED)
    name = two_landed.lake.object_name(seen.removable[0].key)

    def refuse(request: Any, **_: object) -> Any:
        return AWSResponse(request.url, 200, HTTPHeaders(), Answer(REFUSED.format(name).encode()))

    two_landed.lake.client.meta.events.register("before-send.s3.DeleteObjects", refuse)

    removed = removal(two_landed).run(seen)

    [failed] = removed.failed
    assert (removed.files, failed.key, failed.reason) == (1, seen.removable[0].key, "AccessDenied: No.")


def test_versions_stay_unless_told_and_pages_are_read_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("MOTO_S3_DEFAULT_MAX_KEYS", "3")):
        monkeypatch.setenv(name, value)
    with moto_server() as endpoint:
        lake = S3Lake.from_settings(LakeSettings(bucket="kept", prefix="p", region="us-east-1", endpoint=endpoint))
        lake.client.create_bucket(Bucket="kept")
        lake.client.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
        orders = Prepared(lake, Journal(S3Store(lake.client, bucket="kept", prefix="p"), Watermark))
        orders.increment(row(1, 1))
        keys = [orphan(orders, "1-1", f"00000.000-a{number}.parquet") for number in range(7)]

        seen = proposal(orders, RemovalReason.ORPHAN)
        bin_ = LakeRemover(lake)
        first = removal(orders).run(seen)
        left = bin_.versions(keys)
        second = removal(orders, include_versions=True).run(seen)

        assert sorted(file.key for file in seen.removable) == keys
        assert (bin_.keeps_versions(), first.files, len(left)) == (
            True,
            7,
            14,
        )  # each file, and the mark of its removal
        assert (second.files, bin_.versions(keys)) == (7, [])
        assert len(data(orders)) == 1
