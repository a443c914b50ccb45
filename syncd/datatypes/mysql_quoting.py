"""Names and texts in MySQL's syntax, in characters that every session character set shares."""


def quote_name(name: str) -> str:
    """Return an identifier for any name."""
    return f"`{name.replace('`', '``')}`"


def quote_table(database: str, table: str) -> str:
    return f"{quote_name(database)}.{quote_name(table)}"


def text_literal(text: str, *, charset: str | None = None, collation: str | None = None) -> str:
    """Return a text in the column's character set and collation, so that the index of the column can be used.

    It is written in hexadecimal, so no quote, backslash or session character set changes it.
    """
    plain = f"_utf8mb4 {bytes_literal(text.encode())}"
    if charset is None:
        return plain
    same = plain if charset == "utf8mb4" else f"CONVERT({plain} USING {charset})"
    return f"{same} COLLATE {collation}" if collation else same


def bytes_literal(raw: bytes) -> str:
    return f"X'{raw.hex().upper()}'"


def decode_text(raw: object) -> str:
    """Return a text that a server sent as text or as bytes: MySQL 8 sends parts of `information_schema` as bytes."""
    return raw.decode() if isinstance(raw, bytes) else str(raw)
