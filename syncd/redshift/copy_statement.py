"""COPY: the list of files it reads, and the scratch table that it fills."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from syncd.datatypes.columns import ColumnMapping
from syncd.lake import batch_number
from syncd.lake.manifest import Manifest
from syncd.lake.window_reads import Part
from syncd.redshift.quoting import quote_name, quote_names, text_literal
from watermarks.batch import BatchLink

SCRATCH_PREFIX: Final = "syncd_scratch_"
"""What the names of scratch tables begin with; none of a target does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchLoad:
    """Files of one shape, from batches that follow one another, and the scratch table that takes them all."""

    scratch: str
    links: tuple[BatchLink, ...]
    manifests: tuple[Manifest, ...]

    @property
    def columns(self) -> tuple[ColumnMapping, ...]:
        return self.manifests[0].columns

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(passage.name for passage in self.columns)

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for manifest in self.manifests for part in manifest.parts)

    @property
    def has_deleted_keys(self) -> bool:
        """Whether its rows are keys of rows that are gone."""
        return self.manifests[0].tombstones is not None

    @property
    def rows(self) -> int:
        return sum(manifest.rows for manifest in self.manifests)

    @property
    def table(self) -> str:
        return quote_name(self.scratch)

    def create_statement(self, *, distkey: str = "") -> str:
        """The temporary table. Its key holds no NULL: such a row would be found by no later one."""
        key = set(self.manifests[0].identity.key)
        columns = [
            f"{quote_name(each.name)} {each.scratch_type}" + (" NOT NULL" if each.name in key else "")
            for each in self.columns
        ]
        columns.append(f"{quote_name(batch_number.BATCH_COLUMN)} BIGINT NOT NULL")
        layout = f" DISTKEY ({quote_name(distkey)})" if distkey in self.column_names else ""
        return f"CREATE TEMP TABLE {self.table} ({', '.join(columns)}){layout}"

    def copy_statement(self, manifest: str, credentials: str) -> str:
        """The statement; columns in the files' order, for COPY goes by place and never by name."""
        return (
            f"COPY {self.table} ({quote_names((*self.column_names, batch_number.BATCH_COLUMN))}) FROM {text_literal(manifest)}"
            f" {credentials} FORMAT AS PARQUET MANIFEST STATUPDATE OFF"
        )

    @property
    def drop_statement(self) -> str:
        return f"DROP TABLE {self.table}"


def group_loads(links: Sequence[BatchLink], manifests: Sequence[Manifest]) -> tuple[ScratchLoad, ...]:
    """One load for each shape of files; batches without files need none."""
    shapes: dict[tuple[object, ...], list[tuple[BatchLink, Manifest]]] = {}
    for link, manifest in zip(links, manifests, strict=True):
        if manifest.parts:
            shape = (manifest.columns, manifest.identity, manifest.tombstones is None)
            shapes.setdefault(shape, []).append((link, manifest))
    return tuple(
        ScratchLoad(
            scratch=f"{SCRATCH_PREFIX}{number}",
            links=tuple(link for link, _ in group),
            manifests=tuple(manifest for _, manifest in group),
        )
        for number, group in enumerate(shapes.values())
    )


def copy_manifest_body(files: Iterable[tuple[str, int]]) -> bytes:
    """The list of files for COPY: each must be there, and be of exactly this size."""
    entries = [{"url": url, "mandatory": True, "meta": {"content_length": size}} for url, size in files]
    return json.dumps({"entries": entries}, separators=(",", ":")).encode()


def role_clause(role: str) -> str:
    """By which role COPY reads the files."""
    return "IAM_ROLE default" if role == "default" else f"IAM_ROLE {text_literal(role)}"


def key_clause(access: str, secret: str, token: str | None) -> str:
    """The same by keys; these stand in the statement."""
    session = f" SESSION_TOKEN {text_literal(token)}" if token else ""
    return f"ACCESS_KEY_ID {text_literal(access)} SECRET_ACCESS_KEY {text_literal(secret)}{session}"
