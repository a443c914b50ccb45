"""Identifiers as Redshift reads them: folded, cut at 127 bytes, reserved words only in quotes."""

import hashlib
from typing import Final

MAX_NAME_BYTES: Final = 127
MAX_POSTGRES_NAME_BYTES: Final = 63

RESERVED_WORDS: Final = frozenset(
    """
    AES128 AES256 ALL ALLOWOVERWRITE ANALYSE ANALYZE AND ANY ARRAY AS ASC AUTHORIZATION AZ64 BACKUP BETWEEN
    BINARY BLANKSASNULL BOTH BYTEDICT BZIP2 CASE CAST CHECK COLLATE COLUMN CONNECT CONSTRAINT CREATE CREDENTIALS
    CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURRENT_USER_ID DEFAULT DEFERRABLE DEFLATE
    DEFRAG DELTA DELTA32K DESC DISABLE DISTINCT DO ELSE EMPTYASNULL ENABLE ENCODE ENCRYPT ENCRYPTION END EXCEPT
    EXPLICIT FALSE FOR FOREIGN FREEZE FROM FULL GLOBALDICT256 GLOBALDICT64K GRANT GROUP GZIP HAVING IDENTITY
    IGNORE ILIKE IN INITIALLY INNER INTERSECT INTERVAL INTO IS ISNULL JOIN LANGUAGE LEADING LEFT LIKE LIMIT
    LOCALTIME LOCALTIMESTAMP LUN LUNS LZO LZOP MINUS MOSTLY16 MOSTLY32 MOSTLY8 NATURAL NEW NOT NOTNULL NULL
    NULLS OFF OFFLINE OFFSET OID OLD ON ONLY OPEN OR ORDER OUTER OVERLAPS PARALLEL PARTITION PERCENT PERMISSIONS
    PIVOT PLACING PRIMARY RAW READRATIO RECOVER REFERENCES REJECTLOG RESORT RESPECT RESTORE RIGHT SELECT
    SESSION_USER SIMILAR SNAPSHOT SOME START SYSDATE SYSTEM TABLE TAG TDES TEXT255 TEXT32K THEN TIMESTAMP TO TOP
    TRAILING TRUE TRUNCATECOLUMNS UNION UNIQUE UNNEST UNPIVOT USER USING VERBOSE WALLET WHEN WHERE WITH WITHOUT
    """.split()
)
SYSTEM_COLUMNS: Final = frozenset({"oid", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})


def fold_name(name: str) -> str:
    """Return the name as the warehouse stores it: ASCII in lower case, quoted or not, and at most 127 bytes."""
    lowered = "".join(c.lower() if c.isascii() else c for c in name)
    return lowered.encode()[:MAX_NAME_BYTES].decode(errors="ignore")


class LongNames:
    """Names longer than PostgreSQL's limit, with the short names that PostgreSQL knows them by.

    The table `redshift_names` keeps them; `unwritten` holds those that it does not have yet.
    """

    def __init__(self) -> None:
        self._long: dict[bytes, bytes] = {}
        self.unwritten: list[tuple[str, str]] = []

    def remember(self, short: str, long: str) -> None:
        self._long[short.encode()] = long.encode()

    def to_postgres(self, name: str) -> str:
        """Return the name that PostgreSQL knows a folded name by."""
        encoded = name.encode()
        if len(encoded) <= MAX_POSTGRES_NAME_BYTES:
            return name
        digest = hashlib.sha256(encoded).hexdigest()[:12]
        short = encoded[: MAX_POSTGRES_NAME_BYTES - 13].decode(errors="ignore") + "~" + digest
        if short.encode() not in self._long:
            self.remember(short, name)
            self.unwritten.append((short, name))
        return short

    def to_redshift(self, name: bytes) -> bytes:
        """Return the name that clients know, from PostgreSQL's."""
        return self._long.get(name, name)
