"""COPY: every file of the source, streamed into the table inside the client's own transaction."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, Final

import pyarrow as pa

from syncd.sandbox.redshift.backend import BackendError, quote_literal
from syncd.sandbox.redshift.copy.copy_text import CopyStatement
from syncd.sandbox.redshift.copy.csv_rows import ParquetReader, RowWriteOptions, read_csv_pieces
from syncd.sandbox.redshift.copy.load_log import CopyLogEntry
from syncd.sandbox.redshift.copy.parquet_rules import check_column, check_pages, file_columns
from syncd.sandbox.redshift.copy.s3_files import CopyFile, find_copy_files, s3_path
from syncd.sandbox.redshift.copy.target_columns import TargetColumn, read_target_columns, select_filled_columns
from syncd.sandbox.redshift.refusal import DATA_ERROR, OLDER_DATA_ERROR, CopyRefused, Refusal, scan_error
from syncd.sandbox.redshift.sql.plan import StatementContext
from syncd.sandbox.redshift.sql.statement_editor import postgres_name
from syncd.sandbox.redshift.wire import PeerGone

MICROSECONDS_SQL: Final = "(extract(epoch FROM ({})) * 1000000)::bigint"
DEFAULT_EXPRESSIONS: Final = {
    "TIMESTAMP": MICROSECONDS_SQL,
    "TIMESTAMPTZ": MICROSECONDS_SQL,
    "VARBYTE": "''",  # refused if needed: PostgreSQL prints such a constant in hexadecimal
}
PERMISSION_DENIED: Final = "42501"
MAX_PIECES_AHEAD: Final = 4
QUEUE_POLL_SECONDS: Final = 0.2
# The type that PostgreSQL's COPY fills for a type that cannot read such text itself, and the cast to that type.
INTERIM_TYPES: Final = {"SUPER": ("json", "super"), "VARBYTE": ("bytea", "varbyte")}
Piece = tuple[int, memoryview]


def run_copy(context: StatementContext, copy: CopyStatement) -> str:
    """Load the files and return the command tag; a failed load leaves its reason in the system views.

    Raises:
        Refusal: nothing was loaded, and the transaction has failed.
    """
    table = postgres_name(copy.table, context.names)
    context.acquire_locks(writes=[table])
    _check_rights(context, copy, table)
    columns = select_filled_columns(read_target_columns(context, table), copy)
    entry = _make_log_entry(context, copy, table)
    try:
        defaults = _read_defaults(context, columns)
        pieces = _read_pieces(context, copy, columns, defaults, entry)
        entry.rows = _store_pieces(context, table, columns, pieces)
    except CopyRefused as refused:
        context.last_copy.count, context.last_copy.id = 0, entry.query
        context.log.record_error(entry, refused)
        context.log.record_end(entry, "aborted", refused.sentence)
        raise
    except BackendError as error:
        context.last_copy.count, context.last_copy.id = 0, entry.query
        context.log.record_end(entry, "aborted", error.fields["M"])
        raise
    context.last_copy.count, context.last_copy.id = entry.rows, entry.query
    context.log.record_end(entry, "completed")
    context.notices.append(f"Load into table '{copy.table[-1]}' completed, {entry.rows} record(s) loaded successfully.")
    return f"COPY {entry.rows}"


def _check_rights(context: StatementContext, copy: CopyStatement, table: str) -> None:
    """Refuse a load without rights before it begins: the count of the last load stays (facts, 1.5)."""
    known = f"to_regclass({quote_literal(table)})"
    if context.fetch_value(f"SELECT has_table_privilege({known}, 'INSERT')") == "f":
        raise Refusal(PERMISSION_DENIED, f"permission denied for relation {copy.table[-1]}")
    if copy.statistics:
        context.run(f"SELECT pg_catalog.redshift_own({known}) WHERE {known} IS NOT NULL")


def _make_log_entry(context: StatementContext, copy: CopyStatement, table: str) -> CopyLogEntry:
    return CopyLogEntry(
        query=context.log.next_id(),
        user=context.user,
        session=context.pid,
        database=context.database,
        table=copy.table[-1],
        table_id=context.require_value(f"SELECT {quote_literal(table)}::regclass::oid"),
        location=copy.location,
        began=datetime.now(UTC),
    )


def _read_defaults(context: StatementContext, columns: Sequence[TargetColumn]) -> dict[str, str]:
    """Return the values that replace NULLs of columns with both NOT NULL and DEFAULT (facts, 1.5)."""
    wanted = [c for c in columns if c.not_null and c.default]
    return {
        c.name: context.require_value(f"SELECT {DEFAULT_EXPRESSIONS.get(c.type.name, '({})::text').format(c.default)}")
        for c in wanted
    }


def _read_pieces(
    context: StatementContext,
    copy: CopyStatement,
    columns: Sequence[TargetColumn],
    defaults: dict[str, str],
    entry: CopyLogEntry,
) -> Iterator[Piece]:
    """Yield every piece of every file; an unreachable S3 is the scan error that loaders retry."""
    try:
        yield from _read_files(context, copy, columns, defaults, entry)
    except OSError as error:
        raise CopyRefused(OLDER_DATA_ERROR, str(error), message="Spectrum Scan Error: Retries exceeded") from error


def _read_files(
    context: StatementContext,
    copy: CopyStatement,
    columns: Sequence[TargetColumn],
    defaults: dict[str, str],
    entry: CopyLogEntry,
) -> Iterator[Piece]:
    sources = find_copy_files(context.lake, copy.location, manifest=copy.manifest)
    entry.files = len(sources)
    entry.size = sum(source.size for source in sources)
    for source in sources:
        address = context.lake.web_address(source.location)
        options = RowWriteOptions(
            columns=columns, defaults=defaults, invalid_character=copy.invalid_character, file=address
        )
        with _open_parquet(context, source, address) as file:
            _check_schema(file.file, copy, options, source)
            try:
                yield from read_csv_pieces(file, options)
            except pa.ArrowException as error:
                raise scan_error(OLDER_DATA_ERROR, f"{error} in file {address}", file=address) from error


@contextmanager
def _open_parquet(context: StatementContext, source: CopyFile, address: str) -> Iterator[ParquetReader]:
    files = context.lake.open_file_system()
    with files.open_input_file(s3_path(source.location)) as stream:
        try:
            file = ParquetReader(stream)
        except (pa.ArrowException, OSError) as error:
            sentence = f"File '{address}' has an invalid version number: {error}"
            raise scan_error(OLDER_DATA_ERROR, sentence, file=address) from error
        _check_format(file.file, stream, address)
        yield file


def _check_format(file: Any, stream: Any, address: str) -> None:  # noqa: ANN401  # pyarrow gives no types
    for group in range(file.metadata.num_row_groups):
        for place in range(file.metadata.num_columns):
            chunk = file.metadata.row_group(group).column(place)
            first = b""
            if group == 0 and place == 0:
                stream.seek(chunk.data_page_offset)
                first = stream.read(2)
            check_pages(chunk.compression, chunk.encodings, first, address)


def _check_schema(file: Any, copy: CopyStatement, options: RowWriteOptions, source: CopyFile) -> None:  # noqa: ANN401  # as above
    found = file_columns(file.schema, file.schema_arrow)
    folded = [column.name.lower() for column in found]
    if len(set(folded)) != len(folded):
        raise Refusal("53002", "Duplicate Parquet column names in the schema")
    missing = options.columns[len(found) :]
    if len(found) > len(options.columns) or (missing and not copy.fill_record):
        sentence = (
            "Unmatched number of columns between table and file."
            f" Table columns: {len(options.columns)}, Data columns: {len(found)}, File name: {options.file}"
        )
        raise scan_error(DATA_ERROR, sentence, file=options.file)
    for absent in missing:
        if absent.not_null:
            raise scan_error(
                DATA_ERROR, f"FILLRECORD cannot fill column {absent.name}: it is NOT NULL", file=options.file
            )
    for target, column in zip(options.columns, found, strict=False):
        check_column(target, column, serialize=copy.serialize_to_json, file=options.file, location=source.location)


def _store_pieces(
    context: StatementContext, table: str, columns: Sequence[TargetColumn], pieces: Iterator[Piece]
) -> int:
    """Send the pieces; values of SUPER and VARBYTE go through a temporary table of the stand-in."""
    quoted = [postgres_name([c.name], context.names) for c in columns]
    names = ", ".join(quoted)
    if not any(c.type.name in INTERIM_TYPES for c in columns):
        return _send_pieces(context, f"COPY {table} ({names}) FROM STDIN (FORMAT csv)", pieces)
    kinds = [INTERIM_TYPES.get(c.type.name) or (str(c.type), str(c.type)) for c in columns]
    definitions = ", ".join(f"{name} {kind}" for name, (kind, _) in zip(quoted, kinds, strict=True))
    values = ", ".join(f"{name}::{kind}" for name, (_, kind) in zip(quoted, kinds, strict=True))
    context.run(f"CREATE TEMPORARY TABLE redshift_documents ({definitions})")
    rows = _send_pieces(context, "COPY pg_temp.redshift_documents FROM STDIN (FORMAT csv)", pieces)
    context.run(f"INSERT INTO {table} ({names}) SELECT {values} FROM pg_temp.redshift_documents")
    context.run("DROP TABLE pg_temp.redshift_documents")
    return rows


def _send_pieces(context: StatementContext, sql: str, pieces: Iterator[Piece]) -> int:
    rows = 0
    context.backend.copy_in(sql)
    ahead = ReadAhead(pieces)
    try:
        for count, data in ahead:
            context.backend.copy_data(data)
            rows += count
    except PeerGone:
        raise
    except Exception as error:
        context.backend.copy_fail(str(error))
        raise
    finally:
        ahead.close()
    copied = context.backend.copy_end()
    if copied != rows:
        raise Refusal("XX000", f"the stand-in read {rows} rows and stored {copied}")
    return rows


class ReadAhead:
    """Reader of pieces in a thread of its own, a few ahead, so that reading and storing overlap."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._queue: Queue[Piece | None] = Queue(MAX_PIECES_AHEAD)
        self._closed = Event()
        self._error: Exception | None = None
        self._thread = Thread(target=self._read, args=(pieces,), name="copy-reader", daemon=True)
        self._thread.start()

    def _read(self, pieces: Iterator[Piece]) -> None:
        try:
            for piece in pieces:
                if not self._put(piece):
                    return
        except Exception as error:  # noqa: BLE001  # raised again in the session's thread
            self._error = error
        self._put(None)

    def _put(self, piece: Piece | None) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(piece, timeout=QUEUE_POLL_SECONDS)
            except Full:
                continue
            return True
        return False

    def __iter__(self) -> Iterator[Piece]:
        while (piece := self._queue.get()) is not None:
            yield piece
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self._closed.set()
        while self._thread.is_alive():
            try:
                self._queue.get_nowait()
            except Empty:
                self._thread.join(QUEUE_POLL_SECONDS)
