"""Documents of the earlier tool, s3-redshift-backup-tool: found and parsed.

Only the import command uses them: no stage ever takes such a document for one of syncd.
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
"""Folders in which that tool keeps copies, and objects that are no documents."""
_TEXT_SUFFIX: Final = ".txt"


def is_document_address(address: str) -> bool:
    """Return whether an address is that of one document, and not of a folder."""
    match = _S3_ADDRESS.fullmatch(address)
    return not address.endswith(("/", _TEXT_SUFFIX)) and (match is None or bool(match[2]))


def find_legacy_document(lake: "S3Lake", stream: StreamName, address: str) -> LegacyDocument:
    """Read a table's document from a file or an object, or find it below an address that ends with `/`.

    Raises:
        Misuse: there is none, or there are several.
        StateUnreadable: it is damaged, or no document of that tool.
        LakeDown, LakeUnfit: it is not readable.
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
    listed = [found.key for found in lake.list_objects(prefix)]
    keys = [key for key in listed if _may_belong_to(key.removeprefix(prefix), stream)]
    documents = [(key, _parse_document(lake.read(key), at=lake.address_of(key), stream=stream)) for key in keys]
    fit = [document for key, document in documents if _belongs_to(document.legacy, key, stream)]
    if len(fit) == 1:
        return fit[0]
    table = stream.table_name
    if not fit:
        raise Misuse(
            f"{lake.address_of(prefix)} contains no document of {table}",
            hint="Name the object itself, or leave out --from to take the mark from the target's last row.",
        )
    locations = ", ".join(document.location for document in fit)
    raise Misuse(
        f"{lake.address_of(prefix)} contains {len(fit)} documents of {table}: {locations}", hint="Name one of them."
    )


def _may_belong_to(key: str, stream: StreamName) -> bool:
    """Return whether an object's name contains the table's, after its connection and before its target."""
    *folders, name = key.lower().split("/")
    table = _normalize_name(stream.table_name)
    return (
        name.endswith(".json")
        and _IGNORED_FOLDERS.isdisjoint(folders)
        and table in _normalize_name(name.removesuffix(".json"))
    )


def _belongs_to(legacy: LegacyWatermark, key: str, stream: StreamName) -> bool:
    """Return whether a document is this table's: by its content, or by the end of its name if it names no table."""
    table = _normalize_name(stream.table_name)
    return legacy.matches_stream(stream) and (
        legacy.table is not None or _normalize_name(key.removesuffix(".json")).endswith(table)
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
    """Return the document if it has a position.

    Raises:
        Misuse: it has none.
    """
    if legacy.matches_stream(stream) and legacy.timestamp is None and legacy.last_id is None:
        raise Misuse(
            f"{at} has no position up to which {stream} was read",
            hint="It was never run, or was reset. Without it the target's last row decides: leave out --from",
        )
    return legacy
