"""Which of the known words was meant by one that is not known."""

from collections.abc import Iterable

MAX_LISTED_NAMES = 12
"""More names than that are not listed in a hint."""


def closest_name(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like this one, however it is written; none where none is like it."""
    import difflib  # noqa: PLC0415  # only who made a mistake waits for it

    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(folded), n=1)
    return folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint at the name that was meant, and at what there is."""
    names = list(known)
    close = closest_name(word, names) or closest_name(word, [name.rpartition(".")[2] for name in names])
    asked = f"Do you mean {close}? " if close else ""
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return f"{asked}There are: {', '.join(names[:MAX_LISTED_NAMES]) or 'none'}{more}."
