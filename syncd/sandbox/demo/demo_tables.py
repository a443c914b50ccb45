"""Which tables a demonstration keeps equal, each in a mode that suits it, and the configuration that says so."""

from dataclasses import dataclass
from typing import Final

from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.s3 import S3Address
from syncd.sandbox.warehouse import RedshiftAddress
from syncd.settings import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One table of the shop."""

    table: str
    mode: Mode
    words: str = ""
    """What its entry in the configuration says."""

    @property
    def current(self) -> str:
        """The condition of the rows in the warehouse that are as they are at the source now."""
        return "_syncd_valid_to IS NULL" if self.mode is Mode.HISTORY else "TRUE"


SHOWN: Final = (
    Shown(table="countries", mode=Mode.REPLACE, words="{cursor: none, mode: replace, every: 10s}"),
    Shown(table="customers", mode=Mode.HISTORY, words="{mode: history}"),
    Shown(table="orders", mode=Mode.UPSERT),
    Shown(table="order_lines", mode=Mode.UPSERT),
    Shown(table="events", mode=Mode.APPEND, words="{cursor: id, mode: append}"),
)
_NOTE: Final = """\
# Written by `syncd demo`. The same file with your servers in it is all that `syncd run` needs;
# write passwords as ${NAME} there. Every key: docs/configuration.md
"""


def configuration(mysql: MySqlAddress, s3: S3Address, redshift: RedshiftAddress) -> str:
    """The text of `syncd.yaml` for a sandbox."""
    tables = "".join(f"  {mysql.database}.{shown.table}: {shown.words}".rstrip() + "\n" for shown in SHOWN)
    return (
        f"{_NOTE}source:\n  url: {mysql.url}\n  zone: UTC\n"
        f"lake:\n  url: {s3.url}/syncd\n  endpoint: {s3.endpoint}\n  region: {s3.region}\n"
        f"warehouse:\n  url: {redshift.url}\n"
        f"daemon: {{http: off, stop_timeout: 20s}}\ndefaults: {{every: 1s}}\n"
        f"tables:\n{tables}"
    )
