"""Inheriting: the documents of the earlier tool, found where they lie and read as what they are.

Nothing but the commands of an import comes here: no stage ever takes such a document for one of ours.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncd.app.operator_context import Desk
from syncd.operations.adoption_rules import Inherited
from watermarks.errors import Misuse
from watermarks.legacy import Legacy, read_legacy, read_legacy_text
from watermarks.names import StreamName

if TYPE_CHECKING:
    from syncd.s3.lake_client import Lake

_ADDRESS: Final = re.compile(r"s3://([^/]+)(?:/(.*))?")
_WORD: Final = re.compile(r"[^a-z0-9]+")
_ASIDE: Final = frozenset({"locks", "history", "backups", "sessions"})
"""Folders in which that tool keeps copies, and things that are no documents."""
_TEXT: Final = ".txt"


def is_one(place: str) -> bool:
    """Whether a place is the document of one table."""
    match = _ADDRESS.fullmatch(place)
    return not place.endswith(("/", _TEXT)) and (match is None or bool(match[2]))


def inherited_by(desk: Desk, stream: StreamName, place: str) -> Inherited:
    """What the earlier tool says of a table: in one object or file, or in whichever below an address with `/` behind.

    Raises:
        Misuse: there is none, or there are several.
        StateUnreadable: it is damaged, or no document of that tool.
        LakeDown, LakeUnfit: it cannot be read.
    """
    match = _ADDRESS.fullmatch(place)
    if match is None:
        return _of_file(Path(place), stream)
    bucket, key = match[1], match[2] or ""
    lake = _lake(desk, bucket)
    if key and not key.endswith("/"):
        return _read(lake.read(key), at=place, stream=stream)
    return _below(lake, key, stream)


def _lake(desk: Desk, bucket: str) -> "Lake":
    from syncd.s3.lake_client import Lake  # noqa: PLC0415  # boto3 takes long to load

    return Lake(replace(desk.settings.lake, bucket=bucket, prefix=""), desk.lake.client)


def _of_file(path: Path, stream: StreamName) -> Inherited:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise Misuse(
            f"{path} cannot be read: {error.strerror}", hint="Name a file, or an address: s3://BUCKET/watermarks/"
        ) from error
    return _read(body, at=str(path), stream=stream)


def _below(lake: "Lake", prefix: str, stream: StreamName) -> Inherited:
    """The one document below a prefix that is this table's."""
    keys = [key for key, _ in lake.stray(prefix) if _may_be_of(key.removeprefix(prefix), stream)]
    found = [(key, _read(lake.read(key), at=lake.at(key), stream=stream)) for key in keys]
    fit = [one for key, one in found if _is_of(one.legacy, key, stream)]
    if len(fit) == 1:
        return fit[0]
    table = f"{stream.database}.{stream.table}"
    if not fit:
        raise Misuse(
            f"{lake.at(prefix)} holds no document of {table}",
            hint="Name the object itself. Without any the target's own last row decides: leave out --from",
        )
    listed = ", ".join(one.at for one in fit)
    raise Misuse(f"{lake.at(prefix)} holds {len(fit)} documents of {table}: {listed}", hint="Name one of them.")


def _may_be_of(key: str, stream: StreamName) -> bool:
    """Whether an object's name may be this table's: with its connection before it, and its target behind."""
    *folders, name = key.lower().split("/")
    words = _joined(f"{stream.database}.{stream.table}")
    return name.endswith(".json") and _ASIDE.isdisjoint(folders) and words in _joined(name.removesuffix(".json"))


def _is_of(legacy: Legacy, key: str, stream: StreamName) -> bool:
    """Whether a document is this table's: as it says, or, where it says nothing, as its name ends."""
    words = _joined(f"{stream.database}.{stream.table}")
    return legacy.is_of(stream) and (legacy.table is not None or _joined(key.removesuffix(".json")).endswith(words))


def _joined(name: str) -> str:
    return f"_{_WORD.sub('_', name.lower()).strip('_')}_"


def _read(body: bytes, *, at: str, stream: StreamName) -> Inherited:
    legacy = read_legacy_text(body, at=at) if at.endswith(_TEXT) else read_legacy(body, at=at)
    return Inherited(at=at, legacy=_told(legacy, at=at, stream=stream))


def _told(legacy: Legacy, *, at: str, stream: StreamName) -> Legacy:
    """The document, if it says anything up to where data was read.

    Raises:
        Misuse: it says nothing.
    """
    if legacy.is_of(stream) and legacy.timestamp is None and legacy.key is None:
        raise Misuse(
            f"{at} says nothing up to which {stream} was read",
            hint="It was never run, or was reset. The target's own last row decides without it: leave out --from",
        )
    return legacy
