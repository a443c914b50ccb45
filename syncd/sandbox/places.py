"""Where a sandbox keeps its data, and where fetched files are kept for all of them."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncd.sandbox.errors import NotWritable

OWNER_ONLY: Final = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """One directory for this sandbox, one cache for every sandbox of this user."""

    directory: Path
    cache: Path

    @property
    def jars(self) -> Path:
        return self.cache / "jars"


def find_places(environ: Mapping[str, str], *, directory: Path | None = None) -> Places:
    """The directory asked for, else the places that the XDG base directories name."""
    return Places(
        directory=(directory or _base(environ, "XDG_STATE_HOME", ".local/state") / "syncd" / "sandbox").absolute(),
        cache=find_cache(environ),
    )


def find_cache(environ: Mapping[str, str]) -> Path:
    """Where fetched files are kept; `SYNCD_CACHE` names another place."""
    asked = environ.get("SYNCD_CACHE")
    return (Path(asked) if asked else _base(environ, "XDG_CACHE_HOME", ".cache") / "syncd").absolute()


def find_jars(environ: Mapping[str, str]) -> Path:
    """Where the Java archives are kept."""
    return find_cache(environ) / "jars"


def make_writable(directory: Path, *, hint: str) -> Path:
    """Make a directory that only its owner enters, and prove that files can be made in it.

    Raises:
        NotWritable: with the system's reason.
    """
    try:
        directory.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise NotWritable(
            f"cannot write to {directory}: {(error.strerror or str(error)).lower()}", hint=hint
        ) from error
    return directory


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)


def write_once(path: Path, text: str) -> None:
    """Write a file that only its owner reads, unless it is there; a kill leaves it absent or whole."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.new")
        write_private(draft, text)
        draft.replace(path)


def read_secret(path: Path) -> str:
    """What such a file holds; nothing if it was never written."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def sweep(directory: Path, prefix: str) -> None:
    """Remove what a killed command left half made; the caller holds the directory's lock."""
    for left in directory.glob(f"{prefix}*"):
        shutil.rmtree(left)


def _base(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """One XDG base directory; a relative value is to be ignored, says the specification."""
    asked = Path(environ.get(variable, ""))
    if asked.is_absolute():
        return asked
    home = Path(environ.get("HOME", ""))
    if not home.is_absolute():
        raise NotWritable(f"neither HOME nor {variable} names a directory", hint=f"Set {variable} to one.")
    return home / default
