"""Suggestions for misspelled names."""

from collections.abc import Iterable

MAX_LISTED_NAMES = 12
"""Names that a hint lists at most."""


def closest_name(word: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to the word, ignoring case; None where none is similar."""
    import difflib  # noqa: PLC0415  # slow to import, and only needed after a mistake

    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(folded), n=1)
    return folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the most similar name and the list of known names."""
    names = list(known)
    close = closest_name(word, names) or closest_name(word, [name.rpartition(".")[2] for name in names])
    question = f"Do you mean {close}? " if close else ""
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return f"{question}Available: {', '.join(names[:MAX_LISTED_NAMES]) or 'none'}{more}."
