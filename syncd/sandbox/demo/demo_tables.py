"""The tables of a demonstration, each in a mode that suits it, and their configuration."""

from dataclasses import dataclass
from typing import Final

from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.s3 import S3Address
from syncd.sandbox.warehouse import RedshiftAddress
from syncd.settings import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTable:
    """One table of the shop."""

    table: str
    mode: Mode
    config_entry: str = ""

    @property
    def current_rows_condition(self) -> str:
        """Condition for the warehouse rows that the source holds now."""
        return "_syncd_valid_to IS NULL" if self.mode is Mode.HISTORY else "TRUE"


DEMO_TABLES: Final = (
    DemoTable(table="countries", mode=Mode.REPLACE, config_entry="{cursor: none, mode: replace, every: 10s}"),
    DemoTable(table="customers", mode=Mode.HISTORY, config_entry="{mode: history}"),
    DemoTable(table="orders", mode=Mode.UPSERT),
    DemoTable(table="order_lines", mode=Mode.UPSERT),
    DemoTable(table="events", mode=Mode.APPEND, config_entry="{cursor: id, mode: append}"),
)
_HEADER: Final = """\
# Written by `syncd demo`. The same file with your servers in it is all that `syncd run` needs;
# write passwords as ${NAME} there. Every key: docs/reference/configuration.md
"""


def render_configuration(mysql: MySqlAddress, s3: S3Address, redshift: RedshiftAddress) -> str:
    """Return the text of `syncd.yaml` for a sandbox."""
    tables = "".join(f"  {mysql.database}.{one.table}: {one.config_entry}".rstrip() + "\n" for one in DEMO_TABLES)
    return (
        f"{_HEADER}source:\n  url: {mysql.url}\n  zone: UTC\n"
        f"lake:\n  url: {s3.url}/syncd\n  endpoint: {s3.endpoint}\n  region: {s3.region}\n"
        f"warehouse:\n  url: {redshift.url}\n"
        f"daemon: {{http: off, stop_timeout: 20s}}\ndefaults: {{every: 1s}}\n"
        f"tables:\n{tables}"
    )
