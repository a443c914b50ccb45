import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.chain import NOON, ORDERS
from watermarks.codec import Damaged, Foreign, TooNew, seal
from watermarks.document import Watermark
from watermarks.names import SYSTEM, document_key
from watermarks.system_default import FORMAT, VERSION, SystemDefault

if TYPE_CHECKING:
    from datetime import datetime

    from watermarks.codec import Json

AT = document_key(SYSTEM)
LATER = NOON + timedelta(hours=1)


def make_default(start: "datetime | None" = NOON, *, revision: int = 3) -> SystemDefault:
    return SystemDefault(revision=revision, start=start, created_at=NOON, updated_at=LATER)


def read(body: bytes, *, stem: str = SYSTEM) -> SystemDefault:
    return SystemDefault.of_bytes(body, at=AT, stem=stem)


def resealed(changed: "Json") -> bytes:
    fields = {**make_default().fields(), **changed}
    return seal(FORMAT, VERSION, {name: value for name, value in fields.items() if value is not ...})


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

    stamped = default.stamped(4, at=LATER)

    assert (stamped.revision, stamped.updated_at) == (4, LATER)
    assert (stamped.start, stamped.created_at, stamped.stem) == (NOON, NOON, SYSTEM)
    assert default.revision == 3


def test_there_is_one_default_in_one_place() -> None:
    with pytest.raises(Foreign, match="cannot be the system-wide default"):
        read(make_default().to_bytes(), stem=ORDERS.stem)


def test_a_default_is_no_watermark_and_a_watermark_no_default() -> None:
    with pytest.raises(Foreign):
        Watermark.of_bytes(make_default().to_bytes(), at=AT, stem=SYSTEM)
    with pytest.raises(Foreign):
        read(Watermark.new(ORDERS, at=NOON).to_bytes())


def test_a_default_of_a_later_version_is_refused() -> None:
    with pytest.raises(TooNew):
        read(seal(FORMAT, VERSION + 1, make_default().fields()))


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
def test_a_default_that_cannot_be_is_damaged(changed: "Json") -> None:
    """Never taken for none: streams would begin at the first row, or at `now`."""
    with pytest.raises(Damaged, match=AT):
        read(resealed(changed))


@pytest.mark.parametrize("body", [b"", b"{}", b"2024-05-17T12:00:00", b"\x00"])
def test_what_is_no_document_is_unreadable(body: bytes) -> None:
    with pytest.raises((Damaged, Foreign), match=AT):
        read(body)
