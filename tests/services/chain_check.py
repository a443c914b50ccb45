"""What lies in the lake of one stream, read with nothing of the product: JSON, and rows by pyarrow."""

import hashlib
import io
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class Lake:
    """One bucket and prefix, seen from outside."""

    client: "S3Client"
    bucket: str
    prefix: str

    def keys(self, below: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self.prefix}/{below}"
        )
        return [entry["Key"].removeprefix(f"{self.prefix}/") for page in pages for entry in page.get("Contents", [])]

    def bytes(self, key: str) -> bytes:
        return self.client.get_object(Bucket=self.bucket, Key=f"{self.prefix}/{key}")["Body"].read()

    def document(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.bytes(key))
        return found

    def links(self, stream: str) -> list[dict[str, Any]]:
        """The links of the stream in the order of their numbers; a gap or a broken chain fails."""
        keys = self.keys(f"batches/{stream}/")
        links = sorted((self.document(key) for key in keys), key=lambda link: [int(n) for n in link["id"].split("-")])
        assert [link["id"] for link in links] == [f"1-{seq}" for seq in range(1, len(links) + 1)]
        for before, link in zip([None, *links], links, strict=False):
            assert link["previous"] == (before["digest"] if before else None), f"{link['id']} follows another link"
        return links

    def rows(self, stream: str, *names: str) -> Counter[tuple[Any, ...]]:
        """How often each row stands in the parts that links name; each part is what its manifest says."""
        found: Counter[tuple[Any, ...]] = Counter()
        for link in self.links(stream):
            for part in link["body"].get("parts", ()):
                found.update(self.rows_of(part, names))
        return found

    def rows_of(self, part: dict[str, Any], names: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """The rows of one part, which is what its manifest says."""
        body = self.bytes(part["key"])
        assert (len(body), hashlib.sha256(body).hexdigest()) == (part["bytes"], part["sha256"])
        table = pq.read_table(io.BytesIO(body), columns=list(names))
        assert table.num_rows == part["rows"]
        return list(zip(*(_plain(table[name]) for name in names), strict=True))

    def orphans(self, stream: str) -> set[str]:
        """Parts that no link names."""
        named = {key for link in self.links(stream) for key in link["files"]}
        return set(self.keys(f"data/{stream}/")) - named


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))
    return list(column.to_pylist())
