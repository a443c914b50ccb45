"""Search for the rows that the warehouse refuses; they are quarantined with the reason, and their batch is amended."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from posixpath import dirname
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from syncd.datatypes.columns import ColumnMapping
from syncd.errors import FileRefused, RowRefused
from syncd.lake.amendment import Amendment
from syncd.lake.manifest import Manifest
from syncd.lake.object_keys import AMENDED_PREFIX, batch_quarantine_prefix, target_copy_prefix
from syncd.lake.read_requests import Part
from syncd.redshift.amendments import Amendments
from syncd.redshift.error_table import object_key
from syncd.redshift.load_errors import LoadErrorReader
from syncd.redshift.load_transaction import transaction
from syncd.redshift.quoting import TableRef, quote_name
from syncd.redshift.scratch_tables import ScratchLoad, ScratchRows, copy_manifest_body
from syncd.redshift.session import WarehouseSession
from syncd.redshift.split_file import AcceptedRowsFile, FileRefusals, RefusedFileRow, split_file
from syncd.redshift.target_resolver import LoadTarget
from syncd.redshift.target_table import ExistingTable
from syncd.s3.lake_client import S3Lake
from syncd.s3.parquet_reader import ParquetPart
from watermarks.batch import BatchLink
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from watermarks.batch import BatchId

SAMPLE_ROWS: Final = 5
"""Rows of a larger file that are tried one by one: where all are refused, the table is wrong."""
MAX_NAMED_FILE_TRIES: Final = 3
"""Number of times that only the file named by the warehouse is searched; each time the whole load is retried."""
_RAISE_LIMIT_HINT: Final = "; or, where the rows are wrong, allow more of them (the table's `max_refused`)"
_TRIAL_TABLE: Final = TableRef(schema="", name="syncd_trial")

TryLoad: TypeAlias = Callable[[pa.Table], RowRefused | None]
"""Returns the error for some rows, or None where they are accepted."""


class RefusedRowFinder:
    """Search in the files of one stream's batches."""

    def __init__(self, target: LoadTarget, *, lake: S3Lake, amendments: Amendments, nonce: Callable[[], str]) -> None:
        self._target = target
        self._lake = lake
        self._amendments = amendments
        self._nonce = nonce
        self._amend_count = 0
        self.trial_count = 0
        """The number of transactions that were tried and rolled back."""

    def amend(
        self, session: WarehouseSession, loads: Sequence[ScratchLoad], existing: ExistingTable, error: RowRefused
    ) -> None:
        """Quarantine the refused rows, so that the next attempt loads the others.

        Raises:
            RowRefused: no single row is refused, or too many are.
        """
        links = {link.id: link for load in loads for link in load.links}
        if self._amendments.refresh(links.values()):
            return
        self._amend_count += 1
        named_file = str(error.facts.get("file", "")) if self._amend_count <= MAX_NAMED_FILE_TRIES else ""
        suspects = list(_suspect_files(loads, named_file)) or list(_suspect_files(loads, ""))
        refused: dict[BatchId, list[FileRefusals]] = {}
        for load, link, part in suspects:
            try_load = partial(self._try_load, session, load, existing)
            if rows := tuple(self._find_refused(try_load, part, load.columns, error)):
                refused.setdefault(link.id, []).append(FileRefusals(part, rows))
        if not refused:
            raise self._not_quarantined_error(error, "each of its rows is accepted alone")
        for batch, parts in refused.items():
            self._quarantine_rows(links[batch], parts)

    def _find_refused(
        self, try_load: TryLoad, part: Part, columns: Sequence[ColumnMapping], error: RowRefused
    ) -> Iterator[RefusedFileRow]:
        """Yield the refused rows of a file, one row group after another, so that only one is in memory."""
        limit = self._target.settings.max_refused
        first = count = 0
        for rows in ParquetPart(self._lake, part).read_row_groups():
            if not first and _all_samples_refused(try_load, rows):
                raise self._not_quarantined_error(error, f"none of {SAMPLE_ROWS} rows of {part.key} is accepted")
            for row, refusal in _bisect(try_load, rows):
                count += 1
                if count > limit:
                    finding = f"more than {limit} rows of {part.key} are refused"
                    raise self._not_quarantined_error(error, finding, or_else=_RAISE_LIMIT_HINT)
                column = _find_column(try_load, rows.slice(row, 1), columns, refusal)
                yield RefusedFileRow(first + row, _format_reason(refusal, column))
            first += rows.num_rows

    def _not_quarantined_error(self, error: RowRefused, finding: str, *, or_else: str = "") -> RowRefused:
        """Return the error where nothing is quarantined, because more than a few rows are wrong."""
        table = self._target.control_tables.stream.table_name
        return RowRefused(
            f"{error.message}; {finding}, and nothing was quarantined",
            hint=f"Compare the target with its files (syncd plan -t {table}) and correct it{or_else}, then:"
            f" syncd run -t {table} --load-only",
            **error.facts,
        )

    def _try_load(
        self, session: WarehouseSession, load: ScratchLoad, existing: ExistingTable, rows: pa.Table
    ) -> RowRefused | None:
        """Try rows in a transaction that is rolled back; return the error, or None where they are accepted."""
        prefix = f"{target_copy_prefix(self._target.control_tables.stream)}trial-{self._nonce()}"
        with AcceptedRowsFile(self._lake.new_object(f"{prefix}.parquet"), load.columns) as file:
            file.write(rows)
            part = file.close()
        self._lake.put(f"{prefix}.manifest", copy_manifest_body([(self._lake.address_of(part.key), part.bytes)]))
        columns = {name: column for name, column in existing.columns.items() if name in load.column_names}
        trial = ScratchRows(existing=ExistingTable(columns=columns), loads=(load,))
        self.trial_count += 1
        try:
            with transaction(session):
                for statement in (
                    load.create_statement(),
                    load.copy_statement(self._lake.address_of(f"{prefix}.manifest"), self._target.copy_credentials()),
                    f"CREATE TEMP TABLE {_TRIAL_TABLE.sql} ({_column_definitions(trial.existing)})",
                    trial.insert(_TRIAL_TABLE, trial.select_all()),
                ):
                    session.run(statement, within=self._target.statement_timeout)
        except (RowRefused, FileRefused) as error:
            explained = self._explain(session, error, object_key(self._lake.address_of(part.key)))
            if not isinstance(explained, RowRefused):
                raise explained from error
            return explained
        finally:
            self._lake.delete_objects([f"{prefix}.parquet", f"{prefix}.manifest"])
        return None

    def _explain(self, session: WarehouseSession, error: RowRefused | FileRefused, key: str) -> HintedError:
        """Return the error with all that is known of it; an error that names the value is complete."""
        if isinstance(error, RowRefused):
            return error
        stream = self._target.control_tables.stream
        return LoadErrorReader(session).explain(error, table=stream.table_name, keys=[key])

    def _quarantine_rows(self, link: BatchLink, parts: Sequence[FileRefusals]) -> None:
        """Write accepted and refused rows to new files, and create the amendment that names them."""
        number = self._amendments.next_number(link)
        mappings = Manifest.from_link(link).columns
        replacements: dict[str, Part | None] = {}
        refused: list[Part] = []
        for refusals in parts:
            name = f"{AMENDED_PREFIX}{number}-{self._nonce()}.parquet"
            split = split_file(
                self._lake,
                refusals,
                mappings,
                accepted_key=f"{dirname(refusals.part.key)}/{name}",
                refused_key=f"{batch_quarantine_prefix(link.stream, link.id)}{name}",
            )
            replacements[refusals.part.key] = split.accepted
            refused.append(split.refused)
        amendment = Amendment(
            stream=link.stream,
            batch=link.id,
            nonce=self._nonce(),
            replacements=replacements,
            refused_parts=tuple(refused),
        )
        if self._amendments.create(link, amendment, reason=parts[0].rows[0].reason) is not amendment:
            # Another loader was first: its files count, and ours are not needed.
            self._lake.delete_objects([part.key for part in (*replacements.values(), *refused) if part is not None])


def _all_samples_refused(try_load: TryLoad, rows: pa.Table) -> bool:
    if rows.num_rows <= 2 * SAMPLE_ROWS:
        return False
    sample = range(0, rows.num_rows, -(-rows.num_rows // SAMPLE_ROWS))
    return all(try_load(rows.slice(row, 1)) for row in sample)


def _bisect(
    try_load: TryLoad, rows: pa.Table, first: int = 0, *, known: bool = False
) -> Iterator[tuple[int, RowRefused]]:
    """Yield the numbers of the refused rows; rows `known` to contain one are not tried together again."""
    if rows.num_rows > 1:
        if not known and try_load(rows) is None:
            return
        half = rows.num_rows // 2
        accepted = True
        for refused in _bisect(try_load, rows.slice(0, half), first):
            accepted = False
            yield refused
        # Where the first half is accepted, the second one is refused.
        yield from _bisect(try_load, rows.slice(half), first + half, known=accepted)
    elif (error := try_load(rows)) is not None:
        yield first, error


def _find_column(try_load: TryLoad, row: pa.Table, columns: Sequence[ColumnMapping], error: RowRefused) -> str | None:
    """Return the column of a refused row. For a document the warehouse names none, so each document is tried."""
    if error.facts.get("column"):
        return str(error.facts["column"])
    for mapping in columns:
        if mapping.redshift == "SUPER" and row.column(mapping.name).null_count == 0:
            index = row.schema.get_field_index(mapping.name)
            null = pa.nulls(1, row.schema.field(index).type)
            if try_load(row.set_column(index, row.schema.field(index), null)) is None:
                return mapping.name
    return None


def _suspect_files(loads: Sequence[ScratchLoad], file: str) -> Iterator[tuple[ScratchLoad, BatchLink, Part]]:
    """Yield the files that may hold refused rows: the named one, or all."""
    for load in loads:
        for link, manifest in zip(load.links, load.manifests, strict=True):
            yield from ((load, link, part) for part in manifest.parts if not file or file.endswith(part.key))


def _column_definitions(existing: ExistingTable) -> str:
    return ", ".join(
        f"{quote_name(name)} {column.type}" + (" NOT NULL" if column.not_null and not column.has_default else "")
        for name, column in existing.columns.items()
    )


def _format_reason(error: RowRefused, column: str | None) -> str:
    """Return the reason for a reader who searches the row, with its column first where one is known."""
    if "size" in error.facts and "width" in error.facts:
        return f"{column}: {error.facts['size']} bytes, the column takes at most {error.facts['width']}"
    reason = str(error.facts.get("reason", error.message))
    return f"{column}: {reason}" if column else reason
