"""Encoding and decoding of documents.

A document is a JSON object in UTF-8 with sorted keys that names its format and
version and carries the SHA-256 of its own content. Decoding refuses a document
that is damaged, foreign, newer or cut short, each by its own error; it never
fills in a value.
"""

import hashlib
import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NoReturn, Self, TypeVar, cast

from watermarks.cursor import Cursor, parse_instant
from watermarks.errors import DataInDoubt, Misuse, StateUnreadable

JsonObject = Mapping[str, Any]
"""JSON object as `json` returns it."""

T = TypeVar("T")

_DIGEST: Final = "digest"
REBUILD_HINT: Final = "Rebuild it from its history: syncd watermark rebuild"
RESTORE_HINT: Final = "Restore it from the bucket's versions; no other copy exists."
MISPLACED_HINT: Final = (
    "Restore the original from the bucket's versions: the object was probably copied or moved by hand."
)


class DamagedDocument(StateUnreadable):
    """A document that is empty, cut, edited, no JSON, or does not match its digest."""


class ForeignDocument(StateUnreadable):
    """A whole document that is not the one expected here."""


class DocumentTooNew(StateUnreadable):
    """A document written by a later version of this library."""


def hint_for_key(location: str) -> str:
    """Return the hint for the object at this key: only a watermark can be rebuilt from its history."""
    return REBUILD_HINT if location.startswith("watermarks/") else RESTORE_HINT


def _damaged(location: str, message: str) -> DamagedDocument:
    return DamagedDocument(message, hint=hint_for_key(location))


def compute_digest(fields: JsonObject) -> str:
    """Return the digest of an object's content, independent of its layout."""
    return _hash_encoded(_encode_fields(fields))


def _hash_encoded(encoded: Mapping[str, str]) -> str:
    canonical = "{" + ",".join(f"{name}:{value}" for name, value in encoded.items()) + "}"
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _encode_fields(fields: JsonObject) -> dict[str, str]:
    """Return names and values, sorted by name, in the compact form that the digest covers."""
    return {_ENCODE_JSON(name): _ENCODE_JSON(fields[name]) for name in sorted(fields)}


_ENCODE_JSON: Final = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


def document_digest(form: str, version: int, fields: JsonObject) -> str:
    """Return the digest that `encode` writes into the document of these fields."""
    return compute_digest({**fields, "format": form, "format_version": version})


def encode(form: str, version: int, fields: JsonObject) -> bytes:
    """Return the bytes of a document of this format, one field a line so that a person can read it."""
    encoded = _encode_fields({**fields, "format": form, "format_version": version})
    encoded[_ENCODE_JSON(_DIGEST)] = _ENCODE_JSON(_hash_encoded(encoded))
    lines = ",\n".join(f"{name}: {encoded[name]}" for name in sorted(encoded))
    return f"{{\n{lines}\n}}\n".encode()


MAX_TEXT_CHARACTERS: Final = 2_000
"""Limit for a text by a person or a driver in a document."""


def to_printable(text: str) -> str:
    """Return the text as a document can hold it: valid Unicode of limited length."""
    printable = text.encode(errors="backslashreplace").decode()
    return printable if len(printable) <= MAX_TEXT_CHARACTERS else printable[:MAX_TEXT_CHARACTERS] + "…"


def decode(body: bytes, form: str, version: int, *, location: str) -> dict[str, Any]:
    """Return the content of a document, after checking its format, version and digest.

    `format_version` stays in the content, for upgrades of older versions.

    Raises:
        DamagedDocument, ForeignDocument, DocumentTooNew: it is no such document; `location` says where.
    """
    fields = parse_json_object(body, location=location)
    if fields.get("format") != form:
        raise ForeignDocument(
            f"{location} has format {fields.get('format')!r:.60}, expected {form!r}",
            hint="Import a document of the earlier tool with: syncd watermark import",
        )
    found_version = fields.get("format_version")
    if type(found_version) is not int or found_version < 1:
        raise _damaged(location, f"{location} has no format version")
    if found_version > version:
        raise DocumentTooNew(
            f"{location} has format version {found_version}; this syncd reads versions up to {version}",
            hint="Upgrade syncd.",
        )
    claimed = fields.pop(_DIGEST, None)
    if claimed is None or claimed != _try_compute_digest(fields):
        raise _damaged(location, f"{location} does not match its digest: it was damaged or edited by hand")
    return fields


def _try_compute_digest(fields: JsonObject) -> str | None:
    """Return the digest, or None for content that is never written: lone surrogates, infinite numbers."""
    try:
        return compute_digest(fields)
    except (ValueError, RecursionError):
        return None


def parse_json_object(body: bytes, *, location: str) -> dict[str, Any]:
    """Return the JSON object in the bytes; refuse one that has a key twice.

    Raises:
        DamagedDocument: the bytes hold no such object.
    """
    try:
        value: object = json.loads(
            body.decode(), object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant
        )
    except (ValueError, RecursionError) as error:
        problem = "is empty" if not body.strip() else f"is not valid JSON ({error})"
        raise _damaged(location, f"{location} {problem}") from error
    if not isinstance(value, dict):
        raise _damaged(location, f"{location} is not a JSON object")
    return cast("dict[str, Any]", value)


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("it contains a key twice")
    return fields


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not valid JSON")


class FieldReader:
    """Typed reader of a decoded object; an absent field or a wrong type is damage.

    As a context manager it refuses fields that were not read, so that a field
    with a meaning to another version is never dropped in silence.
    """

    __slots__ = ("_location", "_unread")

    def __init__(self, fields: JsonObject, *, location: str) -> None:
        self._unread = dict(fields)
        self._location = location

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.require_all_read()

    def text(self, name: str) -> str:
        return self._read(name, str)

    def number(self, name: str) -> int:
        """Return a count, a sequence number or a generation; these are never negative."""
        number = self._read(name, int)
        if number < 0:
            raise self._damaged(f": {name} is {number}")
        return number

    def flag(self, name: str) -> bool:
        return self._read(name, bool)

    def items(self, name: str) -> list[Any]:
        return cast("list[Any]", self._read(name, list))

    def texts(self, name: str) -> tuple[str, ...]:
        items = self.items(name)
        for item in items:
            if not isinstance(item, str):
                raise self._damaged(f": {name} contains {str(item)[:60]!r}, not text")
        return tuple(items)

    def mapping(self, name: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self._read(name, dict))

    def optional_text(self, name: str) -> str | None:
        return self._read_optional(name, str)

    def optional_mapping(self, name: str) -> dict[str, Any] | None:
        return cast("dict[str, Any] | None", self._read_optional(name, dict))

    def instant(self, name: str) -> datetime:
        return parse_instant(self.text(name))

    def optional_instant(self, name: str) -> datetime | None:
        text = self.optional_text(name)
        return parse_instant(text) if text else None

    def cursor(self, name: str) -> Cursor:
        return Cursor.from_texts(self.items(name))

    def ignore(self, names: Iterable[str]) -> None:
        """Skip fields that only repeat others."""
        for name in names:
            self._unread.pop(name, None)

    def require_all_read(self) -> None:
        """Refuse fields that were not read. Raises DamagedDocument if there are some."""
        unknown = sorted(self._unread.keys() - {"format", "format_version"})
        if unknown:
            raise DamagedDocument(f"{self._location} has unknown fields: {', '.join(unknown)}", hint="Upgrade syncd.")

    def _read(self, name: str, kind: type[T]) -> T:
        value = self._read_optional(name, kind)
        if value is None:
            raise self._damaged(f": {name} is null")
        return value

    def _read_optional(self, name: str, kind: type[T]) -> T | None:
        if name not in self._unread:
            raise self._damaged(f" lacks {name}")
        value = self._unread.pop(name)
        if value is not None and type(value) is not kind:
            raise self._damaged(f": {name} is {str(value)[:60]!r}, not {kind.__name__}")
        return value

    def _damaged(self, problem: str) -> DamagedDocument:
        return _damaged(self._location, self._location + problem)


@contextmanager
def raise_as_damaged(location: str) -> Generator[None]:
    """Turn the error of a value that refuses its content into damage of the document that held it."""
    try:
        yield
    except StateUnreadable:
        raise
    except (Misuse, DataInDoubt, ValueError) as error:
        raise _damaged(location, f"{location} contains an invalid value: {error}") from error


@contextmanager
def read_document(body: bytes, form: str, version: int, *, location: str) -> Generator[FieldReader]:
    """Give a reader of a document's content; at the end, refuse fields that were not read.

    Raises:
        StateUnreadable: it is no such document, or holds invalid values; `location` says where.
    """
    fields = decode(body, form, version, location=location)
    with raise_as_damaged(location), FieldReader(fields, location=location) as reader:
        yield reader
