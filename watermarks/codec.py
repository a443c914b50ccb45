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

Json = Mapping[str, Any]
"""A JSON object, as `json` gives it."""

T = TypeVar("T")

_DIGEST: Final = "digest"
REBUILD: Final = "Its history can tell what it was: syncd watermark rebuild"
RESTORE: Final = "Restore it from the bucket's versions; nothing else knows what it said."


class Damaged(StateUnreadable):
    """Not whole: empty, cut, no JSON, edited, or with a digest that does not fit."""


class Foreign(StateUnreadable):
    """Whole, but something else than what was to be here."""


class TooNew(StateUnreadable):
    """Written by a later version of this library."""


def remedy(at: str) -> str:
    """What can be done about the object at this key: only a watermark can be told from its history."""
    return REBUILD if at.startswith("watermarks/") else RESTORE


def digest_of(fields: Json) -> str:
    """The digest of an object's content, whatever its layout."""
    return _digest(_encoded(fields))


def _digest(encoded: Mapping[str, str]) -> str:
    canonical = "{" + ",".join(f"{name}:{value}" for name, value in encoded.items()) + "}"
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def _encoded(fields: Json) -> dict[str, str]:
    """The fields in order, names and values each in the one compact form that counts for the digest."""
    return {_ENCODE(name): _ENCODE(fields[name]) for name in sorted(fields)}


_ENCODE: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def sealed_digest(form: str, version: int, fields: Json) -> str:
    """The digest that stands in the document which `seal` makes of the same."""
    return digest_of({**fields, "format": form, "format_version": version})


def seal(form: str, version: int, fields: Json) -> bytes:
    """The bytes of a document of this format: one field a line, so that a person can read it."""
    encoded = _encoded({**fields, "format": form, "format_version": version})
    encoded[_ENCODE(_DIGEST)] = _ENCODE(_digest(encoded))
    lines = ",\n".join(f"{name}: {encoded[name]}" for name in sorted(encoded))
    return f"{{\n{lines}\n}}\n".encode()


LONGEST_TEXT: Final = 2_000
"""Characters that a text of people or drivers may have in a document: it is there to be read, not to fill it."""


def printable(text: str) -> str:
    """The text as a document can hold it: Unicode, and cut where it is endless."""
    whole = text.encode(errors="backslashreplace").decode()
    return whole if len(whole) <= LONGEST_TEXT else whole[:LONGEST_TEXT] + "…"


def unseal(body: bytes, form: str, version: int, *, at: str) -> dict[str, Any]:
    """The content of a document, whose format, version and digest were found right.

    `format_version` stays inside, for whoever upgrades older ones.

    Raises:
        Damaged, Foreign, TooNew: it is not such a document; `at` says where.
    """
    fields = parse(body, at=at)
    if fields.get("format") != form:
        raise Foreign(
            f"{at} is of format {fields.get('format')!r:.60}, not {form!r}",
            hint="A document of an earlier tool is taken over by: syncd watermark import",
        )
    found = fields.get("format_version")
    if type(found) is not int or found < 1:
        raise Damaged(f"{at} has no format version", hint=remedy(at))
    if found > version:
        raise TooNew(
            f"{at} has version {found} of its format, this library knows up to {version}", hint="Upgrade syncd."
        )
    claimed = fields.pop(_DIGEST, None)
    if claimed is None or claimed != _digest_or_none(fields):
        raise Damaged(f"{at} does not fit its digest: it was damaged, or edited by hand", hint=remedy(at))
    return fields


def _digest_or_none(fields: Json) -> str | None:
    """The digest, or None for what we never write: lone surrogates, numbers without end."""
    try:
        return digest_of(fields)
    except (ValueError, RecursionError):
        return None


def parse(body: bytes, *, at: str) -> dict[str, Any]:
    """The JSON object in the bytes; one with a key twice is not one.

    Raises:
        Damaged: there is none.
    """
    try:
        found: object = json.loads(body.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        what = "is empty" if not body.strip() else f"is no JSON of ours ({error})"
        raise Damaged(f"{at} {what}", hint=remedy(at)) from error
    if not isinstance(found, dict):
        raise Damaged(f"{at} is no JSON object", hint=remedy(at))
    return cast("dict[str, Any]", found)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


class Fields:
    """Typed reading of an unsealed object: a field that is absent or of another type is damage.

    `known()` at the end refuses what nobody asked for, so that a field which
    means something to another version is never dropped in silence.
    """

    __slots__ = ("_at", "_left")

    def __init__(self, fields: Json, *, at: str) -> None:
        self._left = dict(fields)
        self._at = at

    def text(self, name: str) -> str:
        return self._typed(name, str)

    def number(self, name: str) -> int:
        """A count, a sequence number or a generation: never negative."""
        found = self._typed(name, int)
        if found < 0:
            raise Damaged(f"{self._at}: {name} is {found}", hint=remedy(self._at))
        return found

    def flag(self, name: str) -> bool:
        return self._typed(name, bool)

    def items(self, name: str) -> list[Any]:
        return cast("list[Any]", self._typed(name, list))

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.items(name)
        for item in found:
            if not isinstance(item, str):
                raise Damaged(f"{self._at}: {name} holds {str(item)[:60]!r}, not text", hint=remedy(self._at))
        return tuple(found)

    def inner(self, name: str) -> dict[str, Any]:
        return cast("dict[str, Any]", self._typed(name, dict))

    def maybe_text(self, name: str) -> str | None:
        return self._maybe(name, str)

    def maybe_inner(self, name: str) -> dict[str, Any] | None:
        return cast("dict[str, Any] | None", self._maybe(name, dict))

    def drop(self, names: Iterable[str]) -> None:
        """Pass over fields that only repeat others."""
        for name in names:
            self._left.pop(name, None)

    def known(self) -> None:
        """Refuse fields that nobody read.

        Raises:
            Damaged: there are some.
        """
        left = sorted(self._left.keys() - {"format", "format_version"})
        if left:
            raise Damaged(f"{self._at} has fields that are not known: {', '.join(left)}", hint="Upgrade syncd.")

    def _typed(self, name: str, kind: type[T]) -> T:
        found = self._maybe(name, kind)
        if found is None:
            raise Damaged(f"{self._at}: {name} is null", hint=remedy(self._at))
        return found

    def _maybe(self, name: str, kind: type[T]) -> T | None:
        if name not in self._left:
            raise Damaged(f"{self._at} lacks {name}", hint=remedy(self._at))
        found = self._left.pop(name)
        if found is not None and type(found) is not kind:
            raise Damaged(f"{self._at}: {name} is {str(found)[:60]!r}, not {kind.__name__}", hint=remedy(self._at))
        return found


@contextmanager
def blamed(at: str) -> Generator[None]:
    """Turn what a value says of a wrong content into damage of the document that held it."""
    try:
        yield
    except StateUnreadable:
        raise
    except (Misuse, DataInDoubt, ValueError) as error:
        raise Damaged(f"{at} holds a value that cannot be: {error}", hint=remedy(at)) from error
