"""What an error that comes out of Spark means: the driver's own code inside of it, if there is one."""

from collections.abc import Iterator
from typing import Any, Final

from syncd.errors import ReaderDown, SchemaDrift, SourceDown, SourceReplaced, SourceUnfit
from syncd.mysql.error_codes import is_transient
from syncd.settings import SourceSettings
from syncd.spark.jdbc import WRONG_SERVER_MARKER
from watermarks.errors import HintedError

LONG_READ_HINT: Final = "Raise longest_read of the source, or make batches smaller."
GRANT_HINT: Final = (
    "Is the password right, and may this user come from this host and read this table? See: syncd doctor"
)
DRIFT_HINT: Final = "Was the table altered, renamed or dropped since the plan was made?"
UNREACHABLE_HINT: Final = "Is the server up, and is there a way to it from this machine?"
AUTHORITY_HINT: Final = "Name the authority that signed it: `ca: FILE`, a PEM file as its owner publishes it."
CERTIFICATE_NAME_HINT: Final = "Name the host as its certificate does, or issue one that names {host}."
SEVERAL_SERVERS_HINT: Final = (
    "Its address leads to several servers: give the source the address of one. Then: syncd doctor"
)
REFUSED_QUERY_HINT: Final = (
    "Is the stream's `query` one that the server understands, and are its tables named with their database?"
)
WIDE_ROW_HINT: Final = (
    "No row needs more than this, at the source: SET GLOBAL max_allowed_packet = 16777216. Or, without `tls: verify`"
    " and tunnel, read by the driver that knows no such bound: `spark: {driver: mariadb}`."
)
MEMORY_HINT: Final = "Give spark.driver_memory more, or read fewer windows at once (source.max_connections)."

_UNKNOWN_VARIABLE_CODE: Final = 1193
"""MariaDB is asked for the `server_uuid` of MySQL."""
_MISSING_STATUS_TABLE: Final = "GLOBAL_STATUS"
"""MySQL is asked for the start of a MariaDB."""
_DRIFT_CODES: Final = frozenset({1049, 1051, 1054, 1146, 1176, 1356, 1412})
"""No such database, table, column or index; a view of what is gone; a definition that changed."""
_ACCESS_DENIED_CODES: Final = frozenset({1044, 1045, 1142, 1143, 1227, 1370, 1698})
"""Not let in, or not allowed."""
_CERTIFICATE_NAME_PHRASES: Final = ("identity", "No name matching", "subject alternative")
"""What Java and the drivers say of a certificate for another host."""
_TIMEOUT_CODES: Final = frozenset({1969, 3024})
"""The statement took longer than it may: MariaDB's code, and MySQL's."""


def map_spark_error(error: BaseException, source: SourceSettings) -> HintedError:
    """The error of ours that one from Spark stands for."""
    try:
        return _classify_error(error, source)
    except _jvm_gone_errors():
        return ReaderDown("the JVM of Spark ended in the middle of its work", hint=MEMORY_HINT)


def _classify_error(error: BaseException, source: SourceSettings) -> HintedError:
    place = f"MySQL at {source.host}:{source.port}"
    if (told := _find_certificate_problem(error)) is not None:
        # To the driver a certificate that it does not believe is a line that broke, which would be tried for ever.
        hint = (
            CERTIFICATE_NAME_HINT.format(host=source.host)
            if any(word in told for word in _CERTIFICATE_NAME_PHRASES)
            else AUTHORITY_HINT
        )
        return SourceUnfit(f"the certificate of {source.host}:{source.port} is not believed: {told}", hint=hint)
    if is_row_too_wide(error):
        # To Connector/J each row is a packet, and none may be longer than the server lets one be that it is sent.
        return SourceUnfit(f"{place}: a row is longer than the server's max_allowed_packet", hint=WIDE_ROW_HINT)
    for cause in _java_causes(error):
        if (code := _sql_error_code(cause)) is not None:
            return _error_for_code(code, _first_message_line(cause), place)
    if isinstance(error, TimeoutError):
        longest = source.longest_read.total_seconds()
        return SourceDown(f"{place}: a read took longer than {longest:.0f} s and was given up", hint=LONG_READ_HINT)
    first = next(_java_causes(error), None)
    told = _first_message_line(first) if first is not None else f"{type(error).__name__}: {error}"
    if "Unsupported type" in told or "UNRECOGNIZED_SQL_TYPE" in told:
        return SchemaDrift(f"{place}: {told}", hint=DRIFT_HINT)
    return ReaderDown(f"the reading ended in the middle: {told}", hint=MEMORY_HINT)


def is_row_too_wide(error: BaseException) -> bool:
    """Whether Connector/J met a row, or was given a statement, that is longer than it was told to take."""
    try:
        return any(
            _is_instance(cause, "com.mysql.cj.jdbc.exceptions.PacketTooBigException") for cause in _java_causes(error)
        )
    except _jvm_gone_errors():
        return False


def _jvm_gone_errors() -> tuple[type[Exception], ...]:
    """What comes of asking an exception of Java for more, when its JVM has ended since."""
    from py4j.protocol import Py4JError

    return (OSError, Py4JError)


def _error_for_code(code: int, text: str, place: str) -> HintedError:
    message = f"{place}: {text}"
    if code == _UNKNOWN_VARIABLE_CODE or any(word in text for word in (WRONG_SERVER_MARKER, _MISSING_STATUS_TABLE)):
        return SourceReplaced(
            f"{place} is not the server that the plan was made for",
            hint=SEVERAL_SERVERS_HINT,
            code=code,
        )
    if code in _DRIFT_CODES:
        return SchemaDrift(message, hint=DRIFT_HINT, code=code)
    if code in _ACCESS_DENIED_CODES:
        return SourceUnfit(message, hint=GRANT_HINT, code=code)
    if not is_transient(code):
        return SourceUnfit(message, hint=REFUSED_QUERY_HINT, code=code)
    return SourceDown(message, hint=LONG_READ_HINT if code in _TIMEOUT_CODES else UNREACHABLE_HINT, code=code)


def _java_causes(error: BaseException) -> Iterator[Any]:
    """The Java exceptions behind a Python one, the outermost first."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(20):
        if cause is None:
            return
        yield cause
        cause = cause.getCause()


def _find_certificate_problem(error: BaseException) -> str | None:
    """What is wrong with the server's certificate, if that is what is wrong."""
    found = [cause for cause in _java_causes(error) if _is_instance(cause, "java.security.cert.CertificateException")]
    return _first_message_line(found[-1]) if found else None


def _is_instance(cause: Any, name: str) -> bool:  # noqa: ANN401  # of Java
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001  # there is no public way
    return gateway is not None and bool(is_instance_of(gateway, cause, name))


def _sql_error_code(cause: Any) -> int | None:  # noqa: ANN401  # of Java
    return int(cause.getErrorCode()) if _is_instance(cause, "java.sql.SQLException") else None


def _first_message_line(cause: Any) -> str:  # noqa: ANN401  # of Java
    """The first line of what it says; stacks of Java are for nobody."""
    lines = str(cause.getMessage() or cause.getClass().getName()).strip().splitlines()
    return " ".join(line.strip() for line in lines[:1])[:500] or "no word"
