"""Generated blocks inside hand-written pages: `<!-- NAME:begin -->` ... `<!-- NAME:end -->`."""

import re


class BlockMissing(LookupError):
    """The page has no block of this name."""


def replace_block(page: str, name: str, text: str) -> str:
    """Return the page with the block's content replaced."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    pattern = re.compile(rf"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(page):
        raise BlockMissing(f"the page has no block {begin} ... {end}")
    return pattern.sub(lambda _: f"{begin}\n{text.strip()}\n{end}", page)
