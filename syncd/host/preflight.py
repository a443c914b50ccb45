"""What this host has to offer before the first run: Java, archives, room."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from syncd.host.cache_dirs import find_cache, find_jars
from syncd.host.jars import MARIADB_DRIVER, MYSQL_DRIVER, Artifact, Kept, look
from syncd.host.java import OLDEST, find_java
from syncd.ports.preflight import Sheet

LITTLE: Final = 2 << 30
"""Bytes: Spark spills, and a session's archives and logs want room."""
TOO_LITTLE: Final = 200 << 20
DRIVERS: Final = (MYSQL_DRIVER, MARIADB_DRIVER)


def examine(environ: Mapping[str, str], sheet: Sheet) -> None:
    """Look at this host."""
    with sheet.checking("java"):
        sheet.good("java", f"{find_java(environ)} is Java {OLDEST} or newer")
    with sheet.checking("jars"):
        _jars(find_jars(environ), DRIVERS, sheet)
    with sheet.checking("disk"):
        _disk({Path(tempfile.gettempdir()), _standing(find_cache(environ))}, sheet)


def _jars(cache: Path, wanted: Sequence[Artifact], sheet: Sheet) -> None:
    states = {artifact.file_name: look(artifact, cache) for artifact in wanted}
    if damaged := [name for name, state in states.items() if state is Kept.DAMAGED]:
        return sheet.bad("jars", f"damaged in {cache}: {', '.join(damaged)}", "syncd jars fetch")
    if missing := [name for name, state in states.items() if state is Kept.MISSING]:
        told = f"the first run fetches {', '.join(missing)}: it needs the network"
        return sheet.doubt("jars", told, "syncd jars fetch")
    return sheet.good("jars", f"{len(states)} drivers in {cache}")


def _disk(places: set[Path], sheet: Sheet) -> None:
    free = {place: shutil.disk_usage(place).free for place in sorted(places)}
    told = ", ".join(f"{room / 1e9:.1f} GB free in {place}" for place, room in free.items())
    if min(free.values()) < TOO_LITTLE:
        return sheet.bad("disk", told, "Make room, or name another place: TMPDIR, SYNCD_CACHE.")
    if min(free.values()) < LITTLE:
        return sheet.doubt("disk", told, "Make room, or name another place: TMPDIR, SYNCD_CACHE.")
    return sheet.good("disk", told)


def _standing(place: Path) -> Path:
    """The place, or the nearest folder around it that is there."""
    return next(folder for folder in (place, *place.parents) if folder.exists())
