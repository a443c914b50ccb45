"""What is not provably right is not taken over: it is refused by name, with counts and the next command."""

from collections.abc import Callable

import pytest

from syncd.verify.result import ComparisonState
from tests.integration.adopt.conftest import Adopted
from tests.integration.adopt.test_taken_over import flat
from watermarks.document import Watermark

pytestmark = [pytest.mark.services, pytest.mark.parametrize("box", ["mariadb"], indirect=True)]
Make = Callable[..., Adopted]


def loaded(adopted: Make, table: str, more: str = "") -> Adopted:
    one = adopted(table, more)
    one.source()
    one.load()
    return one


def test_a_target_that_lacks_a_row_and_has_a_stale_one_is_refused_and_may_stand_lower(adopted: Make) -> None:
    one = loaded(adopted, "lacking")
    one.pair.there(
        "delete from lacking where id = 290",
        "update lacking set name = 'older', update_at = dateadd(hour, -1, update_at) where id = 281",
    )

    told = one.told("--yes")

    assert (told["exit"], told["state"], told["lost"], told["stale"], told["ghost"]) == (7, "different", 1, 1, 0)
    assert "1 lost, 1 stale, among 300 rows" in told["error"]["message"]
    hint = told["error"]["hint"]
    assert "syncd watermark import -t shop.lacking --with-differences" in hint
    assert "--timestamp '2026-01-01 00:02:20'" in hint
    assert one.pair.keys() == []

    lower = one.told("--timestamp", "2026-01-01 00:02:20", "--yes")
    one.pair.run()

    assert (lower["state"], lower["limited_by"], lower["mark"][-1]) == ("taken over", "target", "int:279")
    assert one.pair.verify("lacking").state is ComparisonState.EQUAL


def test_a_ghost_is_refused_where_deletes_matter(adopted: Make) -> None:
    one = loaded(adopted, "ghostly", "deletes: hard")
    one.pair.sql("DELETE FROM ghostly WHERE id = 7")

    told = one.told("--yes")

    assert (told["exit"], told["state"], told["ghost"]) == (7, "different", 1)
    assert "1 ghost, among 299 rows" in told["error"]["message"]
    assert "--timestamp" not in told["error"]["hint"]
    assert one.pair.keys() == []


@pytest.mark.long
def test_what_is_taken_over_with_differences_is_mended_by_a_repair_and_stays_unproven(adopted: Make) -> None:
    one = loaded(adopted, "mended", "deletes: hard")
    one.pair.sql("DELETE FROM mended WHERE id = 7")
    one.pair.there("delete from mended where id = 8")

    told = one.told("--with-differences", "--yes")
    made = one.pair.mend("mended", one.pair.verify("mended"))
    one.pair.run()

    assert (told["exit"], told["state"], told["ghost"], told["lost"]) == (0, "taken over", 1, 1)
    assert (made.error, len(one.rows)) == (None, 299)
    assert one.pair.verify("mended").state is ComparisonState.EQUAL
    assert not one.pair.state("mended").required_extract_progress.proven


def test_without_consent_nothing_is_changed(adopted: Make) -> None:
    one = loaded(adopted, "asked")

    alone = one.pair.syncd("watermark", "import", "-t", "asked")
    dry = one.told("--dry-run")

    assert alone.exit_code != 0
    assert "no terminal to ask for confirmation: nothing was changed" in str(alone.exception)
    assert "compared: 300 rows with public.asked, up to 2026-01-01 00:02:30, 300: equal" in alone.stdout
    assert (dry["exit"], dry["state"], dry["after"]["loaded_mark"][-1]) == (0, "ready", "int:300")
    assert one.pair.keys() == []


def test_a_damaged_document_and_a_current_one_pass_for_no_older_one(adopted: Make) -> None:
    one = loaded(adopted, "damaged")
    cut = one.document("watermarks/cut.json", flat("damaged")[:-20])
    state = Watermark.new(one.pair.stream("damaged").stream_name, created_at=one.pair.journal.clock.now())
    current = one.document("watermarks/current.json", state.to_bytes())

    found = [one.told("--from", place, "--yes") for place in (cut, current)]

    assert [(told["exit"], told["state"]) for told in found] == [(12, "failed")] * 2
    assert "is a current document, not one of the earlier tool" in found[1]["error"]["message"]
    assert one.pair.keys() == []


def test_a_damaged_document_of_our_own_is_no_new_stream(adopted: Make) -> None:
    one = loaded(adopted, "broken")
    stream = one.pair.stream("broken").stream_name
    key = f"{one.pair.prefix}/watermarks/{stream.stem}.json"
    one.pair.box.s3.make_client().put_object(Bucket=one.pair.box.s3.bucket, Key=key, Body=flat("broken"))

    told = one.told("--yes")

    assert (told["exit"], told["state"]) == (12, "failed")
    assert one.pair.keys() == [key]


def test_a_stream_with_a_chain_and_a_table_of_another_stream_are_refused(adopted: Make) -> None:
    one = adopted("owned", "settle: 0s")
    one.source()
    one.pair.run()

    own = one.told("--yes")
    other = one.pair
    other.prefix = f"{other.prefix}b"
    strange = one.told("--yes")

    assert (own["exit"], "has batches of its own, up to batch 1-" in own["error"]["message"]) == (2, True)
    assert (strange["exit"], "is the target of another stream" in strange["error"]["message"]) == (2, True)


def test_a_target_without_a_column_or_of_other_types_is_told_with_the_statement(adopted: Make) -> None:
    one = adopted("shaped")
    one.source()
    one.load()
    one.pair.there("alter table shaped drop column total")

    lacking = one.told("--yes")
    one.pair.there("alter table shaped add column total integer")
    other = one.told("--yes")
    one.pair.there("drop table shaped")
    gone = one.told("--yes")

    assert lacking["exit"] == other["exit"] == 8
    assert 'ALTER TABLE "public"."shaped" ADD COLUMN "total" DECIMAL(10,2);' in lacking["error"]["hint"]
    assert "public.shaped.total is INTEGER" in other["error"]["message"]
    assert (gone["exit"], "does not exist" in gone["error"]["message"]) == (2, True)
