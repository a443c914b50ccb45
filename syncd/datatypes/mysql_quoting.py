"""Names and texts as MySQL reads them, in characters that every session charset shares."""


def quote_name(name: str) -> str:
    """An identifier, whatever stands in it."""
    return f"`{name.replace('`', '``')}`"


def quote_table(database: str, table: str) -> str:
    return f"{quote_name(database)}.{quote_name(table)}"


def text_literal(text: str, *, charset: str | None = None, collation: str | None = None) -> str:
    """A text as the column's charset and collation have it: compared so, the column stays as its index holds it.

    It is written in hexadecimal: no quote, no backslash and no charset of the session has a say in it.
    """
    plain = f"_utf8mb4 {bytes_literal(text.encode())}"
    if charset is None:
        return plain
    same = plain if charset == "utf8mb4" else f"CONVERT({plain} USING {charset})"
    return f"{same} COLLATE {collation}" if collation else same


def bytes_literal(raw: bytes) -> str:
    return f"X'{raw.hex().upper()}'"


def decode_text(raw: object) -> str:
    """Return a text that a server sent as text or as bytes: MySQL 8 sends some of `information_schema` as bytes."""
    return raw.decode() if isinstance(raw, bytes) else str(raw)
