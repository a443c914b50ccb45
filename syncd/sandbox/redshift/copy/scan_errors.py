"""The errors of a Parquet load, in Redshift's words (facts, section 2.3)."""

from typing import Final

from syncd.sandbox.redshift.refusal import INTERNAL, Refusal

LONGEST_CONTEXT: Final = 240
RULE: Final = "-----------------------------------------------"
DATA: Final = 15007
OLDER_DATA: Final = 15001
MANIFEST: Final = 15003
NULL_VALUE: Final = 8007
SERVICE: Final = 8001
TOO_LARGE: Final = 1224
INVALID_TEXT: Final = 1220


class LoadRefused(Refusal):
    """A load that failed on its data; SYS_LOAD_ERROR_DETAIL keeps the whole sentence.

    The message's own detail carries it cut, as the server's does.
    """

    def __init__(self, number: int, sentence: str, *, message: str, file: str = "", column: str = "") -> None:
        super().__init__(INTERNAL, message, detail_block(message, number, sentence))
        self.number = number
        self.sentence = sentence
        self.file = file
        self.column = column
        self.column_type = ""
        self.column_length = ""

    def about(self, kind: str, length: str) -> "LoadRefused":
        self.column_type, self.column_length = kind, length
        return self


def detail_block(error: str, number: int, context: str) -> str:
    place = "spectrum_manifest.cpp:140" if number == MANIFEST else "dory_util.cpp:1450"
    lines = [
        RULE,
        f"error:  {error}",
        f"code:      {number}",
        f"context:   {context[:LONGEST_CONTEXT]}",
        "query:     0",
        f"location:  {place}",
        "process:   worker_thread [pid=0]",
        RULE,
    ]
    return "\n  " + "\n  ".join(lines) + "\n"


def scan_error(number: int, sentence: str, *, file: str = "", column: str = "") -> LoadRefused:
    return LoadRefused(number, sentence, message="Spectrum Scan Error", file=file, column=column)


def file_not_found(file: str) -> LoadRefused:
    return LoadRefused(DATA, f"File not found: {file}", message="Spectrum Scan Error: File not found", file=file)


def null_value(column: str, file: str) -> LoadRefused:
    sentence = f"Cannot insert a NULL value into column {column}"
    return LoadRefused(NULL_VALUE, sentence, message=sentence, file=file, column=column)


def service_error(sentence: str) -> LoadRefused:
    return LoadRefused(SERVICE, sentence, message=sentence)
