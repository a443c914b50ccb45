import pytest

from syncd.redshift.control_tables import ControlTables, LedgerTables
from watermarks.names import StreamName

STREAM = StreamName(source="shop", database="shop", table="orders")
LAKE = "s3://lake/syncd"
OWN = "syncd_ledger_d9510135dbd0e9e7"
SERIALIZABLE, SNAPSHOT = "Serializable", "Snapshot Isolation"


def of_stream(level: str, *names: str) -> ControlTables:
    return LedgerTables.from_answers("public", level=level, names=names).for_stream(STREAM, lake=LAKE)


def test_whoever_makes_controls_has_to_say_which_ledger_the_stream_has() -> None:
    with pytest.raises(TypeError, match="has_own_ledger"):
        ControlTables(lake=LAKE, stream=STREAM, schema="public")  # type: ignore[call-arg]  # that is the point


def test_the_name_of_a_ledger_never_changes() -> None:
    assert of_stream(SERIALIZABLE).ledger.name == OWN


@pytest.mark.parametrize(
    ("level", "names", "read"),
    [
        (SNAPSHOT, [], ["syncd_ledger"]),
        (SNAPSHOT, ["syncd_ledger_0123456789abcdef"], ["syncd_ledger"]),
        (SNAPSHOT, [OWN], ["syncd_ledger", OWN]),
        (SERIALIZABLE, [], ["syncd_ledger", OWN]),
        (SERIALIZABLE, [OWN], ["syncd_ledger", OWN]),
    ],
)
def test_a_stream_has_its_own_where_the_database_is_serializable_or_was(
    level: str, names: list[str], read: list[str]
) -> None:
    controls = of_stream(level, *names)

    assert [table.name for table in controls.ledgers] == read
    assert controls.ledger.name == read[-1]


def test_what_is_only_called_nearly_so_is_no_ledger() -> None:
    ledgers = LedgerTables.from_answers(
        "etl", level=SNAPSHOT, names=["syncd_ledger_backup", f"{OWN}_old", "syncd_ledgers", OWN]
    )

    assert [str(table) for table in ledgers.tables] == ["etl.syncd_ledger", f"etl.{OWN}"]
