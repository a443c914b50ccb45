"""A source table as its server describes it."""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """One column, in the words of `information_schema.columns`."""

    name: str
    data_type: str
    """Lower case, without length or sign: `bigint`, `varchar`, `enum`."""
    column_type: str
    """Whole: `bigint(20) unsigned`, `enum('a','b')`."""
    nullable: bool = True
    length: int | None = None
    """Characters of text, bytes of binary."""
    octets: int | None = None
    precision: int | None = None
    """Of numbers; bits of BIT."""
    scale: int | None = None
    fraction: int = 0
    """Digits after the second."""
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
    """One index; only columns that it holds whole and in rising order count."""

    name: str
    columns: tuple[str, ...]
    """Up to, not including, the first that is cut to a prefix, falls, or is an expression."""
    unique: bool
    whole: bool
    """Whether `columns` is all of it."""
    visible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """One table with its columns in order and its indexes."""

    database: str
    name: str
    kind: str
    """`BASE TABLE` or `VIEW`, as the server says."""
    engine: str | None
    columns: tuple[SourceColumn, ...]
    indexes: tuple[SourceIndex, ...]
    partitioned: bool = False
    created: datetime | None = None

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    def find_column(self, name: str) -> SourceColumn | None:
        """The column of this name, whatever its case: MySQL does not tell two cases apart."""
        folded = name.casefold()
        return next((column for column in self.columns if column.name.casefold() == folded), None)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key; none where there is no such key."""
        return next((index.columns for index in self.indexes if index.name == "PRIMARY" and index.whole), ())

    @property
    def fingerprint(self) -> str:
        """Changes with every change of a column or of the primary key, and with nothing else."""
        told = {"columns": [asdict(column) for column in self.columns], "primary": self.primary_key}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Which server answers, and what it is."""

    identity: str
    """Its `server_uuid`; of MariaDB, which has none, what stands for one (see the adapter)."""
    version: tuple[int, int, int]
    mariadb: bool
    read_only: bool = False
