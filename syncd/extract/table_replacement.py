"""Asks which table a stream's name leads to, and whether rows stand in it that no batch will read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from syncd.datatypes.source_table import Table
from syncd.errors import SourceUnfit
from syncd.mysql.sql import MARIADB, any_upto, partition_of, table_numbers
from syncd.ports.source import Source
from syncd.tables.sort_order import Order
from syncd.tables.table_identity import MOST_PARTITIONS, Made
from watermarks.batch import BatchId, Kind, Link, Plan
from watermarks.progress import Extracted


class Links(Protocol):
    """The chain as it stands; `watermarks.Chain` is one."""

    def link(self, batch: BatchId) -> Link | None: ...


@dataclass(kw_only=True)
class Remaking:
    """What is known of the table of one stream, from the plan before and over the batches of one run."""

    source: Source
    links: Links
    _known: dict[BatchId, Made] = field(default_factory=dict[BatchId, Made])
    """By the number of the plan that said so; one that was proposed and not sealed may be among them."""

    def told(self, plan: Plan) -> None:
        """What a plan of an earlier run knew."""
        self._known.setdefault(plan.id, Made.of_plan(plan))

    def look(self, order: Order, table: Table, seen: Made, chain: Extracted, *, now: datetime) -> Made:
        """Which table it is now, for the next plan, of one whose server and time of making were `seen`.

        Of rows at or below what is read there is nothing to tell where the other table has none.
        """
        made = self._known[chain.next] = self._looked(order, table, seen, chain, now=now)
        return made

    def _looked(self, order: Order, table: Table, seen: Made, chain: Extracted, *, now: datetime) -> Made:
        at = max((batch for batch in self._known if batch <= chain.last), default=None)
        if at is None or at.generation != chain.generation:
            return replace(seen.at(now), numbers=frozenset(self._numbers(table, seen.identity) or ()) or None)
        before = self._known[at]
        remade = before.remade
        if remade == at and self._is_abandoned(at):
            remade = chain.next  # nobody is told of it by a batch that came to nothing
        if before.is_known(seen, now=now):
            return replace(before, remade=remade)
        numbers = self._numbers(table, seen.identity)
        made = replace(seen.at(now), numbers=frozenset(numbers) if numbers else None, remade=remade)
        others = made.others(before)
        names = [name for number, name in (numbers or {}).items() if others is not None and number in others]
        if others is None or names:
            made = replace(made, remade=chain.next if self._holds_rows(order, chain, names) else remade)
        return made

    def _is_abandoned(self, batch: BatchId) -> bool:
        link = self.links.link(batch)
        return link is None or link.kind is Kind.ABANDONED

    def _holds_rows(self, order: Order, chain: Extracted, names: list[str]) -> bool:
        """Whether there is a row at or below what is read, in what these names stand for; of none, in all of it."""
        partitions = [partition_of(name) for name in names]
        only = [each for each in partitions if each is not None] if None not in partitions else []
        snapshot = chain.snapshot
        if snapshot is not None and not snapshot.done:
            asked = any_upto(order, order.key, order.key_index, snapshot.reached, partitions=only)
        else:
            asked = any_upto(order, order.columns, order.index, chain.cursor, partitions=only)
        return bool(self.source.rows(asked))

    def _numbers(self, table: Table, identity: str) -> Mapping[str, str] | None:
        """InnoDB's names of the table and its partitions, by number; None where these are not told, or too many."""
        mariadb = identity.startswith(MARIADB)
        sql = table_numbers(table.database, table.name, mariadb=mariadb, partitioned=table.partitioned)
        if sql is None:
            return None
        try:
            rows = self.source.rows(sql)
        except SourceUnfit:
            return None  # without the right PROCESS
        return {str(number): _text(name) for number, name in rows} if 0 < len(rows) <= MOST_PARTITIONS else None


def _text(name: object) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
