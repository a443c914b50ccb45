"""Sealed texts: what makes bytes a document of ours, and refuses every other.

A sealed text is a JSON object in UTF-8 with sorted keys that names its format
and version and carries the SHA-256 of its own content. Whatever is damaged,
foreign, newer or cut short is refused by name; nothing is ever filled in.
"""

import hashlib
import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeVar, cast

from watermarks.errors import DataInDoubt, Misuse, StateUnreadable

JsonObject = Mapping[str, Any]
"""A JSON object, as `json` gives it."""

T = TypeVar("T")

_DIGEST: Final = "digest"
REBUILD_HINT: Final = "Its history can tell what it was: syncd watermark rebuild"
RESTORE_HINT: Final = "Restore it from the bucket's versions; nothing else knows what it said."


class DamagedDocument(StateUnreadable):
    """Not whole: empty, cut, no JSON, edited, or with a digest that does not fit."""


class ForeignDocument(StateUnreadable):
    """Whole, but something else than what was to be here."""


class DocumentTooNew(StateUnreadable):
    """Written by a later version of this library."""


def hint_for_key(location: str) -> str:
    """What can be done about the object at this key: only a watermark can be told from its history."""
    return REBUILD_HINT if location.startswith("watermarks/") else RESTORE_HINT


def compute_digest(fields: JsonObject) -> str:
    """The digest of an object's content, whatever its layout."""
    return _hash_encoded(_encode_fields(fields))


def _hash_encoded(encoded: Mapping[str, str]) -> str:
    canonical = "{" + ",".join(f"{name}:{value}" for name, value in encoded.items()) + "}"
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _encode_fields(fields: JsonObject) -> dict[str, str]:
    """The fields in order, names and values each in the one compact form that counts for the digest."""
    return {_ENCODE_JSON(name): _ENCODE_JSON(fields[name]) for name in sorted(fields)}


_ENCODE_JSON: Final = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


def document_digest(form: str, version: int, fields: JsonObject) -> str:
    """The digest that stands in the document which `seal` makes of the same."""
    return compute_digest({**fields, "format": form, "format_version": version})


def encode(form: str, version: int, fields: JsonObject) -> bytes:
    """The bytes of a document of this format: one field a line, so that a person can read it."""
    encoded = _encode_fields({**fields, "format": form, "format_version": version})
    encoded[_ENCODE_JSON(_DIGEST)] = _ENCODE_JSON(_hash_encoded(encoded))
    lines = ",\n".join(f"{name}: {encoded[name]}" for name in sorted(encoded))
    return f"{{\n{lines}\n}}\n".encode()


MAX_TEXT_CHARACTERS: Final = 2_000
"""Characters that a text of people or drivers may have in a document: it is there to be read, not to fill it."""


def to_printable(text: str) -> str:
    """The text as a document can hold it: Unicode, and cut where it is endless."""
    whole = text.encode(errors="backslashreplace").decode()
    return whole if len(whole) <= MAX_TEXT_CHARACTERS else whole[:MAX_TEXT_CHARACTERS] + "…"


def decode(body: bytes, form: str, version: int, *, location: str) -> dict[str, Any]:
    """The content of a document, whose format, version and digest were found right.

    `format_version` stays inside, for whoever upgrades older ones.

    Raises:
        Damaged, Foreign, TooNew: it is not such a document; `at` says where.
    """
    fields = parse_json_object(body, location=location)
    if fields.get("format") != form:
        raise ForeignDocument(
            f"{location} is of format {fields.get('format')!r:.60}, not {form!r}",
            hint="A document of an earlier tool is taken over by: syncd watermark import",
        )
    found = fields.get("format_version")
    if type(found) is not int or found < 1:
        raise DamagedDocument(f"{location} has no format version", hint=hint_for_key(location))
    if found > version:
        raise DocumentTooNew(
            f"{location} has version {found} of its format, this library knows up to {version}", hint="Upgrade syncd."
        )
    claimed = fields.pop(_DIGEST, None)
    if claimed is None or claimed != _try_compute_digest(fields):
        raise DamagedDocument(
            f"{location} does not fit its digest: it was damaged, or edited by hand", hint=hint_for_key(location)
        )
    return fields


def _try_compute_digest(fields: JsonObject) -> str | None:
    """The digest, or None for what we never write: lone surrogates, numbers without end."""
    try:
        return compute_digest(fields)
    except (ValueError, RecursionError):
        return None


def parse_json_object(body: bytes, *, location: str) -> dict[str, Any]:
    """The JSON object in the bytes; one with a key twice is not one.

    Raises:
        Damaged: there is none.
    """
    try:
        found: object = json.loads(
            body.decode(), object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant
        )
    except (ValueError, RecursionError) as error:
        what = "is empty" if not body.strip() else f"is no JSON of ours ({error})"
        raise DamagedDocument(f"{location} {what}", hint=hint_for_key(location)) from error
    if not isinstance(found, dict):
        raise DamagedDocument(f"{location} is no JSON object", hint=hint_for_key(location))
    return cast("dict[str, Any]", found)


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


class FieldReader:
    """Typed reading of an unsealed object: a field that is absent or of another type is damage.

    `known()` at the end refuses what nobody asked for, so that a field which
    means something to another version is never dropped in silence.
    """

    __slots__ = ("_location", "_unread")

    def __init__(self, fields: JsonObject, *, location: str) -> None:
        self._unread = dict(fields)
        self._location = location

    def text(self, name: str) -> str:
        return self._read(name, str)

    def number(self, name: str) -> int:
        """A count, a sequence number or a generation: never negative."""
        found = self._read(name, int)
        if found < 0:
            raise DamagedDocument(f"{self._location}: {name} is {found}", hint=hint_for_key(self._location))
        return found

    def flag(self, name: str) -> bool:
        return self._read(name, bool)

    def items(self, name: str) -> list[Any]:
        return cast("list[Any]", self._read(name, list))

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.items(name)
        for item in found:
            if not isinstance(item, str):
                raise DamagedDocument(
                    f"{self._location}: {name} holds {str(item)[:60]!r}, not text", hint=hint_for_key(self._location)
                )
        return tuple(found)

    def mapping(self, name: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self._read(name, dict))

    def optional_text(self, name: str) -> str | None:
        return self._read_optional(name, str)

    def optional_mapping(self, name: str) -> dict[str, Any] | None:
        return cast("dict[str, Any] | None", self._read_optional(name, dict))

    def ignore(self, names: Iterable[str]) -> None:
        """Pass over fields that only repeat others."""
        for name in names:
            self._unread.pop(name, None)

    def require_all_read(self) -> None:
        """Refuse fields that nobody read.

        Raises:
            Damaged: there are some.
        """
        left = sorted(self._unread.keys() - {"format", "format_version"})
        if left:
            raise DamagedDocument(
                f"{self._location} has fields that are not known: {', '.join(left)}", hint="Upgrade syncd."
            )

    def _read(self, name: str, kind: type[T]) -> T:
        found = self._read_optional(name, kind)
        if found is None:
            raise DamagedDocument(f"{self._location}: {name} is null", hint=hint_for_key(self._location))
        return found

    def _read_optional(self, name: str, kind: type[T]) -> T | None:
        if name not in self._unread:
            raise DamagedDocument(f"{self._location} lacks {name}", hint=hint_for_key(self._location))
        found = self._unread.pop(name)
        if found is not None and type(found) is not kind:
            raise DamagedDocument(
                f"{self._location}: {name} is {str(found)[:60]!r}, not {kind.__name__}",
                hint=hint_for_key(self._location),
            )
        return found


@contextmanager
def raise_as_damaged(location: str) -> Generator[None]:
    """Turn what a value says of a wrong content into damage of the document that held it."""
    try:
        yield
    except StateUnreadable:
        raise
    except (Misuse, DataInDoubt, ValueError) as error:
        raise DamagedDocument(
            f"{location} holds a value that cannot be: {error}", hint=hint_for_key(location)
        ) from error
