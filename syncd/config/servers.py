"""Settings of the sources and warehouses: addresses, logins, TLS, tunnels."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult

from syncd.config.mistakes import KeyPath
from syncd.config.model import SOURCE_DEFAULTS, WAREHOUSE_DEFAULTS, File, Source, Tunnel, Warehouse
from syncd.config.targets import find_schema_name_problem
from syncd.config.value_parsers import extract_credentials, parse_url
from syncd.config.yaml_reader import ConfigDocument
from syncd.ports.preflight import is_loopback_host
from syncd.settings import IamLogin, Secret, SourceSettings, Tls, TunnelSettings, WarehouseSettings
from syncd.tables.column_mapping import fold_name

DEFAULT_SOURCE_NAME: Final = "mysql"
"""Name of the server under `source:` in keys of the lake."""
DEFAULT_WAREHOUSE_NAME: Final = "redshift"
"""Name of the server under `warehouse:`."""
_LOGIN_HINT: Final = "Keep one of: a password in the url, `iam`, `secret`."


def build_sources(file: File, document: ConfigDocument) -> Iterator[SourceSettings]:
    if file.source is not None and file.sources:
        document.report_mistake(("sources",), "cannot be combined with `source`", "Name every server under `sources`.")
    if file.source is None and not file.sources:
        document.report_mistake(
            (), "there is no source", "Add: source: {url: mysql://user:${MYSQL_PASSWORD}@host/database}"
        )
    for name, source in file.sources.items():
        yield _build_source(name, source, ("sources", name), document)
    if file.source is not None:
        yield _build_source(DEFAULT_SOURCE_NAME, file.source, ("source",), document)


def _build_source(name: str, source: Source, key_path: KeyPath, document: ConfigDocument) -> SourceSettings:
    parts = parse_url(source.url, "mysql", "mariadb")
    user, password = extract_credentials(parts)
    host = parts.hostname or ""
    primary = source.primary and _build_source(name, source.primary, (*key_path, "primary"), document)
    require_zone(source.zone, (*key_path, "zone"), document)
    is_local = is_loopback_host(host) and source.tunnel is None
    own = {
        "name": name,
        "host": host,
        "port": parts.port or SOURCE_DEFAULTS.port,
        "user": user,
        "password": Secret(password),
        "database": parts.path.strip("/") or None,
        "tls": source.tls or (Tls.PREFER if is_local else SOURCE_DEFAULTS.tls),
        "ca": document.resolve_path(source.ca),
        "tunnel": _build_tunnel(source.tunnel, document),
        "primary": primary,
    }
    return SourceSettings(**(source.values_for(SourceSettings) | own))


def build_warehouses(file: File, document: ConfigDocument) -> Iterator[WarehouseSettings]:
    if file.warehouse is not None and file.warehouses:
        document.report_mistake(
            ("warehouses",), "cannot be combined with `warehouse`", "Name every server under `warehouses`."
        )
    for name, warehouse in file.warehouses.items():
        yield _build_warehouse(name, warehouse, ("warehouses", name), document)
    if file.warehouse is not None:
        yield _build_warehouse(DEFAULT_WAREHOUSE_NAME, file.warehouse, ("warehouse",), document)


def _build_warehouse(name: str, warehouse: Warehouse, key_path: KeyPath, document: ConfigDocument) -> WarehouseSettings:
    parts = parse_url(warehouse.url, "redshift")
    user, password = extract_credentials(parts)
    _require_one_login(warehouse, parts, (*key_path, "url"), document)
    if problem := find_schema_name_problem(warehouse.schema_):
        document.report_mistake((*key_path, "schema"), problem)
    host = parts.hostname or ""
    is_local = is_loopback_host(host) and warehouse.tunnel is None
    own = {
        "name": name,
        "host": host,
        "port": parts.port or WAREHOUSE_DEFAULTS.port,
        "database": parts.path.strip("/"),
        "user": user,
        "password": Secret(password) if password else None,
        "iam": warehouse.iam and IamLogin(**warehouse.iam.model_dump()),
        "tls": Tls(warehouse.tls or (Tls.DISABLE if is_local else WAREHOUSE_DEFAULTS.tls)),
        "ca": document.resolve_path(warehouse.ca),
        "tunnel": _build_tunnel(warehouse.tunnel, document),
        "schema": fold_name(warehouse.schema_),
    }
    return WarehouseSettings(**(warehouse.values_for(WarehouseSettings) | own))


def _require_one_login(warehouse: Warehouse, parts: SplitResult, key_path: KeyPath, document: ConfigDocument) -> None:
    user, password = extract_credentials(parts)
    logins = {"a password in the url": password, "`iam`": warehouse.iam, "`secret`": warehouse.secret}
    given = [login for login, value in logins.items() if value]
    if len(given) > 1:
        document.report_mistake(key_path, f"several logins are given: {' and '.join(given)}", _LOGIN_HINT)
    if not given:
        document.report_mistake(key_path, "no login is given", _LOGIN_HINT)
    login_names_user = warehouse.secret or (warehouse.iam and warehouse.iam.workgroup)
    if not user and not login_names_user:
        document.report_mistake(key_path, "the address names no user", "Write redshift://user:...@host:5439/database.")


def _build_tunnel(tunnel: Tunnel | None, document: ConfigDocument) -> TunnelSettings | None:
    if tunnel is None:
        return None
    files = {"key_file": tunnel.key_file, "known_hosts": tunnel.known_hosts}
    paths = {name: document.resolve_path(path) for name, path in files.items()}
    return TunnelSettings(**(tunnel.values_for(TunnelSettings) | paths))


def require_zone(name: str | None, key_path: KeyPath, document: ConfigDocument) -> None:
    if name is None:
        return
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415  # rarely needed, and it reads files

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a directory of zones, such as Europe
        document.report_mistake(key_path, f"{name!r} is not a time zone", "Write a name such as UTC or Europe/Berlin.")
