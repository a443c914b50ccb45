"""Archive of loaded classes, which halves the startup time of Spark's JVM: made once, in the cache."""

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from syncd.errors import NotWritable
from syncd.host.directories import make_writable

CACHE_HINT: Final = "Make the directory writable, or set SYNCD_CACHE to another one."
_DRAFT_PREFIX: Final = "draft-"
_DRAFT_MAX_AGE: Final = timedelta(days=1)
"""An older draft was left by a killed Java."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassArchive:
    """Archive for one Java with one class path, existing or still to be made."""

    path: Path

    @property
    def exists(self) -> bool:
        return self.path.is_file()

    @property
    def _draft_path(self) -> Path:
        return self.path.with_name(f"{_DRAFT_PREFIX}{os.getpid()}-{self.path.name}")

    @property
    def java_options(self) -> list[str]:
        """Return the options that make Java use the archive, or create it when it ends.

        Java silently ignores an archive that does not match.
        """
        quiet = ["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]
        if self.exists:
            return [*quiet, f"-XX:SharedArchiveFile={self.path}"]
        return [*quiet, f"-XX:ArchiveClassesAtExit={self._draft_path}"]

    def wrap_command(self, command: Sequence[str]) -> list[str]:
        """Return the command; if the archive does not exist yet, also what moves it into place after a clean end.

        Java writes the archive while it ends, maybe after this process: so a shell waits for it, and only a complete
        archive gets the name. If two processes make one, the last wins, with the same content.
        """
        if self.exists:
            return list(command)
        script = (
            'new=$1 final=$2; shift 2; "$@" && test -s "$new" && mv -f "$new" "$final" || { rm -f "$new"; exit 1; }'
        )
        return ["/bin/sh", "-c", script, "java", str(self._draft_path), str(self.path), *command]


def find_archive(cache: Path, *, java: str, class_path: Iterable[Path]) -> ClassArchive | None:
    """Return the archive for this Java and class path; None if the cache is not writable."""
    try:
        folder = make_writable(cache / "classes", hint=CACHE_HINT)
    except NotWritable:
        return None  # a slower start is the only consequence
    _remove_stale_drafts(folder)
    return ClassArchive(path=folder / f"{_fingerprint(java, class_path)}.jsa")


def _remove_stale_drafts(folder: Path) -> None:
    for draft in folder.glob(f"{_DRAFT_PREFIX}*"):
        with suppress(OSError):  # another process may remove it too, or own it
            if time.time() - draft.stat().st_mtime > _DRAFT_MAX_AGE.total_seconds():
                draft.unlink()


def _fingerprint(java: str, class_path: Iterable[Path]) -> str:
    """Return a digest of everything that Java compares before it uses an archive."""
    files = [Path(java).resolve(), *class_path]
    facts = [(str(file), stat.st_size, stat.st_mtime_ns) for file in files for stat in [file.stat()]]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
