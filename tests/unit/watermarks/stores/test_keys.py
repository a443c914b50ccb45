import pytest

from watermarks.errors import Misuse
from watermarks.store import MAX_KEY_BYTES, can_start_key, check_key, is_key


@pytest.mark.parametrize("key", ["a", "a/b", "_system.json", ".hidden", "a/..b", "k" * MAX_KEY_BYTES, "\U0001f511"])
def test_names_joined_by_slashes_are_a_key(key: str) -> None:
    check_key(key)

    assert is_key(key)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "is empty"),
        ("/a", "starts with a slash"),
        ("a//b", "empty name"),
        ("a/", "empty name"),
        ("a/../b", "the name . or .."),
        ("./a", "the name . or .."),
        ("a\tb", "control character"),
        ("a\x7fb", "control character"),
        ("\ud800", "not Unicode"),
        ("\u00e9" * 513, "1026 bytes"),
    ],
)
def test_anything_else_is_refused_with_its_reason(key: str, reason: str) -> None:
    with pytest.raises(Misuse, match=reason):
        check_key(key)

    assert not is_key(key)


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/.", ".."])
def test_a_prefix_may_end_in_the_middle_of_a_name(prefix: str) -> None:
    assert can_start_key(prefix)


@pytest.mark.parametrize("prefix", ["/", "/a", "a//", "../", "./a"])
def test_no_key_starts_where_none_can(prefix: str) -> None:
    assert not can_start_key(prefix)
