"""Mapping of Spark's errors: the JDBC driver's error code inside decides, if there is one."""

from collections.abc import Iterator
from typing import Any, Final

from syncd.errors import ReaderDown, SchemaDrift, SourceDown, SourceReplaced, SourceUnfit
from syncd.mysql.error_codes import UNREACHABLE_HINT, is_transient
from syncd.settings import SourceSettings
from syncd.spark.jdbc import WRONG_SERVER_MARKER
from syncd.tls import AUTHORITY_HINT, CERTIFICATE_NAME_HINT
from watermarks.errors import HintedError

LONG_READ_HINT: Final = "Raise longest_read of the source, or make batches smaller."
GRANT_HINT: Final = "Check the password and the user's rights with syncd doctor."
DRIFT_HINT: Final = "Check whether the table was altered, renamed or dropped after the plan was made."
SEVERAL_SERVERS_HINT: Final = "The address leads to several servers: configure that of one, then run syncd doctor."
REFUSED_QUERY_HINT: Final = "Check the syntax of the stream's `query`, and that it names tables with their database."

WIDE_ROW_HINT: Final = (
    "Run at the source: SET GLOBAL max_allowed_packet = 16777216, which is enough for any row. Or, without"
    " `tls: verify` and tunnel, use the driver without this limit: `spark: {driver: mariadb}`."
)
MEMORY_HINT: Final = "Raise spark.driver_memory, or read fewer windows at once (source.max_connections)."

_UNKNOWN_VARIABLE_CODE: Final = 1193
"""A MariaDB was queried for the `server_uuid` of MySQL."""
_MISSING_STATUS_TABLE: Final = "GLOBAL_STATUS"
"""A MySQL was queried for the start time of MariaDB."""
_DRIFT_CODES: Final = frozenset({1049, 1051, 1054, 1146, 1176, 1356, 1412})
"""Missing database, table, column or index; a view of a dropped table; a changed definition."""
_ACCESS_DENIED_CODES: Final = frozenset({1044, 1045, 1142, 1143, 1227, 1370, 1698})
"""Login or privilege missing."""
_CERTIFICATE_NAME_PHRASES: Final = ("identity", "No name matching", "subject alternative")
"""Phrases of Java and the drivers for a certificate of another host."""
_TIMEOUT_CODES: Final = frozenset({1969, 3024})
"""The statement exceeded its time limit: MariaDB's code, and MySQL's."""


def map_spark_error(error: BaseException, source: SourceSettings) -> HintedError:
    """Return our error for an error from Spark."""
    try:
        return _classify_error(error, source)
    except _jvm_gone_errors():
        return ReaderDown("the JVM of Spark ended during a job", hint=MEMORY_HINT)


def _classify_error(error: BaseException, source: SourceSettings) -> HintedError:
    place = f"MySQL at {source.host}:{source.port}"
    if (problem := _find_certificate_problem(error)) is not None:
        # To the driver an untrusted certificate is a broken connection, which would be retried for ever.
        is_other_name = any(phrase in problem for phrase in _CERTIFICATE_NAME_PHRASES)
        hint = CERTIFICATE_NAME_HINT.format(host=source.host) if is_other_name else AUTHORITY_HINT
        return SourceUnfit(f"the certificate of {source.host}:{source.port} is not trusted: {problem}", hint=hint)
    if is_row_too_wide(error):
        # To Connector/J each row is a packet, which may not be longer than the server accepts itself.
        return SourceUnfit(f"{place}: a row is longer than the server's max_allowed_packet", hint=WIDE_ROW_HINT)
    for cause in _java_causes(error):
        if (code := _sql_error_code(cause)) is not None:
            return _error_for_code(code, _first_message_line(cause), place)
    if isinstance(error, TimeoutError):
        longest = source.longest_read.total_seconds()
        return SourceDown(f"{place}: a read took longer than {longest:.0f} s and was cancelled", hint=LONG_READ_HINT)
    first = next(_java_causes(error), None)
    message = _first_message_line(first) if first is not None else f"{type(error).__name__}: {error}"
    if "Unsupported type" in message or "UNRECOGNIZED_SQL_TYPE" in message:
        return SchemaDrift(f"{place}: {message}", hint=DRIFT_HINT)
    return ReaderDown(f"the read was interrupted: {message}", hint=MEMORY_HINT)


def is_row_too_wide(error: BaseException) -> bool:
    """Return whether Connector/J met a row or statement that is longer than its limit."""
    try:
        return any(
            _is_instance(cause, "com.mysql.cj.jdbc.exceptions.PacketTooBigException") for cause in _java_causes(error)
        )
    except _jvm_gone_errors():
        return False


def _jvm_gone_errors() -> tuple[type[Exception], ...]:
    """Return the errors of a call to a Java exception whose JVM has ended."""
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
    """Yield the Java exceptions behind a Python one, the outermost first."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(20):
        if cause is None:
            return
        yield cause
        cause = cause.getCause()


def _find_certificate_problem(error: BaseException) -> str | None:
    """Return what is wrong with the server's certificate, if that is the cause."""
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
    """Return the first line of the message; Java stack traces help no operator."""
    lines = str(cause.getMessage() or cause.getClass().getName()).strip().splitlines()
    return " ".join(line.strip() for line in lines[:1])[:500] or "no message"
