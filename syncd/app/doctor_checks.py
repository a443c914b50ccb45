"""The preflight: every side looked at by a thread of its own, each in bounded time, none hidden by another."""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from syncd.app.lake_access import nonce, open_quick_lake
from syncd.ports.preflight import Finding, Sheet, Side, State
from syncd.redshift.copy_statement import manifest_body, role_words
from syncd.settings import Settings, WarehouseSettings

if TYPE_CHECKING:
    from syncd.s3.lake_client import Lake

WITHIN: Final = timedelta(seconds=120)
"""How long one side may take before it is given up."""
ASKED_WITHIN: Final = 10.0
"""Seconds for one request to the lake."""


class Doctor:
    """Looks at all sides of one configuration; what it tries it removes again."""

    def __init__(self, settings: Settings, *, environ: Mapping[str, str], within: timedelta = WITHIN) -> None:
        self._settings = settings
        self._environ = environ
        self._within = within
        self._nonce = nonce()

    def findings(self) -> tuple[Finding, ...]:
        """What was found, side by side, in the order of the data's way."""
        looks: list[tuple[Sheet, Callable[[Sheet], None]]] = [(Sheet(side=Side.HOST), self._host)]
        looks += [(Sheet(side=Side.SOURCE, name=one.name), self._source(one.name)) for one in self._settings.sources]
        lake = Sheet(side=Side.LAKE)
        looks.append((lake, self._lake))
        self._run(looks)
        warehouses: list[tuple[Sheet, Callable[[Sheet], None]]] = [
            (Sheet(side=Side.WAREHOUSE, name=one.name), self._warehouse(one, lake)) for one in self._settings.warehouses
        ]
        self._run(warehouses)
        return tuple(found for sheet, _ in (*looks, *warehouses) for found in list(sheet.findings))

    def _run(self, looks: Sequence[tuple[Sheet, Callable[[Sheet], None]]]) -> None:
        threads = [threading.Thread(target=_look, args=one, daemon=True, name="doctor") for one in looks]
        for thread in threads:
            thread.start()
        for thread, (sheet, _) in zip(threads, looks, strict=True):
            thread.join(self._within.total_seconds())
            if thread.is_alive():
                seconds = f"{self._within.total_seconds():.0f} s"
                sheet.bad(
                    "time", f"it was given up after {seconds}", "Is there a way to it, and a firewall on the way?"
                )

    def _host(self, sheet: Sheet) -> None:
        from syncd.host.preflight import examine  # noqa: PLC0415  # each side loads its own drivers

        examine(self._environ, sheet)

    def _source(self, name: str) -> Callable[[Sheet], None]:
        settings = next(one for one in self._settings.sources if one.name == name)
        streams = [stream for stream in self._settings.streams if stream.source == name]

        def look(sheet: Sheet) -> None:
            from syncd.mysql.preflight import examine  # noqa: PLC0415  # a driver, loaded where a source is there

            examine(settings, streams, sheet)

        return look

    def _lake(self, sheet: Sheet) -> None:
        from syncd.s3.preflight import examine  # noqa: PLC0415  # as above

        with sheet.checking("bucket"):
            examine(self._open(), sheet, nonce=self._nonce)

    def _open(self) -> "Lake":
        return open_quick_lake(self._settings.lake, within=ASKED_WITHIN)

    def _warehouse(self, settings: WarehouseSettings, lake: Sheet) -> Callable[[Sheet], None]:
        takes_files = lake.fits("write") and lake.fits("remove")

        def look(sheet: Sheet) -> None:
            from syncd.redshift.preflight import examine, region_of  # noqa: PLC0415  # as above

            told = next((one.told for one in lake.findings if one.check == "region" and one.state is State.PASS), "")
            ours = region_of(settings.host)
            if ours and "," not in told and told and ours != told:
                sheet.bad("region", f"it is in {ours} and the bucket in {told}: COPY of Parquet wants them in one", "")
            address = self._settings.lake.address
            looked = partial(examine, settings, self._settings.streams, sheet, nonce=self._nonce, lake=address)
            if not takes_files:
                return looked(copy=None)
            tiny = _Tiny(self._open(), settings, f"doctor/{self._nonce}-{settings.name}/")
            try:
                looked(copy=tiny.copy)
            finally:
                with sheet.checking("remove"):
                    tiny.remove()

        return look


def _look(sheet: Sheet, look: Callable[[Sheet], None]) -> None:
    with sheet.checking("look"):
        look(sheet)


class _Tiny:
    """A file of one row in the lake, for COPY to read."""

    def __init__(self, lake: "Lake", settings: WarehouseSettings, room: str) -> None:
        self._lake = lake
        self._settings = settings
        self._room = room
        self._keys = list[str]()

    def copy(self, table: str) -> tuple[str, int]:
        from syncd.parquet.tiny_file import tiny_parquet  # noqa: PLC0415  # as above
        from syncd.redshift.aws import LakeKeys  # noqa: PLC0415  # as above

        body = tiny_parquet()
        part = self._put("one.parquet", body)
        manifest = self._put("manifest", manifest_body([(part, len(body))]))
        role = self._settings.iam_role
        credentials = LakeKeys().words() if role is None else role_words(role)
        return f"COPY {table} (id, word) FROM '{manifest}' {credentials} FORMAT AS PARQUET MANIFEST STATUPDATE OFF", 1

    def remove(self) -> None:
        self._lake.drop(self._keys)

    def _put(self, name: str, body: bytes) -> str:
        key = self._room + name
        self._keys.append(key)
        self._lake.put(key, body)
        return self._lake.at(key)
