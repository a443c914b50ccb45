import pytest

from syncd.horizon.running_statements import (
    is_ddl,
    is_past_locking,
    is_replication,
    is_write_lock,
    is_xa,
    kind_from_event,
    kind_from_text,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INSERT INTO t VALUES (1)", "insert"),
        ("  update t set a=1", "update"),
        ("/* app:shop */ /*2*/ UPDATE t", "update"),
        ("DROP TABLE t", "drop_table"),
        ("drop temporary table t", "drop_temporary"),
        ("DROP /* no */ TEMPORARY TABLE t", "drop_"),
        ("LOCK TABLES t WRITE", "lock_tables"),
        ("LOCK TABLE t WRITE", "lock_tables"),
        ("ALTER ONLINE TABLE t", "alter"),
        ("/*!50000 ALTER TABLE t */", ""),
        ("/*M! ALTER TABLE t */", ""),
        ("/* a comment that was cut", ""),
        ("-- a line\nALTER TABLE t", ""),
        ("(SELECT 1)", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_kind_is_told_by_the_first_words(text: str | None, kind: str) -> None:
    assert kind_from_text(text) == kind


def test_kind_is_the_last_part_of_an_event() -> None:
    assert kind_from_event("statement/sql/insert_select") == "insert_select"
    assert kind_from_event(None) == ""


@pytest.mark.parametrize("kind", ["drop_table", "alter", "alter_table", "truncate", "rename_table", "optimize"])
def test_ddl_changes_tables_and_not_rows(kind: str) -> None:
    assert is_ddl(kind)


@pytest.mark.parametrize("kind", ["", "create_table", "analyze", "drop_temporary", "drop_", "insert", "call_procedure"])
def test_what_may_stamp_is_no_ddl(kind: str) -> None:
    assert not is_ddl(kind)


def test_a_function_that_drops_its_temporary_table_leaves_the_outer_statement_in_sight() -> None:
    # MariaDB shows the inner statement's text while the outer INSERT has stamped already.
    assert not is_ddl(kind_from_text("DROP TEMPORARY TABLE IF EXISTS seen"))


def test_states_are_known_in_either_spelling() -> None:
    assert is_past_locking("Sending data", "select")
    assert is_past_locking("executing", "insert")
    assert is_past_locking("Executing", "insert")
    assert not is_past_locking("Waiting for table metadata lock", "insert")
    assert not is_past_locking("closing tables", "insert")


def test_only_these_locks_let_nobody_write() -> None:
    for kind in ("SHARED", "SHARED_HIGH_PRIO", "SHARED_READ", "SHARED_READ_ONLY", "MDL_SHARED_READ"):
        assert not is_write_lock(kind)
    for kind in ("SHARED_WRITE", "SHARED_NO_READ_WRITE", "EXCLUSIVE", "MDL_SHARED_WRITE", "of a later version"):
        assert is_write_lock(kind)


def test_xa_is_a_word() -> None:
    assert is_xa("XA PREPARE 'a'")
    assert is_xa("/* x */ xa commit 'a'")
    assert not is_xa("INSERT INTO taxa VALUES (1)")
    assert not is_xa(None)


def test_replication_is_an_active_connection_of_the_system() -> None:
    assert is_replication("Query", "system user")
    assert is_replication("Slave_IO", "system user")
    assert not is_replication("Daemon", "system user")
    assert not is_replication("Query", "app")
