"""Checks of this host before the first run: Java, archives, disk space."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from syncd.host.directories import find_cache, find_jars
from syncd.host.jars import MARIADB_DRIVER, MYSQL_DRIVER, ArchiveState, Artifact, check_archive
from syncd.host.java import OLDEST_JAVA, find_java
from syncd.ports.preflight import CheckSheet

LOW_DISK_BYTES: Final = 2 << 30
"""Spark spills to disk, and a session's archives and logs need space."""
MIN_DISK_BYTES: Final = 200 << 20
DRIVERS: Final = (MYSQL_DRIVER, MARIADB_DRIVER)


def check_host(environ: Mapping[str, str], sheet: CheckSheet) -> None:
    with sheet.record_errors("java"):
        sheet.add_pass("java", f"{find_java(environ)} is Java {OLDEST_JAVA} or newer")
    with sheet.record_errors("jars"):
        _check_jars(find_jars(environ), DRIVERS, sheet)
    with sheet.record_errors("disk"):
        _check_disk({Path(tempfile.gettempdir()), _nearest_existing(find_cache(environ))}, sheet)


def _check_jars(cache: Path, wanted: Sequence[Artifact], sheet: CheckSheet) -> None:
    states = {artifact.file_name: check_archive(artifact, cache) for artifact in wanted}
    if damaged := [name for name, state in states.items() if state is ArchiveState.DAMAGED]:
        return sheet.add_failure("jars", f"damaged in {cache}: {', '.join(damaged)}", "syncd jars fetch")
    if missing := [name for name, state in states.items() if state is ArchiveState.MISSING]:
        finding = f"the first run fetches {', '.join(missing)}: it needs the network"
        return sheet.add_warning("jars", finding, "syncd jars fetch")
    return sheet.add_pass("jars", f"{len(states)} drivers in {cache}")


def _check_disk(places: set[Path], sheet: CheckSheet) -> None:
    free = {place: shutil.disk_usage(place).free for place in sorted(places)}
    finding = ", ".join(f"{room / 1e9:.1f} GB free in {place}" for place, room in free.items())
    if min(free.values()) < MIN_DISK_BYTES:
        return sheet.add_failure("disk", finding, "Free some space, or set another directory: TMPDIR, SYNCD_CACHE.")
    if min(free.values()) < LOW_DISK_BYTES:
        return sheet.add_warning("disk", finding, "Free some space, or set another directory: TMPDIR, SYNCD_CACHE.")
    return sheet.add_pass("disk", finding)


def _nearest_existing(place: Path) -> Path:
    """Return the path, or its nearest existing parent."""
    return next(folder for folder in (place, *place.parents) if folder.exists())
