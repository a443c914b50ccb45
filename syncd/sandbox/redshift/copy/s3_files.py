"""S3 as COPY reads it: sizes, whole small objects, and files that are read in pieces."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from syncd.sandbox.redshift.refusal import not_in_stand_in


@dataclass(slots=True, kw_only=True)
class CopyStorage:
    """Where the bucket is. The clients' own IAM words are checked for form and not used."""

    endpoint: str = ""
    access_key: str = "sandbox"
    secret_key: str = "sandbox"  # noqa: S105  # the emulator takes any word
    region: str = "us-east-1"
    _file_system: Any = field(default=None, repr=False)

    def open_file_system(self) -> Any:  # noqa: ANN401  # pyarrow gives no types
        """The file system of pyarrow over the endpoint."""
        if not self.endpoint:
            raise not_in_stand_in("COPY without an S3 endpoint, which this stand-in was not given, it")
        if self._file_system is None:
            from pyarrow.fs import S3FileSystem  # starts the AWS library: only who loads pays

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
        """The address that Redshift's messages show for an object."""
        bucket, _, key = location.removeprefix("s3://").partition("/")
        return f"https://s3.{self.region}.amazonaws.com/{bucket}/{quote(key)}"

    def size(self, location: str) -> int | None:
        """The object's size in bytes; None if there is none."""
        if "//" in s3_path(location):
            return None  # another key in S3, and one that pyarrow cannot name: not found here either
        found = self.open_file_system().get_file_info(s3_path(location))
        return int(found.size) if found.is_file else None

    def read(self, location: str) -> bytes | None:
        """A whole object; None if there is none."""
        if self.size(location) is None:
            return None
        with self.open_file_system().open_input_stream(s3_path(location)) as stream:
            return bytes(stream.read())

    def list_prefix(self, prefix: str) -> list[tuple[str, int]]:
        """Every object whose key begins so, with its size, in the order of keys."""
        from pyarrow.fs import FileSelector  # as above

        path = s3_path(prefix)
        folder = path.rpartition("/")[0]
        found = self.open_file_system().get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
        return sorted((f"s3://{f.path}", int(f.size)) for f in found if f.is_file and f.path.startswith(path))


def s3_path(location: str) -> str:
    return location.removeprefix("s3://")
