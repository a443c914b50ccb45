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
            "            try:\n                put = put_once(self.store, key, entry.to_bytes())\n",
            "            self._write_document(seen, entry)\n"
            "            try:\n                put = put_once(self.store, key, entry.to_bytes())\n",
        ),
    ),
    "no roll-forward": (
        Edit(
            "history.py",
            "            self._roll_forward(seen, other)\n",
            "",
        ),
    ),
    "own write not recognised": (Edit("store.py", "is_ours=stored.body == body)", "is_ours=False)"),),
    "link of another not adopted": (
        Edit(
            "extraction.py",
            "        if put.is_ours:\n            return link\n",
            "        if put:\n            return link\n",
        ),
    ),
    "plan of another not adopted": (
        Edit("extraction.py", "return plan if put.is_ours else", "return plan if plan else"),
    ),
    "mark before link": (
        Edit("extraction.py", "        link = self.chain.create_link(own_link)\n", "        link = own_link\n"),
        Edit(
            "extraction.py",
            "        return ExtractResult(state=_final_state(link), link=link, watermark=self._advance(link, timed_run))\n",
            "        moved = self._advance(link, timed_run)\n"
            "        self.chain.create_link(link)\n"
            "        return ExtractResult(state=_final_state(link), link=link, watermark=moved)\n",
        ),
    ),
    "mark before ledger": (
        Edit(
            "loading.py",
            "        by_batch = self._load(cycle)\n",
            "        assumed = {link.id: BatchLoadResult(rows=link.rows) for link in links}\n"
            "        self._advance(cycle, links, assumed, run, seen)\n"
            "        by_batch = self._load(cycle)\n",
        ),
    ),
    "fence: epoch at least": (
        Edit("loading.py", "    if stored_epoch > epoch:\n", "    if stored_epoch < 0:\n"),
        Edit("loading.py", "    return stored_epoch != epoch\n", "    return stored_epoch < epoch\n"),
    ),
    "entries of an older epoch": (Edit("lease.py", "    if current != epoch:\n", "    if current < epoch:\n"),),
    "gap in seq": (
        Edit(
            "loading.py",
            "islice(extract.batch_ids(after=load.last_batch), max_batches)",
            "islice(extract.batch_ids(after=load.last_batch), 0, 2 * max_batches, 2)",
        ),
    ),
    "mark past what landed": (
        Edit(
            "loading.py",
            "loaded = tuple(takewhile(lambda link: link.id in by_batch, links))",
            "loaded, by_batch = links, {link.id: BatchLoadResult(rows=link.rows) for link in links}",
        ),
    ),
    "ledger without load generation": (
        Edit(
            "loading.py",
            "load_generation=self.load_progress.load_generation_of(batch), batch=batch)",
            "load_generation=1, batch=batch)",
        ),
    ),
    "ledger not asked": (
        Edit(
            "loading.py",
            "for link in self.due_links if self.ledger_key(link.id) not in ledger)",
            "for link in self.due_links)",
        ),
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
            "        put = put_once(self._store, link_key(self.stream, link.id), link.to_bytes())\n",
            "        if link.kind is BatchKind.ABANDONED:\n            return link\n"
            "        put = put_once(self._store, link_key(self.stream, link.id), link.to_bytes())\n",
        ),
    ),
    "closed generation not landed": (
        Edit(
            "progress.py",
            "for generation in (*sorted(self.closed_generations), self.generation):",
            "for generation in (self.generation,):",
        ),
    ),
    "load generation not raised": (
        Edit(
            "progress.py",
            "load_generation=self.load_generation + 1,\n            cursor=cursor",
            "load_generation=self.load_generation,\n            cursor=cursor",
        ),
    ),
    "generation not closed": (
        Edit("progress.py", "{**self.closed_generations, self.generation: self.seq}", "{**self.closed_generations}"),
    ),
    "old owner not ended": (
        Edit(
            "lease.py",
            "            self._owner_store.put(key, replace(owner, ended_by=self.name).to_bytes(), expected=stored.revision)\n",
            "            pass\n",
        ),
    ),
    "replay ranks as new": (Edit("batch.py", "return self.origin or self.id", "return self.id"),),
    "ledger not asked at rest": (Edit("loading.py", "if not pending and not check_ledger:", "if not pending:"),),
    "claim keeps its epoch": (Edit("lease.py", "epoch=highest + 1,", "epoch=max(1, highest),"),),
    "release keeps the epoch": (
        Edit("lease.py", "epoch=highest + 1,", "epoch=highest + (not (previous and previous.is_released)),"),
    ),
    "silence of the living": (Edit("lease.py", "if seen is None or seen.revision != revision:", "if seen is None:"),),
    "load generation not compared": (
        Edit(
            "loading.py",
            "if state.load_progress.load_generation != cycle.load_progress.load_generation:",
            "if False:",
        ),
    ),
    "fence not raised again": (Edit("loading.py", "self._is_fenced = False  # our", "self._is_fenced = True  # our"),),
    "ledger before the base forgotten": (
        Edit("progress.py", "earlier_loads=_cut_spans((*self.earlier_loads, current), base),", "earlier_loads=(),"),
    ),
    "further target does not wait": (Edit("loading.py", "if load.last_batch == BEFORE_FIRST_BATCH:", "if False:"),),
    "lost ledger not noticed": (
        Edit("loading.py", "        return tuple(reversed(lost))", "        return tuple(lost[:1])"),
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
        print(f"{wanted:32} {time.monotonic() - began:6.1f} s  {found or 'NOT CAUGHT'}", flush=True)  # noqa: T201  # a script that prints its results
