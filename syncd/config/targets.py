"""Where tables go: the warehouses of the file, and each table's target as Redshift will call it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import SplitResult

from syncd.config.model import File, Table, Tunnel, Warehouse
from syncd.config.redaction import KeyPath
from syncd.config.value_parsers import SYSTEM_SCHEMA_PREFIXES, extract_credentials, is_loopback, parse_url
from syncd.settings import IamLogin, Secret, TargetSettings, Tls, TunnelSettings, WarehouseSettings
from syncd.suggestions import did_you_mean
from syncd.tables.column_mapping import MAX_NAME_BYTES, fold_name

DEFAULT_WAREHOUSE_NAME: Final = "redshift"
"""What the one server of `warehouse:` is called."""
RESERVED_TABLE_PREFIX: Final = "syncd_"
"""What the names of our own tables begin with."""
_LOGIN_HINT: Final = "Keep one of: a password in the url, `iam`, `secret`."

ReportMistake: TypeAlias = Callable[[KeyPath, str, str], None]
"""Told a place, what is wrong there, and what would mend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseReader:
    """Reads the warehouses of a file."""

    report_mistake: ReportMistake
    resolve_path: Callable[[Path | None], Path | None]
    build_tunnel: Callable[[Tunnel | None], TunnelSettings | None]

    def read_all(self, file: File) -> Iterator[WarehouseSettings]:
        if file.warehouse is not None and file.warehouses:
            self.report_mistake(("warehouses",), "stands beside `warehouse`", "Name every server under `warehouses`.")
        for name, one in file.warehouses.items():
            yield self._read_warehouse(name, one, ("warehouses", name))
        if file.warehouse is not None:
            yield self._read_warehouse(DEFAULT_WAREHOUSE_NAME, file.warehouse, ("warehouse",))

    def _read_warehouse(self, name: str, warehouse: Warehouse, key_path: KeyPath) -> WarehouseSettings:
        parts = parse_url(warehouse.url, "redshift")
        user, password = extract_credentials(parts)
        self._require_one_login(warehouse, parts, key_path)
        self._require_schema(warehouse.schema_, key_path)
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
            ca=self.resolve_path(warehouse.ca),
            tunnel=self.build_tunnel(warehouse.tunnel),
            schema=fold_name(warehouse.schema_),
            iam_role=warehouse.iam_role,
            query_group=warehouse.query_group,
            max_sessions=warehouse.max_sessions,
            silence=warehouse.silence,
            longest_statement=warehouse.longest_statement,
        )

    def _require_one_login(self, warehouse: Warehouse, parts: SplitResult, key_path: KeyPath) -> None:
        user, password = extract_credentials(parts)
        ways = {"a password in the url": password, "`iam`": warehouse.iam, "`secret`": warehouse.secret}
        chosen = [way for way, value in ways.items() if value]
        if len(chosen) > 1:
            self.report_mistake((*key_path, "url"), f"there are several ways in: {' and '.join(chosen)}", _LOGIN_HINT)
        if not chosen:
            self.report_mistake((*key_path, "url"), "there is no way in", _LOGIN_HINT)
        told = warehouse.secret or (warehouse.iam and warehouse.iam.workgroup)
        if not user and not told:
            self.report_mistake(
                (*key_path, "url"), "the address names no user", "Write redshift://user:...@host:5439/database."
            )

    def _require_schema(self, schema: str, key_path: KeyPath) -> None:
        if trouble := find_schema_name_problem(schema):
            self.report_mistake((*key_path, "schema"), trouble, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResolver:
    """Finds the target of each table, and no target twice."""

    report_mistake: ReportMistake
    warehouses: Mapping[str, WarehouseSettings]
    stream_by_target: dict[tuple[str, str, str], str]

    def resolve_target(self, name: str, table: Table, *, source: str, key_path: KeyPath) -> TargetSettings | None:
        """The target of a table whose name at the source is `source`; none where there is no warehouse."""
        warehouse = self._find_warehouse(table, key_path)
        schema, short = self._qualify_target(table.target or "", warehouse)
        short = short or fold_name(source)
        at = (*key_path, "target") if table.target else key_path
        trouble = find_table_name_problem(short) or (find_schema_name_problem(schema) if table.target else "")
        if trouble:
            self.report_mistake(at, trouble, "Give it another name with `target`.")
        self._require_free(name, (warehouse.name if warehouse else "", schema, short), key_path)
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

    def _find_warehouse(self, table: Table, key_path: KeyPath) -> WarehouseSettings | None:
        if table.to is not None:
            if table.to not in self.warehouses:
                self.report_mistake(
                    (*key_path, "to"), f"no warehouse is called {table.to!r}", did_you_mean(table.to, self.warehouses)
                )
            return self.warehouses.get(table.to)
        if len(self.warehouses) > 1:
            self.report_mistake(
                key_path, "there are several warehouses", f"Add `to:` with one of {', '.join(self.warehouses)}."
            )
            return None
        return next(iter(self.warehouses.values()), None)

    def _qualify_target(self, target: str, warehouse: WarehouseSettings | None) -> tuple[str, str]:
        schema, dot, short = fold_name(target).rpartition(".")
        return (schema if dot else warehouse.schema if warehouse else "public"), short

    def _require_free(self, name: str, target: tuple[str, str, str], key_path: KeyPath) -> None:
        if (other := self.stream_by_target.setdefault(target, name)) != name:
            self.report_mistake(
                key_path,
                f"has the same target as {other}: {target[1]}.{target[2]}",
                "Give one of them a `target` of its own.",
            )


def find_schema_name_problem(schema: str) -> str:
    """Why nothing can be put into a schema of this name; empty: it can."""
    if fold_name(schema).startswith(SYSTEM_SCHEMA_PREFIXES):
        return f"schema {schema} is Redshift's own"
    return _find_name_problem(schema)


def find_table_name_problem(table: str) -> str:
    """Why no target can have this name; empty: it can."""
    if table.startswith(RESERVED_TABLE_PREFIX):
        return f"{table} begins with {RESERVED_TABLE_PREFIX}, as the tables of syncd itself do"
    if table.startswith("#"):
        return f"{table} would be a temporary table: its name begins with #"
    return _find_name_problem(table)


def _find_name_problem(name: str) -> str:
    if not name.strip():
        return "a name is empty"
    if "." in name or not name.isprintable():
        return f"{name!r} cannot be written as schema.table"
    if (size := len(name.encode())) > MAX_NAME_BYTES:
        return f"{name} is {size} bytes long, and Redshift cuts names after {MAX_NAME_BYTES}"
    return ""
