"""Inheriting: the documents of the earlier tool, found where they lie and read as what they are.

Nothing but the commands of an import comes here: no stage ever takes such a document for one of ours.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncd.operations.adoption_rules import LegacyDocument
from watermarks.errors import Misuse
from watermarks.legacy import LegacyWatermark, read_legacy_system_watermark, read_legacy_watermark
from watermarks.names import StreamName

if TYPE_CHECKING:
    from syncd.s3.lake_client import S3Lake

_S3_ADDRESS: Final = re.compile(r"s3://([^/]+)(?:/(.*))?")
_NON_WORD: Final = re.compile(r"[^a-z0-9]+")
_IGNORED_FOLDERS: Final = frozenset({"locks", "history", "backups", "sessions"})
"""Folders in which that tool keeps copies, and things that are no documents."""
_TEXT_SUFFIX: Final = ".txt"


def is_document_address(address: str) -> bool:
    """Whether a place is the document of one table."""
    match = _S3_ADDRESS.fullmatch(address)
    return not address.endswith(("/", _TEXT_SUFFIX)) and (match is None or bool(match[2]))


def find_legacy_document(lake: "S3Lake", stream: StreamName, address: str) -> LegacyDocument:
    """What the earlier tool says of a table: in one object or file, or in whichever below an address with `/` behind.

    Raises:
        Misuse: there is none, or there are several.
        StateUnreadable: it is damaged, or no document of that tool.
        LakeDown, LakeUnfit: it cannot be read.
    """
    match = _S3_ADDRESS.fullmatch(address)
    if match is None:
        return _read_file(Path(address), stream)
    bucket, key = match[1], match[2] or ""
    lake = replace(lake, settings=replace(lake.settings, bucket=bucket, prefix=""))
    if key and not key.endswith("/"):
        return _parse_document(lake.read(key), at=address, stream=stream)
    return _find_below(lake, key, stream)


def _read_file(path: Path, stream: StreamName) -> LegacyDocument:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise Misuse(
            f"{path} cannot be read: {error.strerror}", hint="Name a file, or an address: s3://BUCKET/watermarks/"
        ) from error
    return _parse_document(body, at=str(path), stream=stream)


def _find_below(lake: "S3Lake", prefix: str, stream: StreamName) -> LegacyDocument:
    """The one document below a prefix that is this table's."""
    listed = [found.key for found in lake.list_objects(prefix)]
    keys = [key for key in listed if _may_belong_to(key.removeprefix(prefix), stream)]
    found = [(key, _parse_document(lake.read(key), at=lake.address_of(key), stream=stream)) for key in keys]
    fit = [one for key, one in found if _belongs_to(one.legacy, key, stream)]
    if len(fit) == 1:
        return fit[0]
    table = stream.table_name
    if not fit:
        raise Misuse(
            f"{lake.address_of(prefix)} holds no document of {table}",
            hint="Name the object itself. Without any the target's own last row decides: leave out --from",
        )
    locations = ", ".join(document.location for document in fit)
    raise Misuse(
        f"{lake.address_of(prefix)} holds {len(fit)} documents of {table}: {locations}", hint="Name one of them."
    )


def _may_belong_to(key: str, stream: StreamName) -> bool:
    """Whether an object's name may be this table's: with its connection before it, and its target behind."""
    *folders, name = key.lower().split("/")
    words = _normalize_name(stream.table_name)
    return (
        name.endswith(".json")
        and _IGNORED_FOLDERS.isdisjoint(folders)
        and words in _normalize_name(name.removesuffix(".json"))
    )


def _belongs_to(legacy: LegacyWatermark, key: str, stream: StreamName) -> bool:
    """Whether a document is this table's: as it says, or, where it says nothing, as its name ends."""
    words = _normalize_name(stream.table_name)
    return legacy.matches_stream(stream) and (
        legacy.table is not None or _normalize_name(key.removesuffix(".json")).endswith(words)
    )


def _normalize_name(name: str) -> str:
    return f"_{_NON_WORD.sub('_', name.lower()).strip('_')}_"


def _parse_document(body: bytes, *, at: str, stream: StreamName) -> LegacyDocument:
    legacy = (
        read_legacy_system_watermark(body, location=at)
        if at.endswith(_TEXT_SUFFIX)
        else read_legacy_watermark(body, location=at)
    )
    return LegacyDocument(location=at, legacy=_require_position(legacy, at=at, stream=stream))


def _require_position(legacy: LegacyWatermark, *, at: str, stream: StreamName) -> LegacyWatermark:
    """The document, if it says anything up to where data was read.

    Raises:
        Misuse: it says nothing.
    """
    if legacy.matches_stream(stream) and legacy.timestamp is None and legacy.last_id is None:
        raise Misuse(
            f"{at} says nothing up to which {stream} was read",
            hint="It was never run, or was reset. The target's own last row decides without it: leave out --from",
        )
    return legacy
