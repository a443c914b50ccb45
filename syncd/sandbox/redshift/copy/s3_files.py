"""S3 as COPY reads it: storage access, and the objects of a manifest or under a prefix."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

from syncd.sandbox.redshift.refusal import (
    DATA_ERROR,
    MANIFEST_ERROR,
    file_not_found_error,
    not_in_stand_in,
    scan_error,
    service_error,
)

LOCATION_PATTERN: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.*)", re.DOTALL)
COMPRESSED_SUFFIXES: Final = (".gz", ".snappy", ".bz2", ".lzo", ".zst")


@dataclass(slots=True, kw_only=True)
class CopyStorage:
    """Address and keys of S3. The credentials in a COPY statement are checked for form and not used."""

    endpoint: str = ""
    access_key: str = "sandbox"
    secret_key: str = "sandbox"  # noqa: S105  # the emulator takes any word
    region: str = "us-east-1"
    _file_system: Any = field(default=None, repr=False)

    def open_file_system(self) -> Any:  # noqa: ANN401  # pyarrow gives no types
        if not self.endpoint:
            raise not_in_stand_in("COPY without an S3 endpoint")
        if self._file_system is None:
            from pyarrow.fs import S3FileSystem  # starts the AWS library, so only on first use

            parts = urlsplit(self.endpoint)
            self._file_system = S3FileSystem(
                access_key=self.access_key,
                secret_key=self.secret_key,
                region=self.region,
                scheme=parts.scheme,
                endpoint_override=parts.netloc,
                connect_timeout=5,
                request_timeout=60,
            )
        return self._file_system

    def web_address(self, location: str) -> str:
        """Return the address that Redshift's messages show for an object."""
        bucket, _, key = location.removeprefix("s3://").partition("/")
        return f"https://s3.{self.region}.amazonaws.com/{bucket}/{quote(key)}"

    def size(self, location: str) -> int | None:
        """Return the object's size in bytes, or None if there is no object."""
        if "//" in s3_path(location):
            return None  # pyarrow cannot name such a key
        found = self.open_file_system().get_file_info(s3_path(location))
        return int(found.size) if found.is_file else None

    def read(self, location: str) -> bytes | None:
        """Return a whole object, or None if there is none."""
        if self.size(location) is None:
            return None
        with self.open_file_system().open_input_stream(s3_path(location)) as stream:
            return bytes(stream.read())

    def list_prefix(self, prefix: str) -> list[tuple[str, int]]:
        """Return every object whose key has the prefix, with its size, in the order of keys."""
        from pyarrow.fs import FileSelector  # as above

        path = s3_path(prefix)
        folder = path.rpartition("/")[0]
        found = self.open_file_system().get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
        return sorted((f"s3://{f.path}", int(f.size)) for f in found if f.is_file and f.path.startswith(path))


def s3_path(location: str) -> str:
    return location.removeprefix("s3://")


@dataclass(frozen=True, slots=True)
class CopyFile:
    location: str
    size: int


def find_copy_files(lake: CopyStorage, location: str, *, manifest: bool) -> list[CopyFile]:
    """Return the objects to load, in order, each as often as it is listed."""
    sources = _files_of_manifest(lake, location) if manifest else _files_under_prefix(lake, location)
    for source in sources:
        if source.location.endswith(COMPRESSED_SUFFIXES):
            address = lake.web_address(source.location)
            raise scan_error(
                DATA_ERROR, f"a file packed as a whole is not carried out by the stand-in: {address}", file=address
            )
    return sources


def _files_under_prefix(lake: CopyStorage, prefix: str) -> list[CopyFile]:
    found = [CopyFile(location, size) for location, size in lake.list_prefix(prefix)]
    if not found:
        # One measurement saw a Parquet prefix without objects load nothing and succeed; the text formats fail.
        raise service_error(f"The specified S3 prefix '{prefix.split('/', 3)[-1]}' does not exist")
    return found


def _files_of_manifest(lake: CopyStorage, location: str) -> list[CopyFile]:
    text = lake.read(location)
    if text is None:
        raise service_error(
            "Problem reading manifest file - S3ServiceException:The specified key does not exist.,Status 404,"
            "Error NoSuchKey"
        )
    found = [source for entry in _parse_entries(text) if (source := _check_entry(lake, entry)) is not None]
    if not found:
        raise service_error("COPY found none of the files that its manifest lists")
    return found


def _parse_entries(text: bytes) -> list[dict[str, Any]]:
    try:
        document = json.loads(text.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise service_error(f"Problem reading manifest file - it is not JSON in UTF-8: {error}") from error
    entries = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise service_error("Problem reading manifest file - it has no list of entries")
    return entries


def _check_entry(lake: CopyStorage, entry: dict[str, Any]) -> CopyFile | None:
    url = entry.get("url")
    if not isinstance(url, str) or not LOCATION_PATTERN.fullmatch(url):
        raise scan_error(MANIFEST_ERROR, f"File entry does not have a full s3:// 'url': {url}")
    meta = entry.get("meta")
    if not isinstance(meta, dict):
        raise scan_error(MANIFEST_ERROR, "File entry does not have 'meta' key.", file=lake.web_address(url))
    length = meta.get("content_length")
    if not isinstance(length, int) or isinstance(length, bool):
        raise scan_error(
            MANIFEST_ERROR, "File entry does not have 'content_length' key in 'meta'.", file=lake.web_address(url)
        )
    mandatory = entry.get("mandatory", False)
    if not isinstance(mandatory, bool):
        raise scan_error(MANIFEST_ERROR, "File entry has a 'mandatory' that is no boolean.", file=lake.web_address(url))
    size = lake.size(url)
    if size is None:
        if mandatory:
            raise file_not_found_error(lake.web_address(url))
        return None
    if size != length:
        # What Redshift does with a wrong length is not documented: refused here (facts, 1.3).
        sentence = f"File has {size} bytes, its manifest entry says {length}: {lake.web_address(url)}"
        raise scan_error(MANIFEST_ERROR, sentence, file=lake.web_address(url))
    return CopyFile(url, size)
