"""Which of the known words was meant by one that is not known."""

from collections.abc import Iterable

MANY = 12
"""More names than that are not listed in a hint."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like this one, however it is written; none where none is like it."""
    import difflib  # noqa: PLC0415  # only who made a mistake waits for it

    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(folded), n=1)
    return folded[close[0]] if close else None


def meant(word: str, known: Iterable[str]) -> str:
    """A hint at the name that was meant, and at what there is."""
    names = list(known)
    close = nearest(word, names) or nearest(word, [name.rpartition(".")[2] for name in names])
    asked = f"Do you mean {close}? " if close else ""
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return f"{asked}There are: {', '.join(names[:MANY]) or 'none'}{more}."
