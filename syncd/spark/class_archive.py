"""The archive of loaded classes that makes Spark's JVM start in half the time: made once, in the cache."""

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from syncd.host.cache_dirs import make_writable
from syncd.host.host_errors import NotWritable

CACHE_HINT: Final = "Make the directory writable, or set SYNCD_CACHE to another one."
_DRAFT_PREFIX: Final = "draft-"
_DRAFT_MAX_AGE: Final = timedelta(days=1)
"""A draft of this age is what a killed Java left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassArchive:
    """Where the archive of one Java with one class path is, or is going to be."""

    path: Path

    @property
    def exists(self) -> bool:
        return self.path.is_file()

    @property
    def _draft_path(self) -> Path:
        return self.path.with_name(f"{_DRAFT_PREFIX}{os.getpid()}-{self.path.name}")

    @property
    def java_options(self) -> list[str]:
        """What to tell Java: to use it, or to make it when it ends.

        An archive that does not fit its Java is ignored by it, without a word.
        """
        quiet = ["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]
        if self.exists:
            return [*quiet, f"-XX:SharedArchiveFile={self.path}"]
        return [*quiet, f"-XX:ArchiveClassesAtExit={self._draft_path}"]

    def wrap_command(self, command: Sequence[str]) -> list[str]:
        """The command; where the archive is yet to be made, what puts it in its place after a clean end.

        Java writes it at its own pace while it ends, maybe after we have: so a shell
        waits for it, and only a whole archive gets the name. Of two processes that
        make one, the last wins, with the same content.
        """
        if self.exists:
            return list(command)
        script = (
            'new=$1 final=$2; shift 2; "$@" && test -s "$new" && mv -f "$new" "$final" || { rm -f "$new"; exit 1; }'
        )
        return ["/bin/sh", "-c", script, "java", str(self._draft_path), str(self.path), *command]


def find_archive(cache: Path, *, java: str, class_path: Iterable[Path]) -> ClassArchive | None:
    """The archive for this Java and these archives of classes; none where the cache cannot be written to."""
    try:
        folder = make_writable(cache / "classes", hint=CACHE_HINT)
    except NotWritable:
        return None  # slower, and nothing else
    _remove_stale_drafts(folder)
    return ClassArchive(path=folder / f"{_fingerprint(java, class_path)}.jsa")


def _remove_stale_drafts(folder: Path) -> None:
    for draft in folder.glob(f"{_DRAFT_PREFIX}*"):
        with suppress(OSError):  # another process sweeps too, or it is not ours
            if time.time() - draft.stat().st_mtime > _DRAFT_MAX_AGE.total_seconds():
                draft.unlink()


def _fingerprint(java: str, class_path: Iterable[Path]) -> str:
    """Changes with all that Java compares before it uses an archive."""
    files = [Path(java).resolve(), *class_path]
    told = [(str(file), stat.st_size, stat.st_mtime_ns) for file in files for stat in [file.stat()]]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]
