"""Targets of the tables, under the names that Redshift will use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from syncd.config.mistakes import KeyPath
from syncd.config.model import WAREHOUSE_DEFAULTS, Table
from syncd.config.value_parsers import SYSTEM_SCHEMA_PREFIXES
from syncd.config.yaml_reader import ConfigDocument
from syncd.settings import TargetSettings, WarehouseSettings
from syncd.suggestions import did_you_mean
from syncd.tables.column_mapping import MAX_NAME_BYTES, fold_name

T = TypeVar("T")

RESERVED_TABLE_PREFIX: Final = "syncd_"
"""Prefix of the tables that syncd creates for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResolver:
    """Resolver of each table's target; no two tables get the same one."""

    document: ConfigDocument
    warehouses: Mapping[str, WarehouseSettings]
    stream_by_target: dict[tuple[str, str, str], str] = field(default_factory=dict[tuple[str, str, str], str])

    def resolve_target(self, name: str, table: Table, *, source: str, key_path: KeyPath) -> TargetSettings | None:
        """Return the target of a table that is called `source` at the source; None where there is no warehouse."""
        warehouse = choose_server(self.warehouses, "warehouse", table.to, (*key_path, "to"), self.document)
        schema, dot, short = fold_name(table.target or "").rpartition(".")
        if not dot:
            schema = warehouse.schema if warehouse else WAREHOUSE_DEFAULTS.schema
        short = short or fold_name(source)
        problem = find_table_name_problem(short) or (find_schema_name_problem(schema) if table.target else "")
        if problem:
            place = (*key_path, "target") if table.target else key_path
            self.document.report_mistake(place, problem, "Give it another name with `target`.")
        self._require_free(name, (warehouse.name if warehouse else "", schema, short), key_path)
        if warehouse is None:
            return None
        own = {
            "warehouse": warehouse.name,
            "schema": schema,
            "table": short,
            "notes": tuple(dict.fromkeys(table.metadata)),
        }
        return TargetSettings(**(table.values_for(TargetSettings) | own))

    def _require_free(self, name: str, target: tuple[str, str, str], key_path: KeyPath) -> None:
        if (other := self.stream_by_target.setdefault(target, name)) != name:
            message = f"has the same target as {other}: {target[1]}.{target[2]}"
            self.document.report_mistake(key_path, message, "Give one of them a `target` of its own.")


def choose_server(
    servers: Mapping[str, T], kind: str, name: str | None, key_path: KeyPath, document: ConfigDocument
) -> T | None:
    """Return the server that a table names, or the only one; `key_path` is that of the name."""
    if name is not None:
        if name not in servers:
            document.report_mistake(key_path, f"no {kind} is called {name!r}", did_you_mean(name, servers))
        return servers.get(name)
    if len(servers) > 1:
        remedy = f"Add `{key_path[-1]}:` with one of {', '.join(servers)}."
        document.report_mistake(key_path[:-1], f"there are several {kind}s", remedy)
        return None
    return next(iter(servers.values()), None)


def find_schema_name_problem(schema: str) -> str:
    """Return why a schema of this name cannot hold targets; empty where it can."""
    if fold_name(schema).startswith(SYSTEM_SCHEMA_PREFIXES):
        return f"schema {schema} is reserved by Redshift"
    return _find_name_problem(schema)


def find_table_name_problem(table: str) -> str:
    """Return why a target cannot have this name; empty where it can."""
    if table.startswith(RESERVED_TABLE_PREFIX):
        return f"{table} begins with {RESERVED_TABLE_PREFIX}, which is reserved for the tables of syncd"
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
