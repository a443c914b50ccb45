"""Finds the rows that the warehouse refuses, puts them aside with the reason, and amends their batch."""

from collections.abc import Callable, Iterator, Sequence
from posixpath import dirname
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from syncd.errors import FileRefused, RowRefused
from syncd.lake.amendment import Amendment
from syncd.lake.keys import AMENDED_PREFIX, batch_quarantine_prefix, target_copy_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.window_reads import Part
from syncd.redshift.amendments import Amendments
from syncd.redshift.apply_statements import LoadSqlBuilder
from syncd.redshift.copy_statement import ScratchLoad, copy_manifest_body
from syncd.redshift.error_table import object_key
from syncd.redshift.load_errors import LoadErrorReader
from syncd.redshift.load_transaction import LoadTarget, transaction
from syncd.redshift.quoting import TableRef, quote_name
from syncd.redshift.session import WarehouseSession
from syncd.redshift.split_file import AcceptedRowsFile, FileRefusals, RefusedFileRow, split_file
from syncd.redshift.target_table import ExistingTable
from syncd.s3.lake_client import S3Lake
from syncd.s3.ranged_file import open_part
from watermarks.batch import BatchLink
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from watermarks.batch import BatchId

SAMPLE_ROWS: Final = 5
"""Rows of a larger file that are tried one by one: where none of them lands, it is the table that is wrong."""
MAX_NAMED_FILE_TRIES: Final = 3
"""So often the file that the warehouse names is sifted alone; each time, the whole landing is tried once more."""
_RAISE_LIMIT_HINT: Final = "; or, where the rows are wrong, let more of a file be put aside (the table's `max_refused`)"
_TRIAL_TABLE: Final = TableRef(schema="", name="syncd_trial")


class RefusedRowFinder:
    """Sifts the files of one stream's batches."""

    def __init__(self, target: LoadTarget, *, lake: S3Lake, amendments: Amendments, nonce: Callable[[], str]) -> None:
        self._target = target
        self._lake = lake
        self._amendments = amendments
        self._nonce = nonce
        self._amend_count = 0
        self.trial_count = 0
        """Transactions of which nothing stayed, so far."""

    def amend(
        self, session: WarehouseSession, loads: Sequence[ScratchLoad], existing: ExistingTable, error: RowRefused
    ) -> None:
        """Find out which rows were meant, so that the next attempt lands the others.

        Raises:
            RowRefused: it is no single row, or too many of them.
        """
        links = {link.id: link for load in loads for link in load.links}
        if self._amendments.refresh(links.values()):
            return
        self._amend_count += 1
        named = str(error.facts.get("file", "")) if self._amend_count <= MAX_NAMED_FILE_TRIES else ""
        suspects = list(_suspect_files(loads, named)) or list(_suspect_files(loads, ""))
        refused: dict[BatchId, list[FileRefusals]] = {}
        for load, link, part in suspects:
            if rows := tuple(self._find_refused(session, load, part, existing, error)):
                refused.setdefault(link.id, []).append(FileRefusals(part, rows))
        if not refused:
            raise self._not_quarantined_error(error, "each of its rows lands alone")
        for batch, parts in refused.items():
            self._quarantine_rows(links[batch], parts)

    def _find_refused(
        self, session: WarehouseSession, load: ScratchLoad, part: Part, existing: ExistingTable, error: RowRefused
    ) -> Iterator[RefusedFileRow]:
        """The rows of a file that do not land, one row group after another: no more of it is held than one of them."""
        file = open_part(self._lake, part)
        most = self._target.settings.max_refused
        first = count = 0
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group)
            if not group and self._all_samples_refused(session, load, rows, existing):
                raise self._not_quarantined_error(error, f"none of {SAMPLE_ROWS} rows of {part.key} lands")
            for refused in self._bisect(session, load, rows, first, existing):
                count += 1
                if count > most:
                    found_out = f"more than {most} rows of {part.key} do not land"
                    raise self._not_quarantined_error(error, found_out, or_else=_RAISE_LIMIT_HINT)
                yield refused
            first += rows.num_rows

    def _not_quarantined_error(self, error: RowRefused, found: str, *, or_else: str = "") -> RowRefused:
        """What to tell where nothing is put aside: it is more than some rows that is wrong."""
        stream = self._target.control_tables.stream
        table = stream.table_name
        return RowRefused(
            f"{error.message}; {found}, and nothing was put aside",
            hint=f"Compare the target with its files (syncd plan -t {table}) and mend it{or_else}, then: syncd run -t"
            f" {table} --load-only",
            **error.facts,
        )

    def _all_samples_refused(
        self, session: WarehouseSession, load: ScratchLoad, rows: pa.Table, existing: ExistingTable
    ) -> bool:
        if rows.num_rows <= 2 * SAMPLE_ROWS:
            return False
        places = range(0, rows.num_rows, -(-rows.num_rows // SAMPLE_ROWS))
        return all(self._try_load(session, load, rows.slice(place, 1), existing) for place in places)

    def _bisect(
        self,
        session: WarehouseSession,
        load: ScratchLoad,
        rows: pa.Table,
        first: int,
        existing: ExistingTable,
        *,
        known: bool = False,
    ) -> Iterator[RefusedFileRow]:
        """The refused ones of some rows; of rows that are `known` to hold one, all are not tried at once again."""
        if rows.num_rows > 1:
            if not known and self._try_load(session, load, rows, existing) is None:
                return
            half = rows.num_rows // 2
            lands = True
            for refused in self._bisect(session, load, rows.slice(0, half), first, existing):
                lands = False
                yield refused
            # Where the first half lands, it is the second one that does not.
            yield from self._bisect(session, load, rows.slice(half), first + half, existing, known=lands)
        elif (error := self._try_load(session, load, rows, existing)) is not None:
            yield RefusedFileRow(first, _format_reason(error, self._find_column(session, load, rows, existing, error)))

    def _find_column(
        self, session: WarehouseSession, load: ScratchLoad, row: pa.Table, existing: ExistingTable, error: RowRefused
    ) -> str | None:
        """The column of a row that is refused: of a document the warehouse does not say it, and so it is tried."""
        if error.facts.get("column"):
            return str(error.facts["column"])
        for passage in load.columns:
            if passage.redshift == "SUPER" and row.column(passage.name).null_count == 0:
                place = row.schema.get_field_index(passage.name)
                nothing = pa.nulls(1, row.schema.field(place).type)
                without = row.set_column(place, row.schema.field(place), nothing)
                if self._try_load(session, load, without, existing) is None:
                    return passage.name
        return None

    def _try_load(
        self, session: WarehouseSession, load: ScratchLoad, rows: pa.Table, existing: ExistingTable
    ) -> RowRefused | None:
        """Why these rows do not land, tried in a transaction of which nothing stays; None where they do."""
        prefix = f"{target_copy_prefix(self._target.control_tables.stream)}trial-{self._nonce()}"
        with AcceptedRowsFile(self._lake.new_object(f"{prefix}.parquet"), load.columns) as clean:
            clean.write(rows)
            part = clean.close()
        self._lake.put(f"{prefix}.manifest", copy_manifest_body([(self._lake.address_of(part.key), part.bytes)]))
        trial = LoadSqlBuilder(table=_TRIAL_TABLE, existing=_loaded_columns(existing, load), loads=(load,))
        self.trial_count += 1
        try:
            with transaction(session):
                for statement in (
                    load.create_statement(),
                    load.copy_statement(self._lake.address_of(f"{prefix}.manifest"), self._target.copy_credentials()),
                    f"CREATE TEMP TABLE {_TRIAL_TABLE.sql} ({_column_definitions(trial.existing)})",
                    trial.insert(trial.select_all_rows()),
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
        """What was refused, in full; a value that the warehouse named is explained already."""
        if isinstance(error, RowRefused):
            return error
        stream = self._target.control_tables.stream
        return LoadErrorReader(session).explain(error, table=stream.table_name, keys=[key])

    def _quarantine_rows(self, link: BatchLink, parts: Sequence[FileRefusals]) -> None:
        """Write the rows that land and those that do not to files of their own, and say so in an amendment."""
        number = self._amendments.next_number(link)
        passages = Manifest.from_link(link).columns
        instead: dict[str, Part | None] = {}
        aside: list[Part] = []
        for one in parts:
            nonce = self._nonce()
            divided = split_file(
                self._lake,
                one,
                passages,
                accepted_key=f"{dirname(one.part.key)}/{AMENDED_PREFIX}{number}-{nonce}.parquet",
                refused_key=f"{batch_quarantine_prefix(link.stream, link.id)}{AMENDED_PREFIX}{number}-{nonce}.parquet",
            )
            instead[one.part.key] = divided.accepted
            aside.append(divided.refused)
        mine = Amendment(
            stream=link.stream,
            batch=link.id,
            nonce=self._nonce(),
            replacements=instead,
            refused_parts=tuple(aside),
        )
        if self._amendments.create(link, mine, reason=parts[0].rows[0].reason) is not mine:
            # Another loader was quicker: its files stand, ours never will.
            self._lake.delete_objects([part.key for part in (*instead.values(), *aside) if part is not None])


def _suspect_files(loads: Sequence[ScratchLoad], file: str) -> Iterator[tuple[ScratchLoad, BatchLink, Part]]:
    """The files that can have been meant: the one that was named, or all."""
    for load in loads:
        for link, manifest in zip(load.links, load.manifests, strict=True):
            yield from ((load, link, part) for part in manifest.parts if not file or file.endswith(part.key))


def _loaded_columns(existing: ExistingTable, load: ScratchLoad) -> ExistingTable:
    """The target's columns that the load fills."""
    return ExistingTable(
        columns={name: column for name, column in existing.columns.items() if name in load.column_names}
    )


def _column_definitions(existing: ExistingTable) -> str:
    demands = {
        name: " NOT NULL" if column.not_null and not column.has_default else ""
        for name, column in existing.columns.items()
    }
    return ", ".join(f"{quote_name(name)} {column.type}{demands[name]}" for name, column in existing.columns.items())


def _format_reason(error: RowRefused, column: str | None) -> str:
    """Why, in the words of a person who will look for the row: its column first, where one is known."""
    if "size" in error.facts and "width" in error.facts:
        return f"{column}: {error.facts['size']} bytes, the column holds {error.facts['width']}"
    said = str(error.facts.get("reason", error.message))
    return f"{column}: {said}" if column else said
