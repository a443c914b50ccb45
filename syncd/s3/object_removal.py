"""Objects taken out of the lake by hand: what S3 refuses is told for each, and versions that stay are counted."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from syncd.errors import LakeDown, LakeUnfit
from syncd.s3.lake_client import MAX_KEYS_PER_DELETE, S3Lake

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

DELETE_PERMISSION: Final = "s3:DeleteObject on the keys"
VERSIONS_PERMISSION: Final = "s3:ListBucketVersions on the bucket, and s3:DeleteObjectVersion on the keys"
VERSIONING_PERMISSION: Final = "s3:GetBucketVersioning on the bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnremovedObject:
    """An object that is still there, and why."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVersion:
    """One version of an object, or the mark of a removal."""

    key: str
    id: str
    bytes: int


class LakeRemover:
    """Takes objects out of one lake."""

    def __init__(self, lake: S3Lake) -> None:
        self._lake = lake

    def keeps_versions(self) -> bool | None:
        """Whether the bucket keeps what is removed; None where it does not let us ask."""
        try:
            with self._lake.map_errors("", VERSIONING_PERMISSION):
                answer = self._lake.client.get_bucket_versioning(Bucket=self._lake.settings.bucket)
        except LakeUnfit:
            return None
        return "Status" in answer  # a bucket that was told to keep no more keeps those that it has

    def remove(self, keys: Sequence[str]) -> Sequence[UnremovedObject]:
        return list(self._delete_objects([{"Key": self._lake.object_name(key)} for key in keys], DELETE_PERMISSION))

    def remove_versions(self, keys: Sequence[str]) -> Sequence[UnremovedObject]:
        found = self.versions(keys)
        return list(
            self._delete_objects(
                [{"Key": self._lake.object_name(one.key), "VersionId": one.id} for one in found], VERSIONS_PERMISSION
            )
        )

    def versions(self, keys: Collection[str]) -> list[ObjectVersion]:
        """Every version of these objects, and every mark of a removal."""
        wanted = set(keys)
        prefixes = sorted({key.rpartition("/")[0] + "/" for key in wanted})
        return [one for prefix in prefixes for one in self._list_versions(prefix) if one.key in wanted]

    def _list_versions(self, prefix: str) -> Iterator[ObjectVersion]:
        start = len(self._lake.object_name(""))
        further: dict[str, Any] = {}
        while True:
            with self._lake.map_errors(prefix, VERSIONS_PERMISSION):
                page = self._lake.client.list_object_versions(
                    Bucket=self._lake.settings.bucket, Prefix=self._lake.object_name(prefix), **further
                )
            for each in page.get("Versions", []):
                yield ObjectVersion(key=each["Key"][start:], id=each["VersionId"], bytes=each["Size"])
            for mark in page.get("DeleteMarkers", []):
                yield ObjectVersion(key=mark["Key"][start:], id=mark["VersionId"], bytes=0)
            if not page.get("IsTruncated"):
                return
            if "NextKeyMarker" not in page:
                raise LakeDown(f"{self._lake.address_of(prefix)}: the listing goes on, but does not say where")
            further = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page.get("NextVersionIdMarker", "")}

    def _delete_objects(self, objects: Sequence[dict[str, str]], permission: str) -> Iterator[UnremovedObject]:
        start = len(self._lake.object_name(""))
        for first in range(0, len(objects), MAX_KEYS_PER_DELETE):
            some = cast("list[ObjectIdentifierTypeDef]", objects[first : first + MAX_KEYS_PER_DELETE])
            with self._lake.map_errors("", permission):
                answer = self._lake.client.delete_objects(
                    Bucket=self._lake.settings.bucket, Delete={"Objects": some, "Quiet": True}
                )
            for each in answer.get("Errors", []):
                reason = f"{each.get('Code')}: {each.get('Message')}"
                yield UnremovedObject(key=each.get("Key", "")[start:], reason=reason)
