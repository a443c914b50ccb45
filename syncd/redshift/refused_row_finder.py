"""Finds the rows that the warehouse refuses, puts them aside with the reason, and amends their batch."""

from collections.abc import Callable, Iterator, Sequence
from posixpath import dirname
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from syncd.errors import FileRefused, RowRefused
from syncd.lake.amendment import Amendment
from syncd.lake.keys import AMENDED, copy_prefix, quarantine_prefix
from syncd.lake.manifest import Manifest
from syncd.lake.window_reads import Part
from syncd.redshift.amendments import Amendments
from syncd.redshift.apply_statements import Landing
from syncd.redshift.copy_statement import Load, manifest_body
from syncd.redshift.error_table import key_of
from syncd.redshift.load_errors import LoadErrors
from syncd.redshift.load_transaction import Place, transaction
from syncd.redshift.quoting import TableRef, quoted
from syncd.redshift.session import Session
from syncd.redshift.split_file import CleanFile, Refused, Sifted, divide
from syncd.redshift.target_table import Found
from syncd.s3.lake_client import Lake
from syncd.s3.ranged_file import opened
from watermarks.batch import Link
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from watermarks.batch import BatchId

SAMPLES: Final = 5
"""Rows of a larger file that are tried one by one: where none of them lands, it is the table that is wrong."""
NAMED: Final = 3
"""So often the file that the warehouse names is sifted alone; each time, the whole landing is tried once more."""
_RAISED: Final = "; or, where the rows are wrong, let more of a file be put aside (the table's `max_refused`)"
_TRIAL: Final = TableRef(schema="", name="syncd_trial")


class Sieve:
    """Sifts the files of one stream's batches."""

    def __init__(self, place: Place, *, lake: Lake, amendments: Amendments, nonce: Callable[[], str]) -> None:
        self._place = place
        self._lake = lake
        self._amendments = amendments
        self._nonce = nonce
        self._asked = 0
        self.trials = 0
        """Transactions of which nothing stayed, so far."""

    def amend(self, session: Session, loads: Sequence[Load], found: Found, error: RowRefused) -> None:
        """Find out which rows were meant, so that the next attempt lands the others.

        Raises:
            RowRefused: it is no single row, or too many of them.
        """
        links = {link.id: link for load in loads for link in load.links}
        if self._amendments.learn(links.values()):
            return
        self._asked += 1
        named = str(error.facts.get("file", "")) if self._asked <= NAMED else ""
        suspects = list(_suspects(loads, named)) or list(_suspects(loads, ""))
        refused: dict[BatchId, list[Sifted]] = {}
        for load, link, part in suspects:
            if rows := tuple(self._sifted(session, load, part, found, error)):
                refused.setdefault(link.id, []).append(Sifted(part, rows))
        if not refused:
            raise self._left(error, "each of its rows lands alone")
        for batch, parts in refused.items():
            self._put_aside(links[batch], parts)

    def _sifted(self, session: Session, load: Load, part: Part, found: Found, error: RowRefused) -> Iterator[Refused]:
        """The rows of a file that do not land, one row group after another: no more of it is held than one of them."""
        file = opened(self._lake, part)
        most = self._place.settings.max_refused
        first = count = 0
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group)
            if not group and self._none_lands(session, load, rows, found):
                raise self._left(error, f"none of {SAMPLES} rows of {part.key} lands")
            for refused in self._halved(session, load, rows, first, found):
                count += 1
                if count > most:
                    found_out = f"more than {most} rows of {part.key} do not land"
                    raise self._left(error, found_out, or_else=_RAISED)
                yield refused
            first += rows.num_rows

    def _left(self, error: RowRefused, found: str, *, or_else: str = "") -> RowRefused:
        """What to tell where nothing is put aside: it is more than some rows that is wrong."""
        stream = self._place.controls.stream
        table = f"{stream.database}.{stream.table}"
        return RowRefused(
            f"{error.message}; {found}, and nothing was put aside",
            hint=f"Compare the target with its files (syncd plan -t {table}) and mend it{or_else}, then: syncd run -t"
            f" {table} --load-only",
            **error.facts,
        )

    def _none_lands(self, session: Session, load: Load, rows: pa.Table, found: Found) -> bool:
        if rows.num_rows <= 2 * SAMPLES:
            return False
        places = range(0, rows.num_rows, -(-rows.num_rows // SAMPLES))
        return all(self._tried(session, load, rows.slice(place, 1), found) for place in places)

    def _halved(
        self, session: Session, load: Load, rows: pa.Table, first: int, found: Found, *, known: bool = False
    ) -> Iterator[Refused]:
        """The refused ones of some rows; of rows that are `known` to hold one, all are not tried at once again."""
        if rows.num_rows > 1:
            if not known and self._tried(session, load, rows, found) is None:
                return
            half = rows.num_rows // 2
            lands = True
            for refused in self._halved(session, load, rows.slice(0, half), first, found):
                lands = False
                yield refused
            # Where the first half lands, it is the second one that does not.
            yield from self._halved(session, load, rows.slice(half), first + half, found, known=lands)
        elif (error := self._tried(session, load, rows, found)) is not None:
            yield Refused(first, _told(error, self._column(session, load, rows, found, error)))

    def _column(self, session: Session, load: Load, row: pa.Table, found: Found, error: RowRefused) -> str | None:
        """The column of a row that is refused: of a document the warehouse does not say it, and so it is tried."""
        if error.facts.get("column"):
            return str(error.facts["column"])
        for passage in load.passages:
            if passage.redshift == "SUPER" and row.column(passage.name).null_count == 0:
                place = row.schema.get_field_index(passage.name)
                nothing = pa.nulls(1, row.schema.field(place).type)
                without = row.set_column(place, row.schema.field(place), nothing)
                if self._tried(session, load, without, found) is None:
                    return passage.name
        return None

    def _tried(self, session: Session, load: Load, rows: pa.Table, found: Found) -> RowRefused | None:
        """Why these rows do not land, tried in a transaction of which nothing stays; None where they do."""
        prefix = f"{copy_prefix(self._place.controls.stream)}trial-{self._nonce()}"
        with CleanFile(self._lake.new(f"{prefix}.parquet"), load.passages) as clean:
            clean.write(rows)
            part = clean.close()
        self._lake.put(f"{prefix}.manifest", manifest_body([(self._lake.at(part.key), part.bytes)]))
        trial = Landing(table=_TRIAL, found=_without_strangers(found, load), loads=(load,))
        self.trials += 1
        try:
            with transaction(session):
                for statement in (
                    load.create(),
                    load.copy(self._lake.at(f"{prefix}.manifest"), self._place.credentials()),
                    f"CREATE TEMP TABLE {_TRIAL.sql} ({_declared(trial.found)})",
                    trial.insert(trial.merged()),
                ):
                    session.run(statement, within=self._place.longest)
        except (RowRefused, FileRefused) as error:
            explained = self._explained(session, error, key_of(self._lake.at(part.key)))
            if not isinstance(explained, RowRefused):
                raise explained from error
            return explained
        finally:
            self._lake.drop([f"{prefix}.parquet", f"{prefix}.manifest"])
        return None

    def _explained(self, session: Session, error: RowRefused | FileRefused, key: str) -> HintedError:
        """What was refused, in full; a value that the warehouse named is explained already."""
        if isinstance(error, RowRefused):
            return error
        stream = self._place.controls.stream
        return LoadErrors(session).explained(error, table=f"{stream.database}.{stream.table}", keys=[key])

    def _put_aside(self, link: Link, parts: Sequence[Sifted]) -> None:
        """Write the rows that land and those that do not to files of their own, and say so in an amendment."""
        number = self._amendments.next_of(link)
        passages = Manifest.of_link(link).passages
        instead: dict[str, Part | None] = {}
        aside: list[Part] = []
        for one in parts:
            nonce = self._nonce()
            divided = divide(
                self._lake,
                one,
                passages,
                kept=f"{dirname(one.part.key)}/{AMENDED}{number}-{nonce}.parquet",
                refused=f"{quarantine_prefix(link.stream, link.id)}{AMENDED}{number}-{nonce}.parquet",
            )
            instead[one.part.key] = divided.kept
            aside.append(divided.refused)
        mine = Amendment(
            stream=link.stream,
            batch=link.id,
            nonce=self._nonce(),
            instead=instead,
            refused=tuple(aside),
        )
        if self._amendments.make(link, mine, reason=parts[0].refused[0].reason) is not mine:
            # Another loader was quicker: its files stand, ours never will.
            self._lake.drop([part.key for part in (*instead.values(), *aside) if part is not None])


def _suspects(loads: Sequence[Load], file: str) -> Iterator[tuple[Load, Link, Part]]:
    """The files that can have been meant: the one that was named, or all."""
    for load in loads:
        for link, manifest in zip(load.links, load.manifests, strict=True):
            yield from ((load, link, part) for part in manifest.parts if not file or file.endswith(part.key))


def _without_strangers(found: Found, load: Load) -> Found:
    """The target's columns that the load fills."""
    return Found(columns={name: column for name, column in found.columns.items() if name in load.names})


def _declared(found: Found) -> str:
    demands = {
        name: " NOT NULL" if column.not_null and not column.default else "" for name, column in found.columns.items()
    }
    return ", ".join(f"{quoted(name)} {column.type}{demands[name]}" for name, column in found.columns.items())


def _told(error: RowRefused, column: str | None) -> str:
    """Why, in the words of a person who will look for the row: its column first, where one is known."""
    if "size" in error.facts and "width" in error.facts:
        return f"{column}: {error.facts['size']} bytes, the column holds {error.facts['width']}"
    said = str(error.facts.get("reason", error.message))
    return f"{column}: {said}" if column else said
