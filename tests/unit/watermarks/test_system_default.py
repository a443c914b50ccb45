import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.chain import NOON, ORDERS
from watermarks.codec import DamagedDocument, DocumentTooNew, ForeignDocument, encode
from watermarks.document import Watermark
from watermarks.names import SYSTEM_STEM, document_key
from watermarks.system_default import FORMAT_VERSION, SYSTEM_DEFAULT_FORMAT_NAME, SystemDefault

if TYPE_CHECKING:
    from datetime import datetime

    from watermarks.codec import JsonObject

AT = document_key(SYSTEM_STEM)
LATER = NOON + timedelta(hours=1)


def make_default(start: "datetime | None" = NOON, *, revision: int = 3) -> SystemDefault:
    return SystemDefault(revision=revision, start=start, created_at=NOON, updated_at=LATER)


def read(body: bytes, *, stem: str = SYSTEM_STEM) -> SystemDefault:
    return SystemDefault.from_bytes(body, location=AT, stem=stem)


def resealed(changed: "JsonObject") -> bytes:
    fields = {**make_default().to_fields(), **changed}
    return encode(
        SYSTEM_DEFAULT_FORMAT_NAME, FORMAT_VERSION, {name: value for name, value in fields.items() if value is not ...}
    )


@pytest.mark.parametrize("start", [NOON.replace(microsecond=1), None], ids=["an instant", "none"])
def test_a_default_comes_back_from_its_bytes(start: "datetime | None") -> None:
    default = make_default(start)

    again = read(default.to_bytes())

    assert again == default
    assert again.to_bytes() == default.to_bytes()


def test_a_default_keeps_the_name_that_users_know() -> None:
    fields = json.loads(make_default().to_bytes())

    assert fields["last_run_timestamp"] == "2024-05-17T12:00:00.000000Z"
    assert set(fields) == {
        *("created_at", "digest", "format", "format_version", "last_run_timestamp", "revision", "updated_at"),
    }


def test_a_revision_is_stamped_with_its_number_and_its_moment() -> None:
    default = make_default(revision=3)

    stamped = default.with_revision(4, updated_at=LATER)

    assert (stamped.revision, stamped.updated_at) == (4, LATER)
    assert (stamped.start, stamped.created_at, stamped.stem) == (NOON, NOON, SYSTEM_STEM)
    assert default.revision == 3


def test_there_is_one_default_in_one_place() -> None:
    with pytest.raises(ForeignDocument, match="cannot be the system-wide default"):
        read(make_default().to_bytes(), stem=ORDERS.stem)


def test_a_default_is_no_watermark_and_a_watermark_no_default() -> None:
    with pytest.raises(ForeignDocument):
        Watermark.from_bytes(make_default().to_bytes(), location=AT, stem=SYSTEM_STEM)
    with pytest.raises(ForeignDocument):
        read(Watermark.new(ORDERS, created_at=NOON).to_bytes())


def test_a_default_of_a_later_version_is_refused() -> None:
    with pytest.raises(DocumentTooNew):
        read(encode(SYSTEM_DEFAULT_FORMAT_NAME, FORMAT_VERSION + 1, make_default().to_fields()))


@pytest.mark.parametrize(
    "changed",
    [
        {"revision": -1},
        {"revision": "3"},
        {"revision": ...},
        {"created_at": ...},
        {"updated_at": None},
        {"created_at": "2024-05-17 12:00:00"},
        {"last_run_timestamp": "2024-05-17"},
        {"last_run_timestamp": 1715947200},
        {"zone": "UTC"},
    ],
    ids=str,
)
def test_a_default_that_cannot_be_is_damaged(changed: "JsonObject") -> None:
    """Never taken for none: streams would begin at the first row, or at `now`."""
    with pytest.raises(DamagedDocument, match=AT):
        read(resealed(changed))


@pytest.mark.parametrize("body", [b"", b"{}", b"2024-05-17T12:00:00", b"\x00"])
def test_what_is_no_document_is_unreadable(body: bytes) -> None:
    with pytest.raises((DamagedDocument, ForeignDocument), match=AT):
        read(body)
