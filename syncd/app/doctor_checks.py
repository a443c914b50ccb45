"""Checks of `syncd doctor`: every side in a thread of its own and in bounded time."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import new_nonce, open_quick_lake
from syncd.host.directories import find_cache, find_jars
from syncd.host.jar_download import MARIADB_DRIVER, MYSQL_DRIVER, ArchiveState, Artifact, check_archive
from syncd.host.java import OLDEST_JAVA, find_java
from syncd.ports.preflight import CheckedSide, CheckResult, CheckSheet, CheckStatus
from syncd.redshift.scratch_tables import copy_manifest_body, role_clause
from syncd.settings import Settings, WarehouseSettings

if TYPE_CHECKING:
    from syncd.s3.lake_client import S3Lake


CHECK_TIMEOUT: Final = timedelta(seconds=120)
"""Timeout for the checks of one side."""
LAKE_REQUEST_TIMEOUT_SECONDS: Final = 10.0


class Doctor:
    """Checks all sides of one configuration, and removes what it writes."""

    def __init__(self, settings: Settings, *, environ: Mapping[str, str], timeout: timedelta = CHECK_TIMEOUT) -> None:
        self._settings = settings
        self._environ = environ
        self._timeout = timeout
        self._nonce = new_nonce()

    def run_checks(self) -> tuple[CheckResult, ...]:
        """Return the results, side by side in the order in which data flows."""
        checks: list[tuple[CheckSheet, Callable[[CheckSheet], None]]] = [
            (CheckSheet(side=CheckedSide.HOST), self._check_host)
        ]
        checks += [
            (CheckSheet(side=CheckedSide.SOURCE, name=one.name), self._source_check(one.name))
            for one in self._settings.sources
        ]
        lake = CheckSheet(side=CheckedSide.LAKE)
        checks.append((lake, self._check_lake))
        self._run_in_threads(checks)
        warehouses: list[tuple[CheckSheet, Callable[[CheckSheet], None]]] = [
            (CheckSheet(side=CheckedSide.WAREHOUSE, name=one.name), self._warehouse_check(one, lake))
            for one in self._settings.warehouses
        ]
        self._run_in_threads(warehouses)
        return tuple(found for sheet, _ in (*checks, *warehouses) for found in list(sheet.results))

    def _run_in_threads(self, checks: Sequence[tuple[CheckSheet, Callable[[CheckSheet], None]]]) -> None:
        threads = [threading.Thread(target=_run_check, args=one, daemon=True, name="doctor") for one in checks]
        for thread in threads:
            thread.start()
        for thread, (sheet, _) in zip(threads, checks, strict=True):
            thread.join(self._timeout.total_seconds())
            if thread.is_alive():
                seconds = f"{self._timeout.total_seconds():.0f} s"
                sheet.add_failure(
                    "time", f"no answer within {seconds}", "Check the route to it and the firewalls in between."
                )

    def _check_host(self, sheet: CheckSheet) -> None:
        from syncd.app.doctor_checks import check_host  # noqa: PLC0415  # each side loads its own driver

        check_host(self._environ, sheet)

    def _source_check(self, name: str) -> Callable[[CheckSheet], None]:
        settings = self._settings.source(name)
        streams = [stream for stream in self._settings.streams if stream.source == name]

        def check(sheet: CheckSheet) -> None:
            from syncd.mysql.preflight import check_source  # noqa: PLC0415  # as above

            check_source(settings, streams, sheet)

        return check

    def _check_lake(self, sheet: CheckSheet) -> None:
        from syncd.s3.preflight import check_lake  # noqa: PLC0415  # as above

        with sheet.record_errors("bucket"):
            check_lake(self._open_lake(), sheet, nonce=self._nonce)

    def _open_lake(self) -> "S3Lake":
        return open_quick_lake(self._settings.lake, timeout_seconds=LAKE_REQUEST_TIMEOUT_SECONDS)

    def _warehouse_check(self, settings: WarehouseSettings, lake: CheckSheet) -> Callable[[CheckSheet], None]:
        takes_files = lake.has_passed("write") and lake.has_passed("remove")

        def check(sheet: CheckSheet) -> None:
            from syncd.redshift.preflight import check_warehouse, region_from_host  # noqa: PLC0415  # as above

            bucket_region = next(
                (one.message for one in lake.results if one.check == "region" and one.status is CheckStatus.PASS), ""
            )
            region = region_from_host(settings.host)
            if region and "," not in bucket_region and bucket_region and region != bucket_region:
                sheet.add_failure(
                    "region",
                    f"it is in {region}, the bucket in {bucket_region}: COPY of Parquet needs both in the same region",
                    "",
                )
            address = self._settings.lake.address
            check_all = partial(
                check_warehouse, settings, self._settings.streams, sheet, nonce=self._nonce, lake=address
            )
            if not takes_files:
                return check_all(copy=None)
            probe = _CopyProbe(self._open_lake(), settings, f"doctor/{self._nonce}-{settings.name}/")
            try:
                check_all(copy=probe.copy_statement)
            finally:
                with sheet.record_errors("remove"):
                    probe.remove()

        return check


def _run_check(sheet: CheckSheet, check: Callable[[CheckSheet], None]) -> None:
    with sheet.record_errors("look"):
        check(sheet)


class _CopyProbe:
    """A file of one row in the lake that COPY reads."""

    def __init__(self, lake: "S3Lake", settings: WarehouseSettings, prefix: str) -> None:
        self._lake = lake
        self._settings = settings
        self._prefix = prefix
        self._keys = list[str]()

    def copy_statement(self, table: str) -> tuple[str, int]:
        from syncd.parquet.part_writer import tiny_parquet  # noqa: PLC0415  # as above
        from syncd.redshift.aws_credentials import LakeCredentials  # noqa: PLC0415  # as above

        body = tiny_parquet()
        part = self._put("one.parquet", body)
        manifest = self._put("manifest", copy_manifest_body([(part, len(body))]))
        role = self._settings.iam_role
        credentials = LakeCredentials().copy_clause() if role is None else role_clause(role)
        return f"COPY {table} (id, word) FROM '{manifest}' {credentials} FORMAT AS PARQUET MANIFEST STATUPDATE OFF", 1

    def remove(self) -> None:
        self._lake.delete_objects(self._keys)

    def _put(self, name: str, body: bytes) -> str:
        key = self._prefix + name
        self._keys.append(key)
        self._lake.put(key, body)
        return self._lake.address_of(key)


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
