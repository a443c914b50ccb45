"""The source: keys whose rows change in transactions that are stamped first and committed later."""

from dataclasses import dataclass, field
from random import Random

KEYS = 4


@dataclass
class Row:
    """The newest committed version of a key."""

    stamp: int
    version: int


@dataclass
class Open:
    """A transaction: stamped at its start, touching its row some time after, visible at its end."""

    stamp: int
    key: int
    version: int | None = None


@dataclass
class Source:
    """A table of four hot keys and a clock."""

    now: int = 1
    identity: int = 1
    rows: dict[int, Row] = field(default_factory=dict)
    open: list[Open] = field(default_factory=list)
    _locked: dict[int, Open] = field(default_factory=dict)
    _versions: int = 0

    def happen(self, random: Random) -> None:
        """One event: time passes, a transaction begins, touches its row, or commits; rarely, a failover."""
        chance = random.random()
        if chance < 0.35:
            self.now += 1
        elif chance < 0.6 and len(self.open) < 3:
            self.open.append(Open(self.now, min(random.randrange(KEYS), random.randrange(KEYS))))
        elif self.open:
            self._go_on(random.choice(self.open))
        if random.random() < 0.01:
            self.identity += 1

    def _go_on(self, one: Open) -> None:
        if one.version is not None:
            self._commit(one)
        elif one.key not in self._locked:
            self._locked[one.key] = one
            self._versions += 1
            one.version = self._versions

    def _commit(self, one: Open) -> None:
        assert one.version is not None
        self.rows[one.key] = Row(one.stamp, one.version)
        self._locked.pop(one.key)
        self.open.remove(one)

    def rest(self) -> None:
        """Everything that is open ends, and time goes on past it."""
        for one in list(self.open):
            if one.version is not None:
                self._commit(one)
        self.open.clear()
        self.now += 3

    def horizon(self) -> int:
        """No open transaction can still commit a stamp below this."""
        return min([self.now, *(one.stamp for one in self.open)])
