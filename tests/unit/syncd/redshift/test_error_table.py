"""What the errors of Redshift and of its driver mean."""

import ssl
import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from redshift_connector import error as driver_errors

from syncd.errors import CommitUnknown, FileRefused, RowRefused, TransactionConflict, WarehouseDown, WarehouseUnfit
from syncd.redshift import session as session_module
from syncd.redshift.error_table import (
    ObjectMissing,
    ServerError,
    SessionAddress,
    classify_error,
    map_server_error,
    mask_secrets,
    object_key,
)
from syncd.redshift.session import WarehouseSession
from watermarks.errors import HintedError

SITE = SessionAddress(host="cluster", port=5439, database="dev", user="loader")
FILE = "https://s3.eu-west-1.amazonaws.com/acme-lake/syncd/data/shop.orders/0-1/0-ab.parquet"


def block(code: int, context: str, error: str = "Spectrum Scan Error") -> str:
    rule = "-" * 47
    lines = (
        rule,
        f"error:  {error}",
        f"code:      {code}",
        f"context:   {context}",
        "query:     4711",
        "location:  dory_util.cpp:1450",
        "process:   worker_thread [pid=12]",
        rule,
    )
    return "\n  " + "\n  ".join(lines) + "\n"


def told(message: str, detail: str = "", state: str = "XX000") -> dict[str, str]:
    return {"S": "ERROR", "C": state, "M": message, "D": detail}


SCHEMA = f"File '{FILE}' has an incompatible Parquet schema for column 's3://acme-lake/syncd/da"
KNOWN: tuple[tuple[dict[str, str], type[HintedError]], ...] = (
    # The transaction again.
    (told("1023", "Serializable isolation violation on table in Redshift"), TransactionConflict),
    (
        told("1023", "Serializable isolation violation on table - 14411, transactions forming the cycle are: 1, 2"),
        TransactionConflict,
    ),
    (told("Relation does not exist", block(1018, "Relation does not exist", "1018")), TransactionConflict),
    (told("deadlock detected", state="40P01"), TransactionConflict),
    (told("deadlock detected"), TransactionConflict),
    (told("Query (150) canceled on user's request", state="57014"), TransactionConflict),
    (told("Query (150) cancelled on user's request"), TransactionConflict),
    (told("terminating connection due to administrator command", state="57P01"), TransactionConflict),
    (told("Spectrum Scan Error: Retries exceeded", block(15001, "Retries exceeded")), TransactionConflict),
    (told("Spectrum Scan Error", block(15001, "No more data to read")), TransactionConflict),
    (
        told("S3ServiceException:Please reduce your request rate.,Status 503,Error SlowDown", block(8001, "")),
        TransactionConflict,
    ),
    (
        told("current transaction is aborted, commands ignored until end of transaction block", state="25P02"),
        TransactionConflict,
    ),
    (told('relation "orders" already exists', state="42P07"), TransactionConflict),
    (told("could not open relation with OID 12345"), TransactionConflict),
    (told("cached plan must not change result type", state="34510"), TransactionConflict),
    # Wait.
    (told("Disk Full", block(1016, "node: 0", "Disk Full")), WarehouseDown),
    (told("too many connections for user", state="53300"), WarehouseDown),
    (told("the database system is starting up", state="57P03"), WarehouseDown),
    (told("Cluster is paused"), WarehouseDown),
    (told("cannot execute INSERT in a read-only transaction", state="25006"), WarehouseDown),
    # Somebody has to mend something.
    (told("permission denied for relation orders", state="42501"), WarehouseUnfit),
    (told("permission denied for schema shop"), WarehouseUnfit),
    (told("must be owner of relation orders", state="42501"), WarehouseUnfit),
    (told('relation "orders" does not exist', state="42P01"), ObjectMissing),
    (told("Relation orders does not exist in the database."), ObjectMissing),
    (told('schema "shop" does not exist', state="3F000"), ObjectMissing),
    (told('database "dev" does not exist', state="3D000"), ObjectMissing),
    (told('password authentication failed for user "loader"', state="28000"), WarehouseUnfit),
    (told('password authentication failed for user "loader"', state="28P01"), WarehouseUnfit),
    (told("S3ServiceException:Access Denied,Status 403,Error AccessDenied", block(8001, "")), WarehouseUnfit),
    (told("UnauthorizedException"), WarehouseUnfit),
    (told("User arn:aws:redshift:... is not authorized to assume IAM Role arn:aws:iam::1:role/x"), WarehouseUnfit),
    (told('Query (7) cancelled by WLM abort action of Query Monitoring Rule "long"'), WarehouseUnfit),
    (told('syntax error at or near "frm"', state="42601"), WarehouseUnfit),
    (told("something nobody has heard of"), WarehouseUnfit),
    # Values.
    (
        told(
            "Spectrum Scan Error",
            block(
                15007,
                f"The length of the data column note is longer than the length defined in the table. Table: 256, Data: 262, File name: {FILE}",
            ),
        ),
        RowRefused,
    ),
    (
        told("Cannot insert a NULL value into column id", block(8007, "Cannot insert a NULL value into column id")),
        RowRefused,
    ),
    (told("String length exceeds DDL length", block(1204, "String length exceeds DDL length")), RowRefused),
    (told("String contains invalid or unsupported UTF-8 codepoints. Bad UTF-8 hex sequence: a4 (error 3)"), RowRefused),
    (told("Multibyte character not supported for CHAR (Hint: Try using VARCHAR). Invalid char: c3 a4"), RowRefused),
    (told("String value exceeds the max size of 65535 bytes", block(1224, "")), RowRefused),
    (told("Value too long for character type", state="22001"), RowRefused),
    (told("Numeric data overflow (result precision)", block(1058, "")), RowRefused),
    (told("Invalid input", block(8001, "JSON_PARSE() error: unexpected end")), RowRefused),
    # Whole files.
    (told("Spectrum Scan Error: File not found", block(15007, f"File not found: {FILE}")), FileRefused),
    (told("Spectrum Scan Error", block(15007, SCHEMA)), FileRefused),
    (told("Spectrum Scan Error", block(15001, SCHEMA)), FileRefused),
    (
        told(
            "Spectrum Scan Error",
            block(
                15007,
                f"Unmatched number of columns between table and file. Table columns: 20, Data columns: 16, File name: {FILE}",
            ),
        ),
        FileRefused,
    ),
    (told("Spectrum Scan Error", block(15001, f"File '{FILE}' has an invalid version number: x")), FileRefused),
    (told("File entry does not have 'meta' key.", block(15003, "File entry does not have 'meta' key.")), FileRefused),
    (told("column 'num' has an invalid type length. Expecting: 8 len in file: 13", block(15001, "")), FileRefused),
    (told("Duplicate Parquet column names in the schema", state="53002"), FileRefused),
    (told("Load into table 'orders' failed. Check 'stl_load_errors' system table for details."), FileRefused),
    (told("Assert", block(1000, "Unreachable - Invalid type: 4000")), FileRefused),
    (told("The specified S3 prefix 'x' does not exist", block(8001, "")), FileRefused),
    (
        told(
            "S3ServiceException:The specified key does not exist.,Status 404,Error NoSuchKey,Rid 8,ExtRid x,CanRetry 1",
            block(8001, "Failed to initialize S3 output stream. S3 path: s3://acme-lake/syncd/data/a.parquet"),
        ),
        FileRefused,
    ),
)


@pytest.mark.parametrize(
    ("fields", "means"), KNOWN, ids=lambda found: found.get("M") if isinstance(found, dict) else ""
)
def test_every_known_error_means_one_thing(fields: dict[str, str], means: type[HintedError]) -> None:
    assert type(map_server_error(fields, SITE)) is means


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        (
            told("permission denied for relation orders", state="42501"),
            "GRANT SELECT, INSERT, UPDATE, DELETE ON orders TO",
        ),
        (told("permission denied for schema shop", state="42501"), "GRANT USAGE, CREATE ON SCHEMA shop TO loader;"),
        (told("must be owner of relation orders", state="42501"), "ALTER TABLE orders OWNER TO loader;"),
        (told('schema "shop" does not exist', state="3F000"), "CREATE SCHEMA shop AUTHORIZATION loader;"),
        (told("Disk Full", block(1016, "node: 0", "Disk Full")), "svv_table_info"),
        (told("S3ServiceException:Access Denied,Status 403"), "s3:GetObject"),
    ],
)
def test_what_a_person_mends_is_told_as_a_line_to_paste(fields: dict[str, str], hint: str) -> None:
    assert hint in map_server_error(fields, SITE).hint


def test_users_of_iam_are_quoted_in_what_is_pasted() -> None:
    site = SessionAddress(host="c", port=1, database="dev", user="IAM:bob")

    assert 'TO "IAM:bob";' in map_server_error(told("permission denied for schema shop"), site).hint


@pytest.mark.parametrize("name", ["deadlock", "access denied", "disk full", "slowdown", "1023"])
def test_a_file_called_after_an_error_is_none(name: str) -> None:
    context = f"File not found: https://s3.r.amazonaws.com/b/{name.replace(' ', '%20')}/x.parquet"

    assert classify_error(ServerError.from_fields(told("Spectrum Scan Error", block(15007, context)))) is FileRefused
    assert (
        classify_error(ServerError.from_fields(told(f'relation "{name}" does not exist', state="42P01")))
        is WarehouseUnfit
    )


def test_a_value_too_wide_names_file_column_and_both_sizes() -> None:
    context = (
        "The length of the data column note is longer than the length defined in the table."
        f" Table: 65535, Data: 70000, File name: {FILE}"
    )
    error = map_server_error(told("Spectrum Scan Error", block(15007, context)), SITE, sql="COPY x FROM ...")

    assert error.facts["file"] == "syncd/data/shop.orders/0-1/0-ab.parquet"
    assert (error.facts["column"], error.facts["size"], error.facts["width"]) == ("note", 70000, 65535)


def test_a_name_that_the_server_cut_is_told_as_none() -> None:
    error = map_server_error(told("Spectrum Scan Error", block(15007, SCHEMA.replace(".parquet'", ""))), SITE)

    assert "file" not in error.facts
    assert "column" not in error.facts


@pytest.mark.parametrize(
    ("address", "key"),
    [
        (FILE, "syncd/data/shop.orders/0-1/0-ab.parquet"),
        ("https://acme-lake.s3.eu-west-1.amazonaws.com/data/a%3D1/x.parquet?X-Amz-Signature=s", "data/a=1/x.parquet"),
        ("s3://acme-lake/data/x.parquet", "data/x.parquet"),
    ],
)
def test_addresses_of_files_become_keys(address: str, key: str) -> None:
    assert object_key(address) == key


SECRET = "wJalrXUtnFEMI/K7MDENG"


@pytest.mark.parametrize(
    "sql",
    [
        f"COPY t FROM 's3://b/m' ACCESS_KEY_ID 'AKIAIOSFODNN7' SECRET_ACCESS_KEY '{SECRET}' SESSION_TOKEN 'tokentoken'",
        f"COPY t FROM 's3://b/m' CREDENTIALS 'aws_access_key_id=AKIAIOSFODNN7;aws_secret_access_key={SECRET};token=tokentoken'",
    ],
)
def test_no_secret_of_a_copy_is_in_what_is_told(sql: str) -> None:
    for message in (f'syntax error at or near "{SECRET}"', sql, f"'{SECRET}' tokentoken AKIAIOSFODNN7"):
        error = map_server_error(told(message, state="42601"), SITE, sql=sql)

        shown = error.message + error.hint + str(error.facts)
        assert not any(secret in shown for secret in (SECRET, "tokentoken", "AKIAIOSFODNN7"))


def test_signatures_of_addresses_are_masked() -> None:
    assert "sig" not in mask_secrets("https://s3.r.amazonaws.com/b/k?X-Amz-Signature=sig&X-Amz-Security-Token=sig2")


class Broken:
    """A driver whose statements end as a test wants; what it stands on is elsewhere tried with a real one."""

    pid = 7
    transaction_status = b"T"
    command_tag = ""
    pending_error = None

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def reset_statement(self) -> None: ...

    def close(self) -> None: ...

    def cursor(self) -> Any:
        return self

    def execute(self, *words: object) -> None:
        raise self._error


class Loose:
    closed = False

    def end_connection(self) -> None: ...

    def close(self) -> None: ...


def session_with(error: BaseException) -> WarehouseSession:
    return WarehouseSession(Broken(error), Loose(), address=SITE, silence=timedelta(seconds=5))  # type: ignore[arg-type]  # a connection that only fails


def every_error_of_the_driver() -> Iterator[type[Exception]]:
    for found in vars(driver_errors).values():
        if isinstance(found, type) and issubclass(found, driver_errors.Error):
            yield found


@pytest.mark.parametrize("kind", tuple(every_error_of_the_driver()), ids=lambda kind: kind.__name__)
def test_every_error_of_the_driver_is_mapped_by_what_it_holds(kind: type[Exception]) -> None:
    for error, means, lives in (
        (kind(told("permission denied for relation t", state="42501")), WarehouseUnfit, True),
        (kind("BrokenPipe: server socket closed. Please check"), WarehouseDown, False),
        (kind("connection is closed"), WarehouseDown, False),
        (kind("communication error", OSError("x")), WarehouseDown, False),
        (kind("Only %s and %% are supported in the query."), HintedError, False),
    ):
        session = session_with(error)
        with pytest.raises(HintedError) as caught:
            session.run("select 1")
        assert (type(caught.value), session.is_alive) == (means, lives)


STRANGE = (
    OSError(104, "Connection reset by peer"),
    BrokenPipeError(32, "Broken pipe"),
    TimeoutError("timed out"),
    ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
    struct.error("unpack requires a buffer of 4 bytes"),
    KeyError(b"?"),
    ValueError("invalid literal for int()"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
)


@pytest.mark.parametrize("error", STRANGE, ids=lambda error: type(error).__name__)
def test_what_is_no_answer_ends_the_session(error: Exception) -> None:
    session = session_with(error)
    with pytest.raises(WarehouseDown):
        session.run("select 1")
    assert not session.is_alive

    session = session_with(error)
    with pytest.raises(CommitUnknown):
        session.commit()
    assert not session.is_alive


def test_a_fault_of_ours_passes_for_nothing_else() -> None:
    session = session_with(TypeError("a fault"))

    with pytest.raises(TypeError):
        session.run("select 1")

    assert not session.is_alive


def test_what_the_driver_lets_through_is_all_that_is_caught() -> None:
    assert driver_errors.Error in session_module._DRIVER_ERRORS
