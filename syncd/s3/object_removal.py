"""Deletion of lake objects by an operator: refusals are listed object by object, and old versions can go too."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from syncd.errors import LakeUnfit
from syncd.s3.lake_client import S3Lake

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

LIST_VERSIONS_PERMISSION: Final = "s3:ListBucketVersions on the bucket, and s3:DeleteObjectVersion on the keys"
VERSIONING_PERMISSION: Final = "s3:GetBucketVersioning on the bucket"
VERSION_MARKERS: Final = {"KeyMarker": "NextKeyMarker", "VersionIdMarker": "NextVersionIdMarker"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnremovedObject:
    """An object that S3 refused to delete, and why."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVersion:
    """One version of an object, or a delete marker."""

    key: str
    id: str
    bytes: int


class LakeRemover:
    """Deletes objects of one lake, each independently of the others."""

    def __init__(self, lake: S3Lake) -> None:
        self._lake = lake

    def keeps_versions(self) -> bool | None:
        """Return whether the bucket keeps deleted objects; None where that may not be asked."""
        try:
            with self._lake.map_errors("", VERSIONING_PERMISSION):
                answer = self._lake.client.get_bucket_versioning(Bucket=self._lake.settings.bucket)
        except LakeUnfit:
            return None
        return "Status" in answer  # a bucket whose versioning is suspended keeps the versions that it has

    def remove(self, keys: Sequence[str]) -> Sequence[UnremovedObject]:
        """Delete objects; return those that S3 refused to delete."""
        return self._delete([{"Key": self._lake.object_name(key)} for key in keys], "s3:DeleteObject")

    def remove_versions(self, keys: Sequence[str]) -> Sequence[UnremovedObject]:
        """Delete every version and every delete marker of these objects; return those that S3 refused to delete."""
        versions = self.versions(keys)
        objects: list[ObjectIdentifierTypeDef] = [
            {"Key": self._lake.object_name(version.key), "VersionId": version.id} for version in versions
        ]
        return self._delete(objects, "s3:DeleteObjectVersion")

    def versions(self, keys: Collection[str]) -> list[ObjectVersion]:
        """List every version and every delete marker of these objects."""
        wanted = set(keys)
        prefixes = sorted({key.rpartition("/")[0] + "/" for key in wanted})
        return [version for prefix in prefixes for version in self._list_versions(prefix) if version.key in wanted]

    def _list_versions(self, prefix: str) -> Iterator[ObjectVersion]:
        request = self._lake.client.list_object_versions
        for page in self._lake.iter_pages(request, prefix, LIST_VERSIONS_PERMISSION, VERSION_MARKERS):
            for found in (*page.get("Versions", []), *page.get("DeleteMarkers", [])):
                key = self._lake.key_of(found["Key"])
                yield ObjectVersion(key=key, id=found["VersionId"], bytes=found.get("Size", 0))

    def _delete(self, objects: "Sequence[ObjectIdentifierTypeDef]", permission: str) -> list[UnremovedObject]:
        return [
            UnremovedObject(
                key=self._lake.key_of(refusal.get("Key", "")),
                reason=f"{refusal.get('Code')}: {refusal.get('Message')}",
            )
            for refusals in self._lake.delete_in_chunks(objects, permission)
            for refusal in refusals
        ]
