"""Which objects a COPY reads: those of a manifest, checked entry by entry, or those under a prefix."""

import json
from dataclasses import dataclass
from typing import Any

from syncd.sandbox.redshift.copy.copy_text import LOCATION
from syncd.sandbox.redshift.copy.s3_files import Lake
from syncd.sandbox.redshift.copy.scan_errors import DATA, MANIFEST, file_not_found, scan_error, service_error

PACKED = (".gz", ".snappy", ".bz2", ".lzo", ".zst")


@dataclass(frozen=True, slots=True)
class Source:
    """One object to load."""

    location: str
    size: int


def sources_of(lake: Lake, location: str, *, manifest: bool) -> list[Source]:
    """The objects to load, in order, each as often as it is named."""
    sources = _of_manifest(lake, location) if manifest else _of_prefix(lake, location)
    for source in sources:
        if source.location.endswith(PACKED):
            address = lake.web_address(source.location)
            raise scan_error(
                DATA, f"a file packed as a whole is not carried out by the stand-in: {address}", file=address
            )
    return sources


def _of_prefix(lake: Lake, prefix: str) -> list[Source]:
    found = [Source(location, size) for location, size in lake.under(prefix)]
    if not found:
        # One measurement saw a Parquet prefix without objects load nothing and succeed; the text formats fail.
        raise service_error(f"The specified S3 prefix '{prefix.split('/', 3)[-1]}' does not exist")
    return found


def _of_manifest(lake: Lake, location: str) -> list[Source]:
    text = lake.read(location)
    if text is None:
        raise service_error(
            "Problem reading manifest file - S3ServiceException:The specified key does not exist.,Status 404,"
            "Error NoSuchKey"
        )
    found = [source for entry in _entries(text) if (source := _source(lake, entry)) is not None]
    if not found:
        raise service_error("COPY found none of the files that its manifest lists")
    return found


def _entries(text: bytes) -> list[dict[str, Any]]:
    try:
        document = json.loads(text.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise service_error(f"Problem reading manifest file - it is not JSON in UTF-8: {error}") from error
    entries = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise service_error("Problem reading manifest file - it has no list of entries")
    return entries


def _source(lake: Lake, entry: dict[str, Any]) -> Source | None:
    url = entry.get("url")
    if not isinstance(url, str) or not LOCATION.fullmatch(url):
        raise scan_error(MANIFEST, f"File entry does not have a full s3:// 'url': {url}")
    meta = entry.get("meta")
    if not isinstance(meta, dict):
        raise scan_error(MANIFEST, "File entry does not have 'meta' key.", file=lake.web_address(url))
    length = meta.get("content_length")
    if not isinstance(length, int) or isinstance(length, bool):
        raise scan_error(
            MANIFEST, "File entry does not have 'content_length' key in 'meta'.", file=lake.web_address(url)
        )
    mandatory = entry.get("mandatory", False)
    if not isinstance(mandatory, bool):
        raise scan_error(MANIFEST, "File entry has a 'mandatory' that is no boolean.", file=lake.web_address(url))
    size = lake.size(url)
    if size is None:
        if mandatory:
            raise file_not_found(lake.web_address(url))
        return None
    if size != length:
        # What Redshift does with a wrong length is not documented: refused here (facts, 1.3).
        sentence = f"File has {size} bytes, its manifest entry says {length}: {lake.web_address(url)}"
        raise scan_error(MANIFEST, sentence, file=lake.web_address(url))
    return Source(url, size)
