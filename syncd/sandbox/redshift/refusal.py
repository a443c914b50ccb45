"""A statement the warehouse does not carry out: the fields of the error its client gets."""

from typing import Final

SYNTAX_ERROR: Final = "42601"
NOT_SUPPORTED: Final = "0A000"
INTERNAL: Final = "XX000"


class Refusal(Exception):  # it is an answer, not a failure of ours
    """The server's no: a SQLSTATE, a sentence and, for some, a detail."""

    def __init__(self, code: str, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail


def syntax_error(near: str) -> Refusal:
    return Refusal(SYNTAX_ERROR, f'syntax error at or near "{near}"')


def not_supported(sentence: str) -> Refusal:
    return Refusal(NOT_SUPPORTED, sentence)


def not_in_stand_in(what: str) -> Refusal:
    """Redshift may well do it; the stand-in does not, and says so."""
    return Refusal(NOT_SUPPORTED, f"{what} is not carried out by the stand-in")
