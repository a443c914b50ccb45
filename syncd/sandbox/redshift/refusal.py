"""Errors that the stand-in answers with, in Redshift's words (facts, section 2.3)."""

from typing import Final

SYNTAX_ERROR: Final = "42601"
NOT_SUPPORTED: Final = "0A000"
INTERNAL: Final = "XX000"
MAX_CONTEXT_CHARACTERS: Final = 240
SEPARATOR_LINE: Final = "-----------------------------------------------"
DATA_ERROR: Final = 15007
OLDER_DATA_ERROR: Final = 15001
MANIFEST_ERROR: Final = 15003
NULL_VALUE_ERROR: Final = 8007
SERVICE_ERROR: Final = 8001
TOO_LARGE_ERROR: Final = 1224
INVALID_TEXT_ERROR: Final = 1220


class Refusal(Exception):  # an answer to the client, not a failure of the stand-in
    """A statement that the server refuses: a SQLSTATE, a message and, for some, a detail."""

    def __init__(self, code: str, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail


def syntax_error(near: str) -> Refusal:
    return Refusal(SYNTAX_ERROR, f'syntax error at or near "{near}"')


def not_supported(sentence: str) -> Refusal:
    return Refusal(NOT_SUPPORTED, sentence)


def not_in_stand_in(subject: str) -> Refusal:
    """Return the error for a statement that Redshift may support and the stand-in does not."""
    return Refusal(NOT_SUPPORTED, f"{subject} is not carried out by the stand-in")


class CopyRefused(Refusal):
    """A load that failed on its data; SYS_LOAD_ERROR_DETAIL keeps the whole sentence.

    The message's own detail carries the sentence cut short, as the server's does.
    """

    def __init__(self, number: int, sentence: str, *, message: str, file: str = "", column: str = "") -> None:
        super().__init__(INTERNAL, message, format_detail(message, number, sentence))
        self.number = number
        self.sentence = sentence
        self.file = file
        self.column = column
        self.column_type = ""
        self.column_length = ""

    def set_column_type(self, kind: str, length: str) -> "CopyRefused":
        self.column_type, self.column_length = kind, length
        return self


def format_detail(error: str, number: int, context: str) -> str:
    place = "spectrum_manifest.cpp:140" if number == MANIFEST_ERROR else "dory_util.cpp:1450"
    lines = [
        SEPARATOR_LINE,
        f"error:  {error}",
        f"code:      {number}",
        f"context:   {context[:MAX_CONTEXT_CHARACTERS]}",
        "query:     0",
        f"location:  {place}",
        "process:   worker_thread [pid=0]",
        SEPARATOR_LINE,
    ]
    return "\n  " + "\n  ".join(lines) + "\n"


def scan_error(number: int, sentence: str, *, file: str = "", column: str = "") -> CopyRefused:
    return CopyRefused(number, sentence, message="Spectrum Scan Error", file=file, column=column)


def file_not_found_error(file: str) -> CopyRefused:
    return CopyRefused(DATA_ERROR, f"File not found: {file}", message="Spectrum Scan Error: File not found", file=file)


def null_value_error(column: str, file: str) -> CopyRefused:
    sentence = f"Cannot insert a NULL value into column {column}"
    return CopyRefused(NULL_VALUE_ERROR, sentence, message=sentence, file=file, column=column)


def service_error(sentence: str) -> CopyRefused:
    return CopyRefused(SERVICE_ERROR, sentence, message=sentence)
