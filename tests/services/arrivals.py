"""What a loader would make of the files of one stream: the newest version of each row, looked at again and again."""

from dataclasses import dataclass, field
from typing import Any

from tests.services.chain_check import Lake


@dataclass(slots=True)
class Arrivals:
    """The version of each row that stands, by the rule of the loader; every look reads only what is new.

    The batch read last wins, and within one the higher cursor: a version that never goes down proves nothing of
    that rule, and so the highest one is not taken for the newest.
    """

    lake: Lake
    stream: str
    versions: dict[int, int] = field(default_factory=dict[int, int])
    links: int = 0
    rows: int = 0

    @classmethod
    def of(cls, lake: Lake, stream: str) -> "Arrivals":
        """Everything that stands by now."""
        found = cls(lake, stream)
        found.look()
        return found

    def look(self) -> None:
        """Take up the links that came since the last look."""
        while (link := self._link(self.links + 1)) is not None:
            batch = dict[int, tuple[Any, int]]()
            for part in link["body"].get("parts", ()):
                for row, version, at in self.lake.rows_of(part, ("id", "v", "update_at")):
                    self.rows += 1
                    batch[row] = max((at, version), batch.get(row, (at, version)))
            self.versions.update((row, version) for row, (_, version) in batch.items())
            self.links += 1

    def _link(self, number: int) -> dict[str, Any] | None:
        key = f"batches/{self.stream}/1-{number}.json"
        return self.lake.document(key) if self.lake.keys(key) else None
