"""COPY's own text: what a load from Parquet may say, and the sentence for each word it may not."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from syncd.sandbox.redshift.refusal import NOT_SUPPORTED, Refusal, not_in_stand_in, not_supported, syntax_error
from syncd.sandbox.redshift.sql.identifiers import LongNames
from syncd.sandbox.redshift.sql.plan import Plan
from syncd.sandbox.redshift.sql.tokens import Kind, Reader

NOT_FOR_PARQUET: Final = frozenset(
    """
    REGION COMPUPDATE COMPROWS TRUNCATECOLUMNS ACCEPTANYDATE DELIMITER GZIP BZIP2 LZOP ZSTD NULL TIMEFORMAT
    DATEFORMAT EMPTYASNULL BLANKSASNULL ESCAPE REMOVEQUOTES QUOTE IGNOREHEADER IGNOREBLANKLINES IGNOREALLERRORS
    TRIMBLANKS ROUNDEC ENCODING ENCRYPTED MASTER_SYMMETRIC_KEY NOLOAD READRATIO SSH FIXEDWIDTH JSON AVRO CSV
    SHAPEFILE ORC COMPROWS
    """.split()
)
OTHER_FORMATS: Final = frozenset({"CSV", "JSON", "AVRO", "ORC", "SHAPEFILE", "FIXEDWIDTH"})
ROLE: Final = re.compile(r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]+")
PAIRS: Final = re.compile(r"aws_iam_role=(.+)|aws_access_key_id=[^;]+;aws_secret_access_key=[^;]+(;token=[^;]+)?")
LOCATION: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.*)", re.DOTALL)


@dataclass(slots=True)
class Load:
    """A COPY statement, read."""

    table: tuple[str, ...]
    columns: list[str]
    location: str
    credentials: list[str] = field(default_factory=list)
    parquet: bool = False
    manifest: bool = False
    fill_record: bool = False
    explicit_ids: bool = False
    serialize_to_json: bool = False
    statistics: bool = False
    invalid_character: str = ""


def plan_copy(reader: Reader, _: LongNames) -> Plan:
    reader.expect("COPY")
    table = reader.relation()
    columns = reader.names() if reader.sees_mark("(") else []
    if reader.takes("TO"):
        raise syntax_error("TO")
    reader.expect("FROM")
    if reader.sees("STDIN"):
        raise not_supported("COPY FROM STDIN is not supported")
    load = Load(table, columns, reader.string())
    while not reader.done:
        _option(reader, load)
    check(load)

    from syncd.sandbox.redshift.copy.copy_load import carry_out  # pyarrow is read when first needed

    return Plan(program=lambda desk: carry_out(desk, load))


def check(load: Load) -> None:
    """Refuse a load that lacks what it must have."""
    if not load.parquet:
        raise not_in_stand_in("COPY of a format other than PARQUET")
    if not load.credentials:
        raise Refusal(NOT_SUPPORTED, "COPY requires IAM_ROLE or CREDENTIALS to read from S3")
    if not LOCATION.fullmatch(load.location):
        raise Refusal("XX000", f"The S3 location '{load.location}' is not valid: it must begin with s3:// and a bucket")
    if len(set(load.columns)) != len(load.columns):
        twice = next(c for c in load.columns if load.columns.count(c) > 1)
        raise Refusal("42701", f'column "{twice}" specified more than once')


def _option(reader: Reader, load: Load) -> None:
    token = reader.next()
    read = OPTIONS.get(token.text) if token.kind is Kind.WORD else None
    if read is not None:
        read(reader, load)
    elif token.is_word("JOB"):
        raise not_in_stand_in("COPY JOB")
    elif token.kind is Kind.WORD and token.text in NOT_FOR_PARQUET:
        raise not_for_parquet(token.text)
    else:
        raise syntax_error(token.raw)


def not_for_parquet(word: str) -> Refusal:
    return not_supported(f"{word} argument is not supported for PARQUET based COPY")


def _format(reader: Reader, load: Load) -> None:
    reader.takes("AS")
    token = reader.next()
    if token.text in OTHER_FORMATS:
        raise not_in_stand_in(f"COPY of {token.text}")
    if not token.is_word("PARQUET"):
        raise syntax_error(token.raw)
    load.parquet = True


def _parquet(_: Reader, load: Load) -> None:
    load.parquet = True


def _manifest(_: Reader, load: Load) -> None:
    load.manifest = True


def _fill_record(_: Reader, load: Load) -> None:
    load.fill_record = True


def _explicit_ids(_: Reader, load: Load) -> None:
    load.explicit_ids = True


def _serialize(_: Reader, load: Load) -> None:
    load.serialize_to_json = True


def _statistics(reader: Reader, load: Load) -> None:
    load.statistics = True
    for word in ("ON", "OFF", "TRUE", "FALSE"):
        if reader.takes(word):
            return


def _errors(reader: Reader, _: Load) -> None:
    reader.takes("AS")
    if reader.number() > 0:
        raise not_for_parquet("MAXERROR")


def _invalid_characters(reader: Reader, load: Load) -> None:
    reader.takes("AS")
    token = reader.peek()
    load.invalid_character = "?"
    if token is not None and token.kind is Kind.STRING:
        load.invalid_character = reader.string()
    if len(load.invalid_character) != 1 or not load.invalid_character.isascii():
        raise Refusal("22023", "ACCEPTINVCHARS takes one ASCII character")


def _role(reader: Reader, load: Load) -> None:
    if reader.takes("DEFAULT"):
        _authorise(load, "IAM_ROLE default")
        return
    reader.takes("AS")
    _authorise(load, _checked_role(reader.string()))


def _checked_role(text: str) -> str:
    if not all(ROLE.fullmatch(arn) for arn in text.split(",")):
        raise Refusal("XX000", "Invalid IAM role ARN", "code: 8001, context: the role is not written as an ARN")
    return text


def _pairs(reader: Reader, load: Load) -> None:
    reader.takes("AS")
    found = PAIRS.fullmatch(reader.string())
    if found is None:
        raise Refusal(
            "XX000",
            "Invalid credentials. Must be of the format: credentials 'aws_iam_role=...' or"
            " 'aws_access_key_id=...;aws_secret_access_key=...[;token=...]'",
        )
    if found.group(1):
        _checked_role(found.group(1))
    _authorise(load, "CREDENTIALS")


def _keys(reader: Reader, load: Load) -> None:
    reader.takes("AS")
    reader.string()
    reader.expect("SECRET_ACCESS_KEY")
    reader.takes("AS")
    reader.string()
    if reader.takes("SESSION_TOKEN"):
        reader.takes("AS")
        reader.string()
    _authorise(load, "ACCESS_KEY_ID")


def _authorise(load: Load, how: str) -> None:
    if load.credentials:
        raise Refusal("42601", "conflicting or redundant options: IAM_ROLE and CREDENTIALS exclude each other")
    load.credentials.append(how)


OPTIONS: Final[dict[str, Callable[[Reader, Load], None]]] = {
    "FORMAT": _format,
    "PARQUET": _parquet,
    "MANIFEST": _manifest,
    "FILLRECORD": _fill_record,
    "EXPLICIT_IDS": _explicit_ids,
    "SERIALIZETOJSON": _serialize,
    "STATUPDATE": _statistics,
    "MAXERROR": _errors,
    "ACCEPTINVCHARS": _invalid_characters,
    "IAM_ROLE": _role,
    "CREDENTIALS": _pairs,
    "ACCESS_KEY_ID": _keys,
}
