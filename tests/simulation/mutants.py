"""Planted faults: the library with one rule of the protocol left out, each of which the state machine must catch.

python -m tests.simulation.mutants [NAME ...]   plays each, and tells after how long it was caught
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Edit:
    """One place of the library's text, and what it says instead."""

    file: str
    text: str
    instead: str


MUTANTS: dict[str, tuple[Edit, ...]] = {
    "document before entry": (
        Edit(
            "history.py",
            "            kept = self._sent(entry)\n            if kept.ours:\n                self._cache(seen, entry)\n",
            "            self._cache(seen, entry)\n            kept = self._sent(entry)\n            if kept.ours:\n",
        ),
    ),
    "no roll-forward": (
        Edit("history.py", "            self._roll_forward(stem, seen, entry.revision, kept.body)\n", ""),
    ),
    "own write not recognised": (Edit("store.py", "ours=there.body == body)", "ours=False)"),),
    "link of another not adopted": (
        Edit(
            "extraction.py",
            "return link if kept.ours else Link.of_bytes(kept.body",
            "return link if link else Link.of_bytes(kept.body",
        ),
    ),
    "plan of another not adopted": (
        Edit(
            "extraction.py",
            "return plan if kept.ours else Plan.of_bytes(kept.body",
            "return plan if plan else Plan.of_bytes(kept.body",
        ),
    ),
    "mark before link": (
        Edit("extraction.py", "        link = self.chain.close(mine)\n", "        link = mine\n"),
        Edit(
            "extraction.py",
            "        return Turn(state=_end_of(link), link=link, watermark=self._advance(link, timed))\n",
            "        moved = self._advance(link, timed)\n"
            "        self.chain.close(link)\n"
            "        return Turn(state=_end_of(link), link=link, watermark=moved)\n",
        ),
    ),
    "mark before ledger": (
        Edit(
            "landing.py",
            "        brought = self._land(cycle)\n",
            "        self._advance(cycle, links, {link.id: Brought(rows=link.rows) for link in links}, run, seen)\n"
            "        brought = self._land(cycle)\n",
        ),
    ),
    "fence: epoch at least": (
        Edit("landing.py", "    if stored > epoch:\n", "    if stored < 0:\n"),
        Edit("landing.py", "    return stored != epoch\n", "    return stored < epoch\n"),
    ),
    "entries of an older epoch": (Edit("lease.py", "    if found != epoch:\n", "    if found < epoch:\n"),),
    "gap in seq": (
        Edit(
            "landing.py",
            "islice(extracted.ids(after=state.loaded.last), most)",
            "islice(extracted.ids(after=state.loaded.last), 0, 2 * most, 2)",
        ),
    ),
    "mark past what landed": (
        Edit(
            "landing.py",
            "landed = tuple(takewhile(lambda link: link.id in brought, links))",
            "landed, brought = links, {link.id: Brought(rows=link.rows) for link in links}",
        ),
    ),
    "ledger without load generation": (
        Edit(
            "landing.py",
            "load_generation=self.half.landed_under(batch), batch=batch)",
            "load_generation=1, batch=batch)",
        ),
    ),
    "ledger not asked": (
        Edit("landing.py", "for link in self.due if self.key(link.id) not in ledger)", "for link in self.due)"),
    ),
    "window forgets the key": (
        Edit(
            "window.py",
            "return self.low < cursor <= self.high",
            "return Cursor(self.low.values[:1]) < Cursor(cursor.values[:1]) and cursor <= self.high",
        ),
    ),
    "abandonment at no key": (
        Edit(
            "extraction.py",
            "        kept = put_once(self._store, link_key(self.stream, link.id), link.to_bytes())\n",
            "        if link.kind is Kind.ABANDONED:\n            return link\n"
            "        kept = put_once(self._store, link_key(self.stream, link.id), link.to_bytes())\n",
        ),
    ),
    "closed generation not landed": (
        Edit("halves.py", "in (*sorted(self.closed), self.generation):", "in (self.generation,):"),
    ),
    "load generation not raised": (
        Edit(
            "halves.py",
            "load_generation=self.load_generation + 1,\n            cursor=cursor",
            "load_generation=self.load_generation,\n            cursor=cursor",
        ),
    ),
    "generation not closed": (Edit("halves.py", "{**self.closed, self.generation: self.seq}", "{**self.closed}"),),
    "old owner not ended": (
        Edit(
            "lease.py",
            "            self._store.replace(key, replace(owner, ended_by=self.name).to_bytes(), seen=stored.revision)\n",
            "            pass\n",
        ),
    ),
    "replay ranks as new": (Edit("batch.py", "return self.origin or self.id", "return self.id"),),
    "ledger not asked at rest": (Edit("landing.py", "if not due and not compare:", "if not due:"),),
    "claim keeps its epoch": (Edit("lease.py", "epoch=highest + 1,", "epoch=max(1, highest),"),),
    "release keeps the epoch": (
        Edit("lease.py", "epoch=highest + 1,", "epoch=highest + (not (claim and claim.released)),"),
    ),
    "silence of the living": (
        Edit("lease.py", "if watched is None or watched.revision != revision:", "if watched is None:"),
    ),
    "load generation not compared": (
        Edit("landing.py", "if state.loaded.load_generation != cycle.half.load_generation:", "if False:"),
    ),
    "fence not raised again": (Edit("landing.py", "self._fenced = False  # our", "self._fenced = True  # our"),),
    "ledger before the base forgotten": (
        Edit("halves.py", "earlier=tuple(span for span in cut if span.after < span.upto),", "earlier=(),"),
    ),
    "further target does not wait": (Edit("landing.py", "if half.last == ORIGIN:", "if False:"),),
    "lost ledger not noticed": (
        Edit(
            "landing.py",
            "        return tuple(reversed(lost))",
            "        return tuple(lost[:1])",
        ),
    ),
}


@contextmanager
def planted(name: str) -> Iterator[Path]:
    """A copy of the library with a fault, and the simulation beside it."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        root = Path(folder)
        for package in ("watermarks", "tests/simulation"):
            shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
        (root / "tests/__init__.py").touch()
        for edit in MUTANTS[name]:
            path = root / "watermarks" / edit.file
            text = path.read_text()
            if text.count(edit.text) != 1:
                raise LookupError(f"mutant {name!r}: its text stands {text.count(edit.text)} times in {edit.file}")
            path.write_text(text.replace(edit.text, edit.instead))
        yield root


def caught(name: str, *, examples: int, chance: int = 0) -> str | None:
    """The last line that the state machine says of a mutant; None when it found nothing."""
    with planted(name) as root:
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation.machine", str(examples), str(chance)],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
    if not done.returncode:
        return None
    lines = done.stderr.strip().splitlines()
    found = next((line for line in reversed(lines) if "Violation" in line or "Error" in line), "?")
    if found.startswith(("TypeError", "NameError", "AttributeError")):
        raise LookupError(f"mutant {name!r} is no faulty library, but none at all: {found}")
    return found


if __name__ == "__main__":
    for wanted in sys.argv[1:] or MUTANTS:
        began = time.monotonic()
        found = caught(wanted, examples=1000)
        print(f"{wanted:32} {time.monotonic() - began:6.1f} s  {found or 'NOT CAUGHT'}", flush=True)  # noqa: T201
