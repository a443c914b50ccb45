"""Asks which table a stream's name leads to, and whether rows stand in it that no batch will read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from syncd.datatypes.mysql_quoting import decode_text
from syncd.datatypes.source_table import SourceTable
from syncd.errors import SourceUnfit
from syncd.mysql.sql import MARIADB_IDENTITY_PREFIX, any_row_upto_sql, parse_partition, table_ids_sql
from syncd.ports.source import SourceDatabase
from syncd.tables.sort_order import StreamOrder
from syncd.tables.table_identity import MAX_PARTITIONS, TableIncarnation
from watermarks.batch import BatchId, BatchKind, BatchLink, Plan
from watermarks.progress import ExtractProgress


class BatchLinkLookup(Protocol):
    """The chain as it stands; `watermarks.Chain` is one."""

    def read_link(self, batch: BatchId) -> BatchLink | None: ...


@dataclass(kw_only=True)
class RemadeTableDetector:
    """What is known of the table of one stream, from the plan before and over the batches of one run."""

    source: SourceDatabase
    links: BatchLinkLookup
    _known_by_batch: dict[BatchId, TableIncarnation] = field(default_factory=dict[BatchId, TableIncarnation])
    """By the number of the plan that said so; one that was proposed and not sealed may be among them."""

    def remember_plan(self, plan: Plan) -> None:
        """What a plan of an earlier run knew."""
        self._known_by_batch.setdefault(plan.id, TableIncarnation.from_plan(plan))

    def detect(
        self,
        order: StreamOrder,
        table: SourceTable,
        observed: TableIncarnation,
        chain: ExtractProgress,
        *,
        now: datetime,
    ) -> TableIncarnation:
        """Which table it is now, for the next plan, of one whose server and time of making were `seen`.

        Of rows at or below what is read there is nothing to tell where the other table has none.
        """
        made = self._known_by_batch[chain.next_batch] = self._detect(order, table, observed, chain, now=now)
        return made

    def _detect(
        self,
        order: StreamOrder,
        table: SourceTable,
        observed: TableIncarnation,
        chain: ExtractProgress,
        *,
        now: datetime,
    ) -> TableIncarnation:
        at = max((batch for batch in self._known_by_batch if batch <= chain.last_batch), default=None)
        if at is None or at.generation != chain.generation:
            return replace(
                observed.with_checked_at(now),
                innodb_ids=frozenset(self._read_table_ids(table, observed.identity) or ()) or None,
            )
        before = self._known_by_batch[at]
        remade = before.replaced_in
        if remade == at and self._is_abandoned(at):
            remade = chain.next_batch  # nobody is told of it by a batch that came to nothing
        if before.has_current_ids(observed, now=now):
            return replace(before, replaced_in=remade)
        numbers = self._read_table_ids(table, observed.identity)
        made = replace(
            observed.with_checked_at(now), innodb_ids=frozenset(numbers) if numbers else None, replaced_in=remade
        )
        others = made.new_innodb_ids(before)
        names = [name for number, name in (numbers or {}).items() if others is not None and number in others]
        if others is None or names:
            made = replace(made, replaced_in=chain.next_batch if self._has_rows(order, chain, names) else remade)
        return made

    def _is_abandoned(self, batch: BatchId) -> bool:
        link = self.links.read_link(batch)
        return link is None or link.kind is BatchKind.ABANDONED

    def _has_rows(self, order: StreamOrder, chain: ExtractProgress, names: list[str]) -> bool:
        """Whether there is a row at or below what is read, in what these names stand for; of none, in all of it."""
        partitions = [parse_partition(name) for name in names]
        only = [each for each in partitions if each is not None] if None not in partitions else []
        snapshot = chain.snapshot
        if snapshot is not None and not snapshot.done:
            asked = any_row_upto_sql(order, order.key, order.key_index, snapshot.reached_key, partitions=only)
        else:
            asked = any_row_upto_sql(order, order.columns, order.index, chain.cursor, partitions=only)
        return bool(self.source.fetch_rows(asked))

    def _read_table_ids(self, table: SourceTable, identity: str) -> Mapping[str, str] | None:
        """InnoDB's names of the table and its partitions, by number; None where these are not told, or too many."""
        mariadb = identity.startswith(MARIADB_IDENTITY_PREFIX)
        sql = table_ids_sql(table.database, table.name, mariadb=mariadb, partitioned=table.partitioned)
        if sql is None:
            return None
        try:
            rows = self.source.fetch_rows(sql)
        except SourceUnfit:
            return None  # without the right PROCESS
        return {str(number): decode_text(name) for number, name in rows} if 0 < len(rows) <= MAX_PARTITIONS else None
