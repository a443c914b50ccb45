"""One source: the way to it, the connections that may be open at once, and whoever reads over them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from syncd.app.open_resources import Opened
from syncd.concurrency.once import once
from syncd.concurrency.resource_pool import NOBODY, Places
from syncd.concurrency.running_pass import UnderWay
from syncd.lake.window_reads import Read, Reading
from syncd.mysql.connection_factory import Way, way_to
from syncd.mysql.connection_pool import OLDEST, Connections, LentSource
from syncd.mysql.replica_horizon import AppliedHorizons, FollowedHorizons
from syncd.mysql.shared_horizon import SHARED_FOR, ServerHorizons
from syncd.mysql.source import MySqlSource
from syncd.ports.source import Asked, Horizon, TableName
from syncd.s3.note_store import StoredNotes
from syncd.settings import SourceSettings

if TYPE_CHECKING:
    from syncd.app.stage_services import Service
    from syncd.spark.reader import SparkReader


AT_PRIMARY: Final = 2
"""Connections: one for polls, one for the end of its log."""


class Server(Opened):
    """One source; `alone` says that streams come one after the other, so that a reading may have every connection."""

    def __init__(self, settings: SourceSettings, service: "Service", *, alone: bool) -> None:
        super().__init__()
        self.settings: Final = settings
        self._service = service
        self._alone = alone

    @once
    def way(self) -> Way:
        return self._stack.enter_context(way_to(self.settings, heed=self._service.heed))

    @once
    def places(self) -> Connections:
        """The connections that may be open at once, whatever for."""
        return self._places_of(self.settings.max_connections, kept=0 if self._alone else 1)

    def source(self, under_way: UnderWay = NOBODY) -> LentSource:
        """The server, for the questions of one pass."""
        return LentSource(self.places, self._make(self.settings, self.way), under_way=under_way)

    def _make(self, settings: SourceSettings, way: Way) -> Callable[[], MySqlSource]:
        return partial(MySqlSource, settings, way.open, meter=self._service.meter)

    def horizons(self, under_way: UnderWay) -> "PassHorizons":
        """The horizons, for one pass."""
        return PassHorizons(self._horizons, under_way)

    @once
    def _horizons(self) -> "AppliedHorizons | FollowedHorizons":
        """The horizons of where rows are stamped; for a replica, once it has what they cover."""
        primary = self.settings.primary
        if primary is None:
            return AppliedHorizons(self._polled(self.settings, self.way, self.places), self.source())
        way = self._stack.enter_context(way_to(primary, heed=self._service.heed))
        places = self._places_of(AT_PRIMARY)
        at_primary = LentSource(places, self._make(primary, way))
        return FollowedHorizons(self._polled(primary, way, places), primary=at_primary, replica=self.source())

    def _places_of(self, most: int, *, kept: int = 0) -> Connections:
        places: Connections = Places(most, kept=kept, oldest=OLDEST)
        self._stack.callback(places.close)
        return places

    def _polled(self, settings: SourceSettings, way: Way, places: Connections) -> ServerHorizons:
        notes = StoredNotes(self._service.store, self.settings.name)
        shared_for = SHARED_FOR if self._alone else 0.0
        horizons = ServerHorizons(
            settings, way.open, notes, shared_for=shared_for, places=places, meter=self._service.meter
        )
        self._stack.callback(horizons.close)
        return horizons

    @once
    def spark_reader(self) -> "SparkReader":
        """Whoever reads windows of it, for every pass."""
        return self._service.spark_reader(self)

    def end_reading(self, nonce: str) -> None:
        """End, at the server, what an attempt that was given up reads still.

        Over a connection beside all places: what is to be ended may have every one of them.
        """
        with closing(self._make(self.settings, self.way)()) as source:
            source.end_statements(nonce)


class PassHorizons:
    """The horizons for one pass: a poll answers others too, and so a pass that is ended leaves it to go on."""

    def __init__(self, horizons: AppliedHorizons | FollowedHorizons, under_way: UnderWay) -> None:
        self._horizons = horizons
        self._under_way = under_way

    def of(self, asked: Sequence[Asked], *, aged: float = 0.0) -> Mapping[TableName, Horizon]:
        return self._under_way.apart(lambda: self._horizons.of(asked, aged=aged), name="horizon")

    def known(self, asked: Sequence[Asked], *, within: timedelta) -> Mapping[TableName, Horizon]:
        return self._under_way.apart(lambda: self._horizons.known(asked, within=within), name="horizon")

    def current(self, table: TableName) -> Horizon:
        return self._under_way.apart(lambda: self._horizons.current(table), name="horizon")


class PassReader:
    """The reader for one pass; it is made with the first reading, and with it all that it stands on."""

    def __init__(self, made: "Callable[[], SparkReader]", under_way: UnderWay) -> None:
        self._made = made
        self._under_way = under_way

    def prepare(self, *, little: bool) -> None:
        self._made().prepare(little=little)

    def read(self, reading: Reading, *, tell: Callable[[int], None] = lambda _rows: None) -> Read:
        return self._made().read(reading, tell=tell, under_way=self._under_way)
