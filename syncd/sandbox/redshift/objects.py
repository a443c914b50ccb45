"""The database that clients see, with Redshift's types, comparisons, functions and system views."""

import hashlib
from enum import StrEnum
from importlib.resources import files
from typing import Final

from syncd.sandbox.redshift.backend import BackendError, PostgresConnection, quote_literal, quote_name
from syncd.sandbox.redshift.cluster import CannotStart, PostgresCluster

VERSION: Final = (
    "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), "
    "Redshift 1.0.436211"
)
# A backslash escapes in Redshift's string constants, as it did in PostgreSQL 8.
DATABASE_SETTINGS: Final = {
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "backslash_quote": "on",
}
DUPLICATE_OBJECT_CODES: Final = frozenset({"42P04", "42710"})  # database, role


class Isolation(StrEnum):
    """Isolation level of a database (facts, section 6)."""

    SNAPSHOT = "Snapshot Isolation"
    SERIALIZABLE = "Serializable"

    @property
    def postgres_level(self) -> str:
        return "serializable" if self is Isolation.SERIALIZABLE else "repeatable read"


def make_database(cluster: PostgresCluster, database: str, isolation: Isolation) -> None:
    """Create the database with all its objects, or keep the one that an earlier run finished."""
    with_postgres = cluster.connect()
    try:
        exists = with_postgres.fetch_value(f"SELECT 1 FROM pg_database WHERE datname = {quote_literal(database)}")
        if exists and not _is_finished(cluster, database):
            with_postgres.run(f"DROP DATABASE {quote_name(database)}")
            exists = None
        if not exists:
            _run_ignoring_duplicates(with_postgres, "CREATE ROLE redshift_superuser")
            with_postgres.run(f"CREATE DATABASE {quote_name(database)}")
            _create_objects(cluster, database)
        for name, value in {**DATABASE_SETTINGS, "default_transaction_isolation": isolation.postgres_level}.items():
            with_postgres.run(f"ALTER DATABASE {quote_name(database)} SET {name} = {quote_literal(value)}")
    finally:
        with_postgres.close()


def make_user(cluster: PostgresCluster, database: str, user: str, *, superuser: bool = False) -> None:
    """Create a user who may make schemas and tables in the database, unless the user exists."""
    backend = cluster.connect(database=database)
    try:
        _run_ignoring_duplicates(backend, f"CREATE ROLE {quote_name(user)} LOGIN")
        backend.run(f"GRANT CREATE, TEMPORARY ON DATABASE {quote_name(database)} TO {quote_name(user)}")
        backend.run(f"GRANT CREATE, USAGE ON SCHEMA public TO {quote_name(user)}")
        if superuser:
            backend.run(f"GRANT redshift_superuser TO {quote_name(user)}")
    finally:
        backend.close()


def _is_finished(cluster: PostgresCluster, database: str) -> bool:
    backend = cluster.connect(database=database)
    try:
        if backend.fetch_value("SELECT to_regclass('pg_catalog.redshift_finished')") is None:
            return False
        made_by = backend.fetch_value("SELECT made_by FROM pg_catalog.redshift_finished")
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


def _create_objects(cluster: PostgresCluster, database: str) -> None:
    sql = _definitions()
    for mark, value in (("{version}", VERSION), ("{database}", database)):
        sql = sql.replace(mark, quote_literal(value))
    backend = cluster.connect(
        database=database,
        allow_system_table_mods="on",
        client_min_messages="error",
        standard_conforming_strings="on",
    )
    try:
        backend.run(sql)
        backend.run(f"CREATE VIEW pg_catalog.redshift_finished AS SELECT {quote_literal(_digest())} AS made_by")
    finally:
        backend.close()


def _run_ignoring_duplicates(backend: PostgresConnection, sql: str) -> None:
    try:
        backend.run(sql)
    except BackendError as error:
        if error.fields["C"] not in DUPLICATE_OBJECT_CODES:
            raise
