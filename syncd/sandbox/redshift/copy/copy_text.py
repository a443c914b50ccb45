"""Syntax of COPY: the options of a load from Parquet, and the error for each option that it refuses."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from syncd.sandbox.redshift.copy.s3_files import LOCATION_PATTERN
from syncd.sandbox.redshift.refusal import NOT_SUPPORTED, Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.plan import StatementPlan
from syncd.sandbox.redshift.sql.tokens import LongNames, TokenKind, TokenReader

NOT_FOR_PARQUET_OPTIONS: Final = frozenset(
    """
    REGION COMPUPDATE COMPROWS TRUNCATECOLUMNS ACCEPTANYDATE DELIMITER GZIP BZIP2 LZOP ZSTD NULL TIMEFORMAT
    DATEFORMAT EMPTYASNULL BLANKSASNULL ESCAPE REMOVEQUOTES QUOTE IGNOREHEADER IGNOREBLANKLINES IGNOREALLERRORS
    TRIMBLANKS ROUNDEC ENCODING ENCRYPTED MASTER_SYMMETRIC_KEY NOLOAD READRATIO SSH FIXEDWIDTH JSON AVRO CSV
    SHAPEFILE ORC COMPROWS
    """.split()
)
OTHER_FORMATS: Final = frozenset({"CSV", "JSON", "AVRO", "ORC", "SHAPEFILE", "FIXEDWIDTH"})
ROLE_PATTERN: Final = re.compile(r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]+")
CREDENTIALS_PATTERN: Final = re.compile(
    r"aws_iam_role=(.+)|aws_access_key_id=[^;]+;aws_secret_access_key=[^;]+(;token=[^;]+)?"
)


@dataclass(slots=True)
class CopyStatement:
    """A parsed COPY statement."""

    table: tuple[str, ...]
    columns: list[str]
    location: str
    has_credentials: bool = False
    parquet: bool = False
    manifest: bool = False
    fill_record: bool = False
    explicit_ids: bool = False
    serialize_to_json: bool = False
    statistics: bool = False
    invalid_character: str = ""


def plan_copy(reader: TokenReader, _: LongNames) -> StatementPlan:
    reader.expect("COPY")
    table = reader.read_relation()
    columns = reader.read_names() if reader.is_mark_next("(") else []
    if reader.accept("TO"):
        raise syntax_error("TO")
    reader.expect("FROM")
    if reader.is_next("STDIN"):
        raise not_supported("COPY FROM STDIN is not supported")
    load = CopyStatement(table, columns, reader.read_string())
    while not reader.is_done:
        _read_option(reader, load)
    check_copy(load)

    from syncd.sandbox.redshift.copy.copy_load import run_copy  # loads pyarrow, so only on first use

    return StatementPlan(program=lambda context: run_copy(context, load))


def check_copy(copy: CopyStatement) -> None:
    """Refuse a load that lacks a required part."""
    if not copy.parquet:
        raise not_in_stand_in("COPY of a format other than PARQUET")
    if not copy.has_credentials:
        raise Refusal(NOT_SUPPORTED, "COPY requires IAM_ROLE or CREDENTIALS to read from S3")
    if not LOCATION_PATTERN.fullmatch(copy.location):
        raise Refusal("XX000", f"The S3 location '{copy.location}' is not valid: it must begin with s3:// and a bucket")
    if len(set(copy.columns)) != len(copy.columns):
        twice = next(c for c in copy.columns if copy.columns.count(c) > 1)
        raise Refusal("42701", f'column "{twice}" specified more than once')


def _read_option(reader: TokenReader, copy: CopyStatement) -> None:
    token = reader.next()
    read = OPTION_READERS.get(token.text) if token.kind is TokenKind.WORD else None
    if read is not None:
        read(reader, copy)
    elif token.is_word("JOB"):
        raise not_in_stand_in("COPY JOB")
    elif token.kind is TokenKind.WORD and token.text in NOT_FOR_PARQUET_OPTIONS:
        raise not_for_parquet_error(token.text)
    else:
        raise syntax_error(token.raw)


def not_for_parquet_error(word: str) -> Refusal:
    return not_supported(f"{word} argument is not supported for PARQUET based COPY")


def _read_format(reader: TokenReader, copy: CopyStatement) -> None:
    reader.accept("AS")
    token = reader.next()
    if token.text in OTHER_FORMATS:
        raise not_in_stand_in(f"COPY of {token.text}")
    if not token.is_word("PARQUET"):
        raise syntax_error(token.raw)
    copy.parquet = True


def _set_flag(name: str) -> Callable[[TokenReader, CopyStatement], None]:
    return lambda _, copy: setattr(copy, name, True)


def _read_statistics(reader: TokenReader, copy: CopyStatement) -> None:
    copy.statistics = True
    for word in ("ON", "OFF", "TRUE", "FALSE"):
        if reader.accept(word):
            return


def _read_max_errors(reader: TokenReader, _: CopyStatement) -> None:
    reader.accept("AS")
    if reader.read_number() > 0:
        raise not_for_parquet_error("MAXERROR")


def _read_invalid_character(reader: TokenReader, copy: CopyStatement) -> None:
    reader.accept("AS")
    token = reader.peek()
    copy.invalid_character = "?"
    if token is not None and token.kind is TokenKind.STRING:
        copy.invalid_character = reader.read_string()
    if len(copy.invalid_character) != 1 or not copy.invalid_character.isascii():
        raise Refusal("22023", "ACCEPTINVCHARS takes one ASCII character")


def _read_role(reader: TokenReader, copy: CopyStatement) -> None:
    if not reader.accept("DEFAULT"):
        reader.accept("AS")
        _check_role_arn(reader.read_string())
    _set_credentials(copy)


def _check_role_arn(text: str) -> None:
    if not all(ROLE_PATTERN.fullmatch(arn) for arn in text.split(",")):
        raise Refusal("XX000", "Invalid IAM role ARN", "code: 8001, context: the role is not written as an ARN")


def _read_credentials(reader: TokenReader, copy: CopyStatement) -> None:
    reader.accept("AS")
    found = CREDENTIALS_PATTERN.fullmatch(reader.read_string())
    if found is None:
        raise Refusal(
            "XX000",
            "Invalid credentials. Must be of the format: credentials 'aws_iam_role=...' or"
            " 'aws_access_key_id=...;aws_secret_access_key=...[;token=...]'",
        )
    if found.group(1):
        _check_role_arn(found.group(1))
    _set_credentials(copy)


def _read_access_keys(reader: TokenReader, copy: CopyStatement) -> None:
    reader.accept("AS")
    reader.read_string()
    reader.expect("SECRET_ACCESS_KEY")
    reader.accept("AS")
    reader.read_string()
    if reader.accept("SESSION_TOKEN"):
        reader.accept("AS")
        reader.read_string()
    _set_credentials(copy)


def _set_credentials(copy: CopyStatement) -> None:
    if copy.has_credentials:
        raise Refusal("42601", "conflicting or redundant options: IAM_ROLE and CREDENTIALS exclude each other")
    copy.has_credentials = True


OPTION_READERS: Final[dict[str, Callable[[TokenReader, CopyStatement], None]]] = {
    "FORMAT": _read_format,
    "PARQUET": _set_flag("parquet"),
    "MANIFEST": _set_flag("manifest"),
    "FILLRECORD": _set_flag("fill_record"),
    "EXPLICIT_IDS": _set_flag("explicit_ids"),
    "SERIALIZETOJSON": _set_flag("serialize_to_json"),
    "STATUPDATE": _read_statistics,
    "MAXERROR": _read_max_errors,
    "ACCEPTINVCHARS": _read_invalid_character,
    "IAM_ROLE": _read_role,
    "CREDENTIALS": _read_credentials,
    "ACCESS_KEY_ID": _read_access_keys,
}
