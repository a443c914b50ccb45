import pytest

from syncd.datatypes.source_table import SourceColumn
from syncd.horizon import StampKind, find_bypassing_trigger, find_stamp_kind, find_unstamped_change, parse_triggers


def column(data_type: str, default: str | None, extra: str, fraction: int = 0) -> SourceColumn:
    return SourceColumn(
        name="update_at", data_type=data_type, column_type=data_type, default=default, extra=extra, fraction=fraction
    )


@pytest.mark.parametrize(
    ("default", "extra", "fraction"),
    [
        ("CURRENT_TIMESTAMP", "on update current_timestamp", 0),  # MySQL 5.7
        ("CURRENT_TIMESTAMP", "default_generated on update current_timestamp", 0),  # MySQL 8 and 9
        ("CURRENT_TIMESTAMP(6)", "default_generated on update current_timestamp(6)", 6),
        ("current_timestamp()", "on update current_timestamp()", 0),  # MariaDB
        ("current_timestamp(3)", "on update current_timestamp(3)", 3),
        ("current_timestamp(3)", "on update current_timestamp(3), invisible", 3),
        ("now(3)", "default_generated on update current_timestamp(3) invisible", 3),
    ],
)
def test_what_the_server_stamps_is_proven(default: str, extra: str, fraction: int) -> None:
    assert find_stamp_kind(column("datetime", default, extra, fraction)) is StampKind.WALL
    assert find_stamp_kind(column("timestamp", default, extra, fraction)) is StampKind.INSTANT


@pytest.mark.parametrize(
    ("data_type", "default", "extra", "fraction"),
    [
        ("datetime", None, "on update current_timestamp", 0),
        ("datetime", "CURRENT_TIMESTAMP", "", 0),
        ("datetime", "CURRENT_TIMESTAMP", "default_generated", 0),
        ("datetime", "2026-01-01 00:00:00", "on update current_timestamp", 0),
        ("datetime", "(current_timestamp() - interval 1 day)", "on update current_timestamp", 0),
        ("datetime", "sysdate()", "default_generated on update current_timestamp", 0),
        ("datetime", "CURRENT_TIMESTAMP(3)", "on update current_timestamp(6)", 6),
        ("datetime", "CURRENT_TIMESTAMP(6)", "on update current_timestamp(3)", 6),
        ("date", "CURRENT_TIMESTAMP", "on update current_timestamp", 0),
        ("bigint", "CURRENT_TIMESTAMP", "on update current_timestamp", 0),
    ],
)
def test_what_is_left_to_others_is_not(data_type: str, default: str | None, extra: str, fraction: int) -> None:
    assert find_stamp_kind(column(data_type, default, extra, fraction)) is None


CREATED = """CREATE TABLE `orders` (
  `id` int NOT NULL COMMENT 'CONSTRAINT ON DELETE SET NULL',
  `on delete set null` int DEFAULT NULL,
  KEY `c` (`on delete set null`),
  {constraint}
) ENGINE=InnoDB"""


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        ("", ""),
        (" ON DELETE CASCADE", ""),
        (" ON DELETE RESTRICT ON UPDATE NO ACTION", ""),
        (" ON DELETE SET NULL", "ON DELETE SET NULL of `fk ``1` changes rows without a new stamp"),
        (" ON DELETE CASCADE ON UPDATE CASCADE", "ON UPDATE CASCADE of `fk ``1` changes rows without a new stamp"),
    ],
)
def test_a_foreign_key_that_changes_rows_is_told_by_name(actions: str, told: str) -> None:
    key = "CONSTRAINT `fk ``1` FOREIGN KEY (`on delete set null`) REFERENCES `on update cascade` (`id`)"

    assert find_unstamped_change(CREATED.format(constraint=key + actions)) == told


def test_a_period_is_told_and_versions_that_the_server_keeps_are_not() -> None:
    assert "FOR PORTION OF" in find_unstamped_change(CREATED.format(constraint="PERIOD FOR `p` (`s`, `e`)"))
    assert not find_unstamped_change(CREATED.format(constraint="PERIOD FOR SYSTEM_TIME (`s`, `e`)"))
    assert not find_unstamped_change(CREATED.format(constraint="`PERIOD FOR p` int"))


SETS_STAMP = "trigger x sets update_at"
CHANGES = "trigger x changes rows; MySQL stamps only rows that the statement itself changes"


@pytest.mark.parametrize(
    ("event", "statement", "mysql", "mariadb"),
    [
        ("UPDATE", "SET NEW.update_at = OLD.update_at", SETS_STAMP, SETS_STAMP),
        ("INSERT", "BEGIN SET NEW.v = 1, `new` . `Update_At` := '2020-01-01'; END", SETS_STAMP, SETS_STAMP),
        ("UPDATE", "SET NEW.update_at = NOW()", SETS_STAMP, SETS_STAMP),
        ("UPDATE", "SET /* see 'a' */ NEW.v = OLD.v + 1", CHANGES, ""),
        ("UPDATE", "BEGIN CALL count_up(NEW.v); END", CHANGES, ""),
        ("UPDATE", "IF NEW.v > 1 THEN SET NEW.v = 1, NEW.update_at = NOW(6); END IF", CHANGES, ""),
        ("UPDATE", "BEGIN SET NEW.v = 1; SET NEW.update_at = CURRENT_TIMESTAMP(6); END", "", ""),
        ("UPDATE", "SET NEW.v = 1, NEW.update_at = now(6)", "", ""),
        ("INSERT", "SET NEW.v = 1, NEW.update_at = now(6)", "", ""),
        ("UPDATE", "IF NEW.v < 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'SET NEW.v = 1'; END IF", "", ""),
        ("UPDATE", "SET @a = NEW.v -- SET NEW.v = 1", "", ""),
    ],
)
def test_a_trigger_that_writes_past_the_stamp_is_told_by_name(
    event: str, statement: str, mysql: str, mariadb: str
) -> None:
    stamp = column("datetime", "CURRENT_TIMESTAMP(6)", "on update current_timestamp(6)", 6)
    triggers = parse_triggers([("x", event.encode(), statement)])

    assert find_bypassing_trigger(triggers, stamp, mariadb=False) == mysql
    assert find_bypassing_trigger(triggers, stamp, mariadb=True) == mariadb
