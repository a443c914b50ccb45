"""Description of a source table by its server."""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """One column, in the terms of `information_schema.columns`."""

    name: str
    data_type: str
    """Lower case, without length or sign: `bigint`, `varchar`, `enum`."""
    column_type: str
    """Complete: `bigint(20) unsigned`, `enum('a','b')`."""
    nullable: bool = True
    length: int | None = None
    """Characters of text, bytes of binary."""
    octets: int | None = None
    precision: int | None = None
    """Digits of numbers; bits of BIT."""
    scale: int | None = None
    fraction: int = 0
    """Fractional digits of a time."""
    charset: str | None = None
    collation: str | None = None
    default: str | None = None
    extra: str = ""
    """Lower case: `auto_increment`, `on update current_timestamp(6)`, `invisible`, `virtual generated`."""

    @property
    def is_unsigned(self) -> bool:
        return "unsigned" in self.column_type.lower()

    @property
    def is_generated(self) -> bool:
        return "generated" in self.extra and "default_generated" not in self.extra.split()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIndex:
    """One index; only complete columns in ascending order count."""

    name: str
    columns: tuple[str, ...]
    """The columns before the first prefix, descending column or expression."""
    unique: bool
    whole: bool
    """Whether `columns` are all of its columns."""
    visible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """One table with its columns in order and its indexes."""

    database: str
    name: str
    kind: str
    """`BASE TABLE` or `VIEW`, as the server names it."""
    engine: str | None
    columns: tuple[SourceColumn, ...]
    indexes: tuple[SourceIndex, ...]
    partitioned: bool = False
    created: datetime | None = None

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    def find_column(self, name: str) -> SourceColumn | None:
        """Return the column with this name in any case: MySQL ignores the case of column names."""
        folded = name.casefold()
        return next((column for column in self.columns if column.name.casefold() == folded), None)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Return the columns of the primary key; empty if there is none."""
        return next((index.columns for index in self.indexes if index.name == "PRIMARY" and index.whole), ())

    @property
    def fingerprint(self) -> str:
        """Return a digest that changes with the columns and the primary key, and with nothing else."""
        fields = {"columns": [asdict(column) for column in self.columns], "primary": self.primary_key}
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Identity and version of a server."""

    identity: str
    """Its `server_uuid`, or a substitute for MariaDB, which has none (see `mysql.sql.identity_sql`)."""
    version: tuple[int, int, int]
    mariadb: bool
    read_only: bool = False
