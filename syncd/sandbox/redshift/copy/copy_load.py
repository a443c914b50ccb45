"""COPY: every file of the source, streamed into the table inside the client's own transaction."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, Final

import pyarrow as pa

from syncd.sandbox.redshift.backend import BackendError, literal
from syncd.sandbox.redshift.copy.copy_sources import Source, sources_of
from syncd.sandbox.redshift.copy.copy_text import Load
from syncd.sandbox.redshift.copy.csv_rows import Filling, ParquetSource, csv_of
from syncd.sandbox.redshift.copy.load_log import LoadEntry
from syncd.sandbox.redshift.copy.parquet_rules import check_column, check_pages, file_columns
from syncd.sandbox.redshift.copy.s3_files import path_of
from syncd.sandbox.redshift.copy.scan_errors import DATA, OLDER_DATA, LoadRefused, scan_error
from syncd.sandbox.redshift.copy.target_columns import TargetColumn, filled_columns, target_columns
from syncd.sandbox.redshift.refusal import Refusal
from syncd.sandbox.redshift.sql.statement_editor import name_behind
from syncd.sandbox.redshift.statement_context import Desk
from syncd.sandbox.redshift.wire import PeerGone

MICROSECONDS: Final = "(extract(epoch FROM ({})) * 1000000)::bigint"
AS_READ: Final = {
    "TIMESTAMP": MICROSECONDS,
    "TIMESTAMPTZ": MICROSECONDS,
    "VARBYTE": "''",  # refused when it would be needed: PostgreSQL prints such a constant in hexadecimal
}
DENIED: Final = "42501"
PIECES_AHEAD: Final = 4
PATIENCE: Final = 0.2
# What COPY of PostgreSQL's fills for a type that takes no such text itself, and what makes the type of it.
INTERIM: Final = {"SUPER": ("json", "super"), "VARBYTE": ("bytea", "varbyte")}
Piece = tuple[int, memoryview]


def carry_out(desk: Desk, load: Load) -> str:
    """Load, and tell the count; a load that fails leaves its reason in the system views.

    Raises:
        Refusal: nothing was loaded, and the transaction has failed.
    """
    table = name_behind(load.table, desk.names)
    desk.enter(writes=[table])
    _check_rights(desk, load, table)
    columns = filled_columns(target_columns(desk, table), load)
    entry = _entry(desk, load, table)
    try:
        defaults = _defaults(desk, columns)
        pieces = _pieces(desk, load, columns, defaults, entry)
        entry.rows = _into_table(desk, table, columns, pieces)
    except LoadRefused as refused:
        desk.last_copy.count, desk.last_copy.id = 0, entry.query
        desk.log.refused(entry, refused)
        desk.log.finished(entry, "aborted", refused.sentence)
        raise
    except BackendError as error:
        desk.last_copy.count, desk.last_copy.id = 0, entry.query
        desk.log.finished(entry, "aborted", error.fields["M"])
        raise
    desk.last_copy.count, desk.last_copy.id = entry.rows, entry.query
    desk.log.finished(entry, "completed")
    desk.notices.append(f"Load into table '{load.table[-1]}' completed, {entry.rows} record(s) loaded successfully.")
    return f"COPY {entry.rows}"


def _check_rights(desk: Desk, load: Load, table: str) -> None:
    """Who may not load fails before the load begins: the count of the last one stays (facts, 1.5)."""
    known = f"to_regclass({literal(table)})"
    if desk.value(f"SELECT has_table_privilege({known}, 'INSERT')") == "f":
        raise Refusal(DENIED, f"permission denied for relation {load.table[-1]}")
    if load.statistics:
        desk.run(f"SELECT pg_catalog.redshift_own({known}) WHERE {known} IS NOT NULL")


def _entry(desk: Desk, load: Load, table: str) -> LoadEntry:
    return LoadEntry(
        query=desk.log.next_id(),
        user=desk.user,
        session=desk.pid,
        database=desk.database,
        table=load.table[-1],
        table_id=desk.known(f"SELECT {literal(table)}::regclass::oid"),
        location=load.location,
        began=datetime.now(UTC),
    )


def _defaults(desk: Desk, columns: Sequence[TargetColumn]) -> dict[str, str]:
    """The value that a NULL becomes where a column has both NOT NULL and DEFAULT (facts, 1.5)."""
    wanted = [c for c in columns if c.not_null and c.default]
    return {c.name: desk.known(f"SELECT {AS_READ.get(c.type.name, '({})::text').format(c.default)}") for c in wanted}


def _pieces(
    desk: Desk, load: Load, columns: Sequence[TargetColumn], defaults: dict[str, str], entry: LoadEntry
) -> Iterator[Piece]:
    """Every piece of every file; S3 out of reach is the scan error that loaders try again."""
    try:
        yield from _pieces_of_files(desk, load, columns, defaults, entry)
    except OSError as error:
        raise LoadRefused(OLDER_DATA, str(error), message="Spectrum Scan Error: Retries exceeded") from error


def _pieces_of_files(
    desk: Desk, load: Load, columns: Sequence[TargetColumn], defaults: dict[str, str], entry: LoadEntry
) -> Iterator[Piece]:
    sources = sources_of(desk.lake, load.location, manifest=load.manifest)
    entry.files = len(sources)
    entry.size = sum(source.size for source in sources)
    for source in sources:
        address = desk.lake.web_address(source.location)
        filling = Filling(columns=columns, defaults=defaults, invalid_character=load.invalid_character, file=address)
        with _opened(desk, source, address) as file:
            _check_schema(file.whole, load, filling, source)
            try:
                yield from csv_of(file, filling)
            except pa.ArrowException as error:
                raise scan_error(OLDER_DATA, f"{error} in file {address}", file=address) from error


@contextmanager
def _opened(desk: Desk, source: Source, address: str) -> Iterator[ParquetSource]:
    files = desk.lake.files()
    with files.open_input_file(path_of(source.location)) as stream:
        try:
            file = ParquetSource(stream)
        except (pa.ArrowException, OSError) as error:
            sentence = f"File '{address}' has an invalid version number: {error}"
            raise scan_error(OLDER_DATA, sentence, file=address) from error
        _check_format(file.whole, stream, address)
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


def _check_schema(file: Any, load: Load, filling: Filling, source: Source) -> None:  # noqa: ANN401  # as above
    found = file_columns(file.schema, file.schema_arrow)
    folded = [column.name.lower() for column in found]
    if len(set(folded)) != len(folded):
        raise Refusal("53002", "Duplicate Parquet column names in the schema")
    missing = filling.columns[len(found) :]
    if len(found) > len(filling.columns) or (missing and not load.fill_record):
        sentence = (
            "Unmatched number of columns between table and file."
            f" Table columns: {len(filling.columns)}, Data columns: {len(found)}, File name: {filling.file}"
        )
        raise scan_error(DATA, sentence, file=filling.file)
    for absent in missing:
        if absent.not_null:
            raise scan_error(DATA, f"FILLRECORD cannot fill column {absent.name}: it is NOT NULL", file=filling.file)
    for target, column in zip(filling.columns, found, strict=False):
        check_column(target, column, serialize=load.serialize_to_json, file=filling.file, location=source.location)


def _into_table(desk: Desk, table: str, columns: Sequence[TargetColumn], pieces: Iterator[Piece]) -> int:
    """Send the pieces; what must become a SUPER or a VARBYTE goes through a table of the stand-in's own."""
    quoted = [name_behind([c.name], desk.names) for c in columns]
    names = ", ".join(quoted)
    if not any(c.type.name in INTERIM for c in columns):
        return _send(desk, f"COPY {table} ({names}) FROM STDIN (FORMAT csv)", pieces)
    kinds = [INTERIM.get(c.type.name) or (str(c.type), str(c.type)) for c in columns]
    definitions = ", ".join(f"{name} {kind}" for name, (kind, _) in zip(quoted, kinds, strict=True))
    values = ", ".join(f"{name}::{kind}" for name, (_, kind) in zip(quoted, kinds, strict=True))
    desk.run(f"CREATE TEMPORARY TABLE redshift_documents ({definitions})")
    rows = _send(desk, "COPY pg_temp.redshift_documents FROM STDIN (FORMAT csv)", pieces)
    desk.run(f"INSERT INTO {table} ({names}) SELECT {values} FROM pg_temp.redshift_documents")
    desk.run("DROP TABLE pg_temp.redshift_documents")
    return rows


def _send(desk: Desk, sql: str, pieces: Iterator[Piece]) -> int:
    rows = 0
    desk.backend.copy_in(sql)
    ahead = Ahead(pieces)
    try:
        for count, data in ahead:
            desk.backend.copy_data(data)
            rows += count
    except PeerGone:
        raise
    except Exception as error:
        desk.backend.copy_fail(str(error))
        raise
    finally:
        ahead.close()
    copied = desk.backend.copy_end()
    if copied != rows:
        raise Refusal("XX000", f"the stand-in read {rows} rows and stored {copied}")
    return rows


class Ahead:
    """Reads pieces in a thread of its own, a few ahead, so that reading and storing overlap."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._queue: Queue[Piece | None] = Queue(PIECES_AHEAD)
        self._gone = Event()
        self._failed: Exception | None = None
        self._thread = Thread(target=self._read, args=(pieces,), name="copy-reader", daemon=True)
        self._thread.start()

    def _read(self, pieces: Iterator[Piece]) -> None:
        try:
            for piece in pieces:
                if not self._put(piece):
                    return
        except Exception as error:  # noqa: BLE001  # raised again in the session's thread
            self._failed = error
        self._put(None)

    def _put(self, piece: Piece | None) -> bool:
        while not self._gone.is_set():
            try:
                self._queue.put(piece, timeout=PATIENCE)
            except Full:
                continue
            return True
        return False

    def __iter__(self) -> Iterator[Piece]:
        while (piece := self._queue.get()) is not None:
            yield piece
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        self._gone.set()
        while self._thread.is_alive():
            try:
                self._queue.get_nowait()
            except Empty:
                self._thread.join(PATIENCE)
