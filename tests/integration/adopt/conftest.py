"""Tables that something else loaded: a source, a target filled by hand, the earlier tool's documents beside them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from click.testing import Result

from syncd.redshift.session import WarehouseSession
from tests.integration.verify.conftest import Both, both, box, standin

__all__ = ["both", "box", "standin"]

STAMP = "update_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
ORDERS = f"id BIGINT PRIMARY KEY, name VARCHAR(60) NULL, total DECIMAL(10,2) NOT NULL, {STAMP}, KEY (update_at, id)"
THERE = "id bigint not null, name varchar(240), total decimal(10,2), update_at timestamp"
"""As that tool makes a table: no column of ours."""
ROWS = 300


@dataclass
class Adopted:
    """One table on both sides, loaded by somebody else."""

    pair: Both
    table: str
    statements: list[str] = field(default_factory=list)
    """What the warehouse was asked by the last command."""

    def source(self, layout: str = ORDERS) -> None:
        """A table whose stamps are some months old, two rows a second."""
        self.pair.sql(
            f"DROP TABLE IF EXISTS {self.table}",
            f"CREATE TABLE {self.table} ({layout}) CHARACTER SET utf8mb4",
            f"INSERT INTO {self.table} (id, name, total, update_at) WITH RECURSIVE c AS (SELECT 1 n UNION ALL SELECT"
            f" n + 1 FROM c WHERE n < {ROWS}) SELECT n, CONCAT('row ', n), n / 7,"
            " '2026-01-01' + INTERVAL n DIV 2 SECOND FROM c",
        )

    def load(self, where: str = "TRUE", *, layout: str = THERE) -> None:
        """What the other tool has copied."""
        rows = self.pair.sql(f"SELECT id, name, total, update_at FROM {self.table} WHERE {where}")
        values = ", ".join(f"({id_}, '{name}', {total}, '{at}')" for id_, name, total, at in rows)
        self.pair.there(
            f"drop table if exists {self.table}",
            f"create table {self.table} ({layout})",
            *([f"insert into {self.table} (id, name, total, update_at) values {values}"] if values else []),
        )

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        found = self.pair.client.rows(f"select id, name, total, update_at from {self.table}")
        return sorted(tuple(row) for row in found)

    def document(self, key: str, body: bytes) -> str:
        """A document of the earlier tool, in a bucket of its own."""
        bucket = f"old-{self.pair.prefix}"
        client = self.pair.box.s3.make_client()
        if bucket not in {one["Name"] for one in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key=key, Body=body)
        return f"s3://{bucket}/{key}"

    def run(self, *words: str) -> Result:
        self.statements.clear()
        return self.pair.syncd("watermark", "import", "-t", self.table, *words)

    def told(self, *words: str) -> dict[str, Any]:
        done = self.run("--json", *words)
        [stream] = json.loads(done.stdout)["streams"]
        return {**stream, "exit": done.exit_code}

    @property
    def copied(self) -> list[str]:
        """What the last command wrote to any table that stays."""
        writes = ("COPY", "INSERT", "UPDATE", "DELETE", "ALTER", "CREATE", "DROP")
        return [one for one in self.statements if one.upper().startswith(writes) and "syncd_fresh" not in one]


@pytest.fixture
def adopted(both: Callable[..., Both], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Adopted]:
    statements: list[str] = []
    for name in ("run", "rows"):
        real: Any = getattr(WarehouseSession, name)

        def recorded(self: WarehouseSession, sql: str, *words: Any, real: Any = real, **more: Any) -> Any:
            statements.append(sql)
            return real(self, sql, *words, **more)

        monkeypatch.setattr(WarehouseSession, name, recorded)

    def make(table: str, more: str = "", **words: Any) -> Adopted:
        # On this loopback TLS proves nothing, and each of many connections would read all authorities of the host.
        pair = both(tables=f"shop.{table}: {{{more}}}", source="tls: disable", **words)
        return Adopted(pair, table, statements)

    return make
