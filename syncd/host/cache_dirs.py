"""Where fetched and made files are kept for every run of this user, and directories that only their owner enters."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from syncd.host.host_errors import NotWritable

OWNER_ONLY_MODE: Final = 0o700


def find_cache(environ: Mapping[str, str]) -> Path:
    """Where fetched files are kept; `SYNCD_CACHE` names another place."""
    asked = environ.get("SYNCD_CACHE")
    return (Path(asked) if asked else find_xdg_base(environ, "XDG_CACHE_HOME", ".cache") / "syncd").absolute()


def find_jars(environ: Mapping[str, str]) -> Path:
    """Where the Java archives are kept."""
    return find_cache(environ) / "jars"


def make_writable(directory: Path, *, hint: str) -> Path:
    """Make a directory that only its owner enters, and prove that files can be made in it.

    Raises:
        NotWritable: with the system's reason.
    """
    try:
        directory.mkdir(mode=OWNER_ONLY_MODE, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise NotWritable(
            f"cannot write to {directory}: {(error.strerror or str(error)).lower()}", hint=hint
        ) from error
    return directory


def remove_leftovers(directory: Path, prefix: str) -> None:
    """Remove what a killed command left half made; the caller holds the directory's lock."""
    for left in directory.glob(f"{prefix}*"):
        shutil.rmtree(left)


def find_xdg_base(environ: Mapping[str, str], variable: str, default: str) -> Path:
    """One XDG base directory; a relative value is to be ignored, says the specification."""
    asked = Path(environ.get(variable, ""))
    if asked.is_absolute():
        return asked
    home = Path(environ.get("HOME", ""))
    if not home.is_absolute():
        raise NotWritable(f"neither HOME nor {variable} names a directory", hint=f"Set {variable} to one.")
    return home / default
