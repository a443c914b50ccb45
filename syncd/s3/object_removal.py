"""Objects taken out of the lake by hand: what S3 refuses is told for each, and versions that stay are counted."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from syncd.errors import LakeDown, LakeUnfit
from syncd.s3.lake_client import MOST_AT_ONCE, Lake

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

PERMISSION: Final = "s3:DeleteObject on the keys"
VERSIONS: Final = "s3:ListBucketVersions on the bucket, and s3:DeleteObjectVersion on the keys"
STATUS: Final = "s3:GetBucketVersioning on the bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An object that is still there, and why."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of an object, or the mark of a removal."""

    key: str
    id: str
    bytes: int


class LakeBin:
    """Takes objects out of one lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def keeps_versions(self) -> bool | None:
        """Whether the bucket keeps what is removed; None where it does not let us ask."""
        try:
            with self._lake.mapped("", STATUS):
                answer = self._lake.client.get_bucket_versioning(Bucket=self._lake.settings.bucket)
        except LakeUnfit:
            return None
        return "Status" in answer  # a bucket that was told to keep no more keeps those that it has

    def remove(self, keys: Sequence[str]) -> Sequence[Refusal]:
        return list(self._removed([{"Key": self._lake.name(key)} for key in keys], PERMISSION))

    def remove_versions(self, keys: Sequence[str]) -> Sequence[Refusal]:
        found = self.versions(keys)
        return list(self._removed([{"Key": self._lake.name(one.key), "VersionId": one.id} for one in found], VERSIONS))

    def versions(self, keys: Collection[str]) -> list[Version]:
        """Every version of these objects, and every mark of a removal."""
        wanted = set(keys)
        prefixes = sorted({key.rpartition("/")[0] + "/" for key in wanted})
        return [one for prefix in prefixes for one in self._below(prefix) if one.key in wanted]

    def _below(self, prefix: str) -> Iterator[Version]:
        start = len(self._lake.name(""))
        further: dict[str, Any] = {}
        while True:
            with self._lake.mapped(prefix, VERSIONS):
                page = self._lake.client.list_object_versions(
                    Bucket=self._lake.settings.bucket, Prefix=self._lake.name(prefix), **further
                )
            for each in page.get("Versions", []):
                yield Version(key=each["Key"][start:], id=each["VersionId"], bytes=each["Size"])
            for mark in page.get("DeleteMarkers", []):
                yield Version(key=mark["Key"][start:], id=mark["VersionId"], bytes=0)
            if not page.get("IsTruncated"):
                return
            if "NextKeyMarker" not in page:
                raise LakeDown(f"{self._lake.at(prefix)}: the listing goes on, but does not say where")
            further = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page.get("NextVersionIdMarker", "")}

    def _removed(self, objects: Sequence[dict[str, str]], permission: str) -> Iterator[Refusal]:
        start = len(self._lake.name(""))
        for first in range(0, len(objects), MOST_AT_ONCE):
            some = cast("list[ObjectIdentifierTypeDef]", objects[first : first + MOST_AT_ONCE])
            with self._lake.mapped("", permission):
                answer = self._lake.client.delete_objects(
                    Bucket=self._lake.settings.bucket, Delete={"Objects": some, "Quiet": True}
                )
            for each in answer.get("Errors", []):
                reason = f"{each.get('Code')}: {each.get('Message')}"
                yield Refusal(key=each.get("Key", "")[start:], reason=reason)
