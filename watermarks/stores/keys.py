"""Keys that every store can hold, so that documents can move from one store to another."""

from typing import Final

from watermarks.errors import Misuse

MAX_KEY_BYTES: Final = 1024
"""Limit of S3 for a key in UTF-8, with the prefix of the store."""


def check_key(key: str) -> None:
    """Refuse a key that some store cannot hold, or that leads out of the store.

    Raises:
        Misuse: it is not names joined by single slashes.
    """
    if fault := _find_fault(key):
        raise Misuse(
            f"{key!r} is not a key: it {fault}",
            hint="A key is names joined by single slashes, such as watermarks/shop/orders.json.",
            key=key,
        )


def is_key(text: str) -> bool:
    """Return True for a valid key; objects of other programs often have none."""
    return not _find_fault(text)


def can_start_key(prefix: str) -> bool:
    """Return True if some key can start with this prefix; if not, a listing is empty."""
    folder, slash, _ = prefix.rpartition("/")
    return not slash or is_key(folder)


def _find_fault(key: str) -> str:
    names = key.split("/")
    if not key:
        return "is empty"
    if key.startswith("/"):
        return "starts at the root of a file system"
    if "" in names:
        return "holds an empty name"
    if "." in names or ".." in names:
        return "climbs between folders"
    return _find_text_fault(key)


def _find_text_fault(key: str) -> str:
    if any(char < " " or char == "\x7f" for char in key):
        return "holds a control character"
    try:
        length = len(key.encode())
    except UnicodeEncodeError:
        return "is not Unicode text"
    return f"has {length} bytes, more than {MAX_KEY_BYTES}" if length > MAX_KEY_BYTES else ""
