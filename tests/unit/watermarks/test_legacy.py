import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chain import NOON, ORDERS, at, make_increment, make_link, make_plan
from watermarks.codec import DamagedDocument, ForeignDocument
from watermarks.cursor import START_CURSOR, Cursor
from watermarks.document import StageStatus, Watermark
from watermarks.legacy import (
    LegacyForm,
    LegacyWatermark,
    read_legacy_system_watermark,
    read_legacy_watermark,
)
from watermarks.names import SYSTEM_STEM
from watermarks.progress import Run
from watermarks.system_default import SystemDefault

if TYPE_CHECKING:
    from watermarks.codec import JsonObject

FIXTURES = Path(__file__).parents[2] / "fixtures" / "legacy"
TABLES = ("flat.json", "flat_before_files.json", "manual.json", "states.json", "states_by_id.json")
AT = "watermarks/shop.orders.json"


def held(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def read(name: str) -> LegacyWatermark:
    return read_legacy_watermark(held(name), location=AT)


def edited(name: str, **changed: object) -> bytes:
    """A fixture with other fields; `side__field` is a field inside `side`, and `...` takes a field away."""
    fields = json.loads(held(name))
    for path, value in changed.items():
        *outer, field = path.split("__")
        inner = fields[outer[0]] if outer else fields
        inner[field] = value
        if value is ...:
            del inner[field]
    return json.dumps(fields).encode()


def current() -> Watermark:
    """A document of today, of a stream that has run."""
    link = make_link(make_plan(make_increment(START_CURSOR, high=Cursor.from_values(NOON, 7))))
    run = Run(id="run-1")
    return (
        Watermark.new(ORDERS, created_at=NOON)
        .with_link(link, run=run, now=NOON)
        .with_loaded_batch(link, rows=3, run=run, now=NOON)
    )


# What each form says.


def test_a_flat_document_says_all_that_it_holds() -> None:
    assert read("flat.json") == LegacyWatermark(
        form=LegacyForm.FLAT,
        table="shop.orders",
        timestamp=datetime(2025, 3, 2, 6, 10, 44, tzinfo=UTC),
        last_id=None,
        rows_extracted=84210,
        rows_loaded=84200,
        mysql_status=StageStatus.SUCCESS,
        redshift_status=StageStatus.FAILED,
        files=(
            "s3://acme-lake/incremental/shop.orders/orders_20250302_061012.parquet",
            "s3://acme-lake/incremental/shop.orders/orders_20250302_061509.parquet",
        ),
        is_manual=False,
        last_error="COPY of orders_20250302_061509.parquet: value too long",
        text=held("flat.json").decode(),
    )


def test_a_flat_document_of_before_there_were_file_lists_has_no_files() -> None:
    legacy = read("flat_before_files.json")

    assert (legacy.form, legacy.table) == (LegacyForm.FLAT, "shop.customers")
    assert legacy.timestamp == datetime(2025, 1, 31, 23, 59, 59, 250_000, tzinfo=UTC)
    assert (legacy.files, legacy.last_error, legacy.rows_loaded) == ((), None, 0)


def test_a_document_of_the_manual_commands_names_no_table() -> None:
    legacy = read("manual.json")

    assert (legacy.form, legacy.table, legacy.is_manual) == (LegacyForm.MANUAL, None, True)
    assert legacy.timestamp == datetime(2025, 2, 28, 20, 0, 1, tzinfo=UTC)
    assert (legacy.rows_extracted, legacy.rows_loaded, legacy.files) == (0, 0, ())
    assert (legacy.mysql_status, legacy.redshift_status) == (StageStatus.SUCCESS, StageStatus.PENDING)


def test_a_document_of_version_two_has_a_state_for_each_side() -> None:
    legacy = read("states.json")

    assert (legacy.form, legacy.table) == (LegacyForm.STATES, "US_DW:shop.orders")
    assert legacy.timestamp == datetime(2025, 3, 2, 6, 10, 44, 123_456, tzinfo=UTC)
    assert (legacy.last_id, legacy.rows_extracted, legacy.rows_loaded) == (901223, 84210, 80000)
    assert (legacy.mysql_status, legacy.redshift_status) == (StageStatus.SUCCESS, StageStatus.FAILED)
    assert (len(legacy.files), legacy.is_manual, legacy.last_error) == (2, False, "connection reset")


def test_a_document_of_version_two_may_follow_the_key_alone() -> None:
    legacy = read("states_by_id.json")

    assert (legacy.timestamp, legacy.last_id, legacy.files, legacy.is_manual) == (None, 5120034, (), True)
    assert (legacy.mysql_status, legacy.last_error) == (
        StageStatus.IN_PROGRESS,
        "lost connection to MySQL server during query",
    )


@pytest.mark.parametrize("name", TABLES)
def test_the_document_is_kept_word_by_word_as_evidence(name: str) -> None:
    assert read(name).text.encode() == held(name)


def test_the_system_wide_text_is_an_instant() -> None:
    assert read_legacy_system_watermark(
        held("last_run_timestamp.txt"), location="last_run_timestamp.txt"
    ).timestamp == datetime(*(2025, 3, 2, 6, 0, 0), tzinfo=UTC)


def test_the_system_wide_text_speaks_for_any_table() -> None:
    legacy = read_legacy_system_watermark(held("last_run_timestamp.txt"), location="last_run_timestamp.txt")

    assert (legacy.form, legacy.timestamp) == (LegacyForm.SYSTEM, datetime(2025, 3, 2, 6, tzinfo=UTC))
    assert legacy.matches_stream(ORDERS)
    assert legacy.text == "2025-03-02T06:00:00\n"


def test_a_flat_document_may_tell_the_last_key_that_was_read() -> None:
    assert read_legacy_watermark(edited("flat.json", last_processed_id=901223), location=AT).last_id == 901223


# Where an import begins.


def test_an_import_begins_at_the_instant_so_that_its_ties_are_read_again() -> None:
    """That tool read `update_at > w`: rows of the instant w that came later were lost, whatever key it noted."""
    legacy = read("states.json")
    instant = datetime(2025, 3, 2, 6, 10, 44, 123_456, tzinfo=UTC)

    assert legacy.cursor == Cursor.from_values(instant)
    assert legacy.cursor < Cursor.from_values(instant, 0)


def test_an_import_without_an_instant_begins_at_the_key() -> None:
    assert read("states_by_id.json").cursor == at(5120034)


@pytest.mark.parametrize("nothing", [None, "", ...])
def test_an_import_of_a_table_that_never_ran_begins_at_the_start(nothing: object) -> None:
    body = edited("states_by_id.json", mysql_state__last_id=None, mysql_state__last_timestamp=nothing)

    assert read_legacy_watermark(body, location=AT).cursor == START_CURSOR


def test_a_key_of_zero_is_a_position() -> None:
    assert read_legacy_watermark(edited("states_by_id.json", mysql_state__last_id=0), location=AT).cursor == at(0)


# What may be absent, and what marks a set by hand.


def test_fields_that_older_writers_left_out_count_as_nothing() -> None:
    bare = b'{"last_mysql_data_timestamp": null, "mysql_status": null}'

    legacy = read_legacy_watermark(bare, location=AT)

    assert (legacy.form, legacy.timestamp, legacy.cursor) == (LegacyForm.MANUAL, None, START_CURSOR)
    assert (legacy.mysql_status, legacy.redshift_status, legacy.files) == (StageStatus.PENDING, StageStatus.PENDING, ())
    assert (legacy.rows_extracted, legacy.is_manual, legacy.last_error) == (0, False, None)


@pytest.mark.parametrize(
    "body",
    [
        edited("flat.json", backup_strategy="manual_cli"),
        edited("flat.json", metadata__manual_watermark=True),
        edited("states.json", metadata__manual_override=True),
    ],
)
def test_a_mark_set_by_hand_is_known_as_such(body: bytes) -> None:
    assert read_legacy_watermark(body, location=AT).is_manual


@pytest.mark.parametrize(
    ("mysql", "redshift", "last"), [("a", "b", "a"), (None, "b", "b"), ("", "b", "b"), (None, None, None)]
)
def test_the_error_of_either_side_is_kept(mysql: str | None, redshift: str | None, last: str | None) -> None:
    body = edited("states.json", mysql_state__error=mysql, redshift_state__error=redshift)

    assert read_legacy_watermark(body, location=AT).last_error == last


# Moments.


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2025-03-02 06:10:44", (2025, 3, 2, 6, 10, 44, 0)),
        ("2025-03-02T06:10:44", (2025, 3, 2, 6, 10, 44, 0)),
        ("2025-03-02T06:10:44Z", (2025, 3, 2, 6, 10, 44, 0)),
        ("2025-03-02 06:10:44 UTC", (2025, 3, 2, 6, 10, 44, 0)),
        ("2025-03-02T06:10:44+00:00", (2025, 3, 2, 6, 10, 44, 0)),
        ("2025-03-02T06:10:44+02:00", (2025, 3, 2, 4, 10, 44, 0)),
        ("2025-03-02T06:10:44-0530", (2025, 3, 2, 11, 40, 44, 0)),
        ("2025-03-02T23:10:44 -02:00", (2025, 3, 3, 1, 10, 44, 0)),
        ("2025-03-02 06:10:44.5", (2025, 3, 2, 6, 10, 44, 500_000)),
        ("2025-03-02 06:10:44.000001Z", (2025, 3, 2, 6, 10, 44, 1)),
        ("2024-02-29 00:00:00", (2024, 2, 29, 0, 0, 0, 0)),
    ],
)
def test_a_moment_is_read_in_every_way_that_tool_wrote_it(text: str, moment: tuple[int, ...]) -> None:
    year, month, day, hour, minute, second, microsecond = moment
    expected = datetime(year, month, day, hour, minute, second, microsecond, tzinfo=UTC)

    assert read_legacy_system_watermark(text.encode(), location=AT).timestamp == expected
    assert read_legacy_watermark(edited("flat.json", last_mysql_data_timestamp=text), location=AT).timestamp == expected


@pytest.mark.parametrize("text", ["2025-03-02 06:10:44.9999999", "2025-03-02 06:10:44.999999999Z"])
def test_digits_beyond_microseconds_never_move_a_mark_forward(text: str) -> None:
    """MySQL rounds such digits up: a rounded mark stands behind rows that were never read."""
    found = read_legacy_system_watermark(text.encode(), location=AT).timestamp

    assert found == datetime(2025, 3, 2, 6, 10, 44, 999_999, tzinfo=UTC)


@given(st.datetimes(timezones=st.just(UTC)))
def test_any_moment_that_python_wrote_is_read(moment: datetime) -> None:
    assert read_legacy_system_watermark(moment.isoformat().encode(), location=AT).timestamp == moment


@pytest.mark.parametrize("body", [b"2025-03-02 06:00:00", b' "2025-03-02 06:00:00"\r\n', b"\n2025-03-02T06:00:00Z\n"])
def test_quotes_and_blanks_around_the_system_wide_text_are_nothing(body: bytes) -> None:
    assert read_legacy_system_watermark(body, location=AT).timestamp == datetime(2025, 3, 2, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "2025-03-02", "06:10:44", "1740895844", "2025-3-2 6:10:44", "02.03.2025 06:10:44"),
        *("2025-03-02 06:10", "2025-03-02  06:10:44", "2025-03-02 06:10:44,5", "2025-03-02 06:10:44 CET"),
        *("0000-00-00 00:00:00", "2025-02-30 00:00:00", "2025-03-02 24:00:00", "2025-03-02 06:10:60"),
        *("2025-03-02 06:10:44+99:00", "2025-03-02T06:10:44Z 2025-03-02T06:10:44Z", "\ufeff2025-03-02 06:10:44"),
        *("2025-03-02 06:10:4\u0664", "None", "null"),
    ],
    ids=ascii,
)
def test_what_is_no_moment_is_refused_by_name(text: str) -> None:
    """Never taken for no mark at all: that would read the whole table, or from a default of long ago."""
    with pytest.raises(DamagedDocument, match=f"{AT}: '.*' is not a (valid )?date and time"):
        read_legacy_system_watermark(text.encode(), location=AT)
    if text:
        with pytest.raises(
            DamagedDocument, match=f"{AT}: last_mysql_data_timestamp: '.*' is not a (valid )?date and time"
        ):
            read_legacy_watermark(edited("flat.json", last_mysql_data_timestamp=text), location=AT)


def test_a_refused_moment_comes_with_a_way_out() -> None:
    with pytest.raises(DamagedDocument) as caught:
        read_legacy_system_watermark(b"soon", location=AT)

    assert "syncd watermark set" in caught.value.hint


def test_a_system_wide_object_that_is_no_text_is_damaged() -> None:
    with pytest.raises(DamagedDocument, match=f"{AT} is not text"):
        read_legacy_system_watermark(b"\xff\xfe2\x000\x00", location=AT)


# Old and current documents are never taken for each other.


@pytest.mark.parametrize("name", [*TABLES, "last_run_timestamp.txt"])
def test_no_older_document_passes_for_a_current_one(name: str) -> None:
    with pytest.raises((ForeignDocument, DamagedDocument)):
        Watermark.from_bytes(held(name), location=AT, stem=ORDERS.stem)
    with pytest.raises((ForeignDocument, DamagedDocument)):
        SystemDefault.from_bytes(held(name), location=AT, stem=SYSTEM_STEM)


@pytest.mark.parametrize("name", TABLES)
def test_an_older_document_in_the_place_of_a_current_one_is_told_how_to_be_imported(name: str) -> None:
    with pytest.raises(ForeignDocument) as caught:
        Watermark.from_bytes(held(name), location=AT, stem=ORDERS.stem)

    assert "syncd watermark import" in caught.value.hint


def test_a_current_document_passes_for_no_older_one() -> None:
    for state in (current(), SystemDefault(start=NOON, created_at=NOON, updated_at=NOON)):
        with pytest.raises(ForeignDocument, match="is a current document"):
            read_legacy_watermark(state.to_bytes(), location=AT)


def test_a_damaged_current_document_passes_for_no_older_one() -> None:
    """Half a document is no JSON; with one byte changed it is no document at all, or still a current one."""
    body = current().to_bytes()

    for length in range(len(body) - len(b"}\n")):
        with pytest.raises((DamagedDocument, ForeignDocument)):
            read_legacy_watermark(body[:length], location=AT)


@pytest.mark.parametrize("lost", ["format", "format_version", "digest", "revision", "stream"])
def test_a_current_document_that_lost_a_field_passes_for_no_older_one(lost: str) -> None:
    """It keeps the names that users know, and so without `format` it looks like a flat one of long ago."""
    fields = json.loads(current().to_bytes())
    del fields[lost]

    with pytest.raises(ForeignDocument, match="is a current document"):
        read_legacy_watermark(json.dumps(fields).encode(), location=AT)


@given(st.data())
def test_a_current_document_with_a_flipped_bit_passes_for_no_older_one(data: st.DataObject) -> None:
    body = bytearray(current().to_bytes())
    place = data.draw(st.integers(0, len(body) * 8 - 1))
    body[place // 8] ^= 1 << place % 8

    with pytest.raises((DamagedDocument, ForeignDocument)):
        read_legacy_watermark(bytes(body), location=AT)


# What is refused.


@pytest.mark.parametrize("body", [b"", b"\n", b"[]", b"null", b'"2025-03-02"', b"{", b"\xff", b'{"a": 1, "a": 2}'])
def test_what_is_no_object_is_damaged(body: bytes) -> None:
    with pytest.raises(DamagedDocument, match=AT):
        read_legacy_watermark(body, location=AT)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"table_name": "shop.orders"},
        {"mysql_status": "success"},
        {"last_mysql_data_timestamp": "2025-03-02 06:10:44"},
        {"version": "2.0", "mysql_state": {}},
        {"version": "2.0", "redshift_state": {}},
        {"version": "2.0", "table_name": "shop.orders"},
        {"watermarks": {"mysql_status": "success", "last_mysql_data_timestamp": None}},
    ],
    ids=str,
)
def test_what_fits_no_form_is_foreign(fields: "JsonObject") -> None:
    with pytest.raises(ForeignDocument, match="is not a document of the earlier tool") as caught:
        read_legacy_watermark(json.dumps(fields).encode(), location=AT)

    assert "s3-redshift-backup-tool" in caught.value.hint


@pytest.mark.parametrize("version", ["2.1", "3.0", "1.0", "2", "", None, ...])
def test_another_version_of_the_states_is_foreign(version: object) -> None:
    with pytest.raises(ForeignDocument, match=f"{AT} has version .*; only version 2.0 is supported"):
        read_legacy_watermark(edited("states.json", version=version), location=AT)


BAD_VALUES: list[tuple[str, str, object]] = [
    ("flat.json", "table_name", 5),
    ("flat.json", "last_mysql_data_timestamp", 1740895844),
    ("flat.json", "last_mysql_data_timestamp", {"$date": "2025-03-02"}),
    ("flat.json", "mysql_rows_extracted", -1),
    ("flat.json", "mysql_rows_extracted", "84210"),
    ("flat.json", "mysql_rows_extracted", 84210.0),
    ("flat.json", "mysql_rows_extracted", True),
    ("flat.json", "redshift_rows_loaded", -84200),
    ("flat.json", "redshift_rows_loaded", [1]),
    ("flat.json", "mysql_status", "done"),
    ("flat.json", "mysql_status", "SUCCESS"),
    ("flat.json", "mysql_status", 1),
    ("flat.json", "redshift_status", "partial"),
    ("flat.json", "backup_strategy", ["sequential"]),
    ("flat.json", "processed_s3_files", "s3://acme-lake/a.parquet"),
    ("flat.json", "processed_s3_files", {"0": "s3://acme-lake/a.parquet"}),
    ("flat.json", "processed_s3_files", ["s3://acme-lake/a.parquet", None]),
    ("flat.json", "processed_s3_files", [["s3://acme-lake/a.parquet"]]),
    ("flat.json", "last_error", {"message": "no"}),
    ("flat.json", "metadata", "manual"),
    ("flat.json", "metadata", []),
    ("flat.json", "metadata__manual_watermark", "false"),
    ("flat.json", "metadata__manual_watermark", 0),
    ("flat.json", "metadata__manual_watermark", None),
    ("states.json", "version", 2.0),
    ("states.json", "table_name", ["shop", "orders"]),
    ("states.json", "mysql_state", "success"),
    ("states.json", "redshift_state", [1]),
    ("states.json", "mysql_state__last_timestamp", 0),
    ("states.json", "mysql_state__last_id", "901223"),
    ("states.json", "mysql_state__last_id", -1),
    ("states.json", "mysql_state__last_id", 9.0),
    ("states.json", "mysql_state__last_id", False),
    ("states.json", "mysql_state__total_rows", -4),
    ("states.json", "mysql_state__status", "completed?"),
    ("states.json", "mysql_state__error", 1205),
    ("states.json", "redshift_state__status", 0.5),
    ("states.json", "redshift_state__total_rows", "0"),
    ("states.json", "redshift_state__error", ["no"]),
    ("states.json", "processed_files", {}),
    ("states.json", "processed_files", "none"),
    ("states.json", "processed_files", [0]),
    ("states.json", "metadata", 1),
    ("states.json", "metadata__manual_override", "yes"),
]


@pytest.mark.parametrize(("name", "path", "value"), BAD_VALUES, ids=[f"{p}={v}" for _, p, v in BAD_VALUES])
def test_a_value_that_cannot_be_is_refused_by_name(name: str, path: str, value: object) -> None:
    """That tool's own guide knows `Invalid timestamp format` and `Negative row counts` as corruption."""
    field = path.rpartition("__")[2]

    with pytest.raises(DamagedDocument, match=f"{AT}: (.*: )?{field} is ") as caught:
        read_legacy_watermark(edited(name, **{path: value}), location=AT)

    assert "syncd watermark set" in caught.value.hint


@given(st.data())
def test_no_value_at_all_makes_the_reader_fail_otherwise(data: st.DataObject) -> None:
    fields: dict[str, Any] = json.loads(held(data.draw(st.sampled_from(TABLES))))
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = data.draw(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())
    )

    try:
        legacy = read_legacy_watermark(json.dumps(fields).encode(), location=AT)
    except (DamagedDocument, ForeignDocument):
        return

    assert legacy.form in LegacyForm
