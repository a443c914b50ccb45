"""How both sides stand, by a checker that shares no code with the product."""

from collections.abc import Mapping

from syncd.sandbox.demo.equality_check import DemoTable, compare_table
from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.shop.schema import TABLES
from syncd.settings import Mode
from tests.journeys.script import Wrong


def wrong(box: Sandbox) -> Mapping[str, Wrong] | None:
    """What is wrong by table; None where the warehouse has none of them."""
    with box.mysql.connect() as source, box.redshift.connect() as target:
        found = [compare_table(DemoTable(table=table, mode=Mode.UPSERT), source, target) for table in TABLES]
        cursor = target.cursor()
        cursor.execute("SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public' AND tablename NOT LIKE 'syncd%'")
        (tables,) = cursor.fetchone()
    if not tables:
        return None
    return {one.table: (one.missing, one.extra, one.different) for one in found if not one.equal}
