"""Makes the database that clients see: Redshift's types, comparisons, functions and system views in it."""

import hashlib
from enum import StrEnum
from importlib.resources import files
from typing import Final

from syncd.sandbox.redshift.backend import Backend, BackendError, literal
from syncd.sandbox.redshift.cluster import Cluster
from syncd.sandbox.redshift.start_errors import CannotStart

VERSION: Final = (
    "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), "
    "Redshift 1.0.436211"
)
# A backslash escapes in Redshift's string constants, as it did in PostgreSQL 8.
SETTINGS: Final = {"standard_conforming_strings": "off", "escape_string_warning": "off", "backslash_quote": "on"}
DUPLICATE: Final = frozenset({"42P04", "42710"})  # database, role


class Isolation(StrEnum):
    """The isolation of a database (facts, section 6)."""

    SNAPSHOT = "Snapshot Isolation"
    SERIALIZABLE = "Serializable"

    @property
    def in_postgresql(self) -> str:
        return "serializable" if self is Isolation.SERIALIZABLE else "repeatable read"


def make_database(cluster: Cluster, database: str, isolation: Isolation) -> None:
    """Create the database with everything in it, or leave the one that a former run finished."""
    with_postgres = cluster.connect()
    try:
        exists = with_postgres.value(f"SELECT 1 FROM pg_database WHERE datname = {literal(database)}")
        if exists and not _is_finished(cluster, database):
            with_postgres.run(f"DROP DATABASE {quoted(database)}")
            exists = None
        if not exists:
            _ignoring_duplicates(with_postgres, "CREATE ROLE redshift_superuser")
            with_postgres.run(f"CREATE DATABASE {quoted(database)}")
            _fill(cluster, database)
        for name, value in {**SETTINGS, "default_transaction_isolation": isolation.in_postgresql}.items():
            with_postgres.run(f"ALTER DATABASE {quoted(database)} SET {name} = {literal(value)}")
    finally:
        with_postgres.close()


def make_user(cluster: Cluster, database: str, user: str, *, superuser: bool = False) -> None:
    """Create a user who may make schemas and tables in the database; twice is once."""
    backend = cluster.connect(database=database)
    try:
        _ignoring_duplicates(backend, f"CREATE ROLE {quoted(user)} LOGIN")
        backend.run(f"GRANT CREATE, TEMPORARY ON DATABASE {quoted(database)} TO {quoted(user)}")
        backend.run(f"GRANT CREATE, USAGE ON SCHEMA public TO {quoted(user)}")
        if superuser:
            backend.run(f"GRANT redshift_superuser TO {quoted(user)}")
    finally:
        backend.close()


def _is_finished(cluster: Cluster, database: str) -> bool:
    backend = cluster.connect(database=database)
    try:
        if backend.value("SELECT to_regclass('pg_catalog.redshift_finished')") is None:
            return False
        made_by = backend.value("SELECT made_by FROM pg_catalog.redshift_finished")
    finally:
        backend.close()
    if made_by != _digest():
        raise CannotStart(
            f"the data in {cluster.home} were made by another version of the Redshift stand-in",
            hint="Remove that directory, or choose another: the stand-in makes a new, empty database.",
        )
    return True


def _definitions() -> str:
    return files("syncd.sandbox.redshift").joinpath("objects.sql").read_text(encoding="utf-8")


def _digest() -> str:
    return hashlib.sha256(_definitions().encode()).hexdigest()


def _fill(cluster: Cluster, database: str) -> None:
    sql = _definitions()
    for mark, value in (("{version}", VERSION), ("{database}", database)):
        sql = sql.replace(mark, literal(value))
    backend = cluster.connect(
        database=database,
        allow_system_table_mods="on",
        client_min_messages="error",
        standard_conforming_strings="on",
    )
    try:
        backend.run(sql)
        backend.run(f"CREATE VIEW pg_catalog.redshift_finished AS SELECT {literal(_digest())} AS made_by")
    finally:
        backend.close()


def _ignoring_duplicates(backend: Backend, sql: str) -> None:
    try:
        backend.run(sql)
    except BackendError as error:
        if error.fields["C"] not in DUPLICATE:
            raise


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
