"""Directories of a sandbox, and private files in them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from syncd.host.directories import find_cache, find_xdg_base


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPaths:
    """Directory of this sandbox, and the cache that all sandboxes of this user share."""

    directory: Path
    cache: Path

    @property
    def jars(self) -> Path:
        return self.cache / "jars"


def find_paths(environ: Mapping[str, str], *, directory: Path | None = None) -> SandboxPaths:
    """Return the requested directory, else the one that the XDG base directories name, with the cache."""
    return SandboxPaths(
        directory=(
            directory or find_xdg_base(environ, "XDG_STATE_HOME", ".local/state") / "syncd" / "sandbox"
        ).absolute(),
        cache=find_cache(environ),
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)


def write_once(path: Path, text: str) -> None:
    """Write a private file unless it exists; a kill leaves it absent or whole."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.new")
        write_private(draft, text)
        draft.replace(path)


def read_secret(path: Path) -> str:
    """Return the text of a private file, or an empty text if it was never written."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
