"""Where tables go: the warehouses of the file, and each table's target as Redshift will call it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import SplitResult

from syncd.config.model import File, Table, Tunnel, Warehouse
from syncd.config.redaction import Path_
from syncd.config.value_parsers import SYSTEM_SCHEMAS, address, is_loopback, user_of
from syncd.settings import IamLogin, Secret, TargetSettings, Tls, TunnelSettings, WarehouseSettings
from syncd.suggestions import meant
from syncd.tables.column_mapping import LONGEST_NAME, folded

ONLY_WAREHOUSE: Final = "redshift"
"""What the one server of `warehouse:` is called."""
OURS: Final = "syncd_"
"""What the names of our own tables begin with."""
_WAYS_IN: Final = "Keep one of: a password in the url, `iam`, `secret`."

Complain: TypeAlias = Callable[[Path_, str, str], None]
"""Told a place, what is wrong there, and what would mend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouses:
    """Reads the warehouses of a file."""

    complain: Complain
    beside: Callable[[Path | None], Path | None]
    tunnel: Callable[[Tunnel | None], TunnelSettings | None]

    def all(self, file: File) -> Iterator[WarehouseSettings]:
        if file.warehouse is not None and file.warehouses:
            self.complain(("warehouses",), "stands beside `warehouse`", "Name every server under `warehouses`.")
        for name, one in file.warehouses.items():
            yield self._one(name, one, ("warehouses", name))
        if file.warehouse is not None:
            yield self._one(ONLY_WAREHOUSE, file.warehouse, ("warehouse",))

    def _one(self, name: str, warehouse: Warehouse, place: Path_) -> WarehouseSettings:
        parts = address(warehouse.url, "redshift")
        user, password = user_of(parts)
        self._require_way_in(warehouse, parts, place)
        self._require_schema(warehouse.schema_, place)
        host = parts.hostname or ""
        near = is_loopback(host) and warehouse.tunnel is None
        iam = warehouse.iam
        return WarehouseSettings(
            name=name,
            host=host,
            port=parts.port or 5439,
            database=parts.path.strip("/"),
            user=user,
            password=Secret(password) if password else None,
            iam=None if iam is None else IamLogin(**iam.model_dump()),
            secret=warehouse.secret,
            tls=Tls(warehouse.tls or (Tls.DISABLE if near else Tls.VERIFY)),
            ca=self.beside(warehouse.ca),
            tunnel=self.tunnel(warehouse.tunnel),
            schema=folded(warehouse.schema_),
            iam_role=warehouse.iam_role,
            query_group=warehouse.query_group,
            max_sessions=warehouse.max_sessions,
            silence=warehouse.silence,
            longest_statement=warehouse.longest_statement,
        )

    def _require_way_in(self, warehouse: Warehouse, parts: SplitResult, place: Path_) -> None:
        user, password = user_of(parts)
        ways = {"a password in the url": password, "`iam`": warehouse.iam, "`secret`": warehouse.secret}
        chosen = [way for way, value in ways.items() if value]
        if len(chosen) > 1:
            self.complain((*place, "url"), f"there are several ways in: {' and '.join(chosen)}", _WAYS_IN)
        if not chosen:
            self.complain((*place, "url"), "there is no way in", _WAYS_IN)
        told = warehouse.secret or (warehouse.iam and warehouse.iam.workgroup)
        if not user and not told:
            self.complain((*place, "url"), "the address names no user", "Write redshift://user:...@host:5439/database.")

    def _require_schema(self, schema: str, place: Path_) -> None:
        if trouble := trouble_of_schema(schema):
            self.complain((*place, "schema"), trouble, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Finds the target of each table, and no target twice."""

    complain: Complain
    warehouses: Mapping[str, WarehouseSettings]
    taken: dict[tuple[str, str, str], str]

    def of(self, name: str, table: Table, *, source: str, place: Path_) -> TargetSettings | None:
        """The target of a table whose name at the source is `source`; none where there is no warehouse."""
        warehouse = self._warehouse(table, place)
        schema, short = self._named(table.target or "", warehouse)
        short = short or folded(source)
        at = (*place, "target") if table.target else place
        trouble = trouble_of_table(short) or (trouble_of_schema(schema) if table.target else "")
        if trouble:
            self.complain(at, trouble, "Give it another name with `target`.")
        self._require_free(name, (warehouse.name if warehouse else "", schema, short), place)
        if warehouse is None:
            return None
        return TargetSettings(
            warehouse=warehouse.name,
            schema=schema,
            table=short,
            distkey=table.distkey,
            sortkey=table.sortkey,
            encode=table.encode,
            grants=table.grants,
            notes=tuple(dict.fromkeys(table.metadata)),
            deletes=table.deletes,
            max_refused=table.max_refused,
        )

    def _warehouse(self, table: Table, place: Path_) -> WarehouseSettings | None:
        if table.to is not None:
            if table.to not in self.warehouses:
                self.complain((*place, "to"), f"no warehouse is called {table.to!r}", meant(table.to, self.warehouses))
            return self.warehouses.get(table.to)
        if len(self.warehouses) > 1:
            self.complain(place, "there are several warehouses", f"Add `to:` with one of {', '.join(self.warehouses)}.")
            return None
        return next(iter(self.warehouses.values()), None)

    def _named(self, target: str, warehouse: WarehouseSettings | None) -> tuple[str, str]:
        schema, dot, short = folded(target).rpartition(".")
        return (schema if dot else warehouse.schema if warehouse else "public"), short

    def _require_free(self, name: str, target: tuple[str, str, str], place: Path_) -> None:
        if (other := self.taken.setdefault(target, name)) != name:
            self.complain(
                place,
                f"has the same target as {other}: {target[1]}.{target[2]}",
                "Give one of them a `target` of its own.",
            )


def trouble_of_schema(schema: str) -> str:
    """Why nothing can be put into a schema of this name; empty: it can."""
    if folded(schema).startswith(SYSTEM_SCHEMAS):
        return f"schema {schema} is Redshift's own"
    return _trouble_of_name(schema)


def trouble_of_table(table: str) -> str:
    """Why no target can have this name; empty: it can."""
    if table.startswith(OURS):
        return f"{table} begins with {OURS}, as the tables of syncd itself do"
    if table.startswith("#"):
        return f"{table} would be a temporary table: its name begins with #"
    return _trouble_of_name(table)


def _trouble_of_name(name: str) -> str:
    if not name.strip():
        return "a name is empty"
    if "." in name or not name.isprintable():
        return f"{name!r} cannot be written as schema.table"
    if (size := len(name.encode())) > LONGEST_NAME:
        return f"{name} is {size} bytes long, and Redshift cuts names after {LONGEST_NAME}"
    return ""
