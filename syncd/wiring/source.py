"""One source: the way to it, its connections, and whoever reads from it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from syncd.adapters.mysql.following import AppliedHorizons, FollowedHorizons
from syncd.adapters.mysql.horizon import ServerHorizons
from syncd.adapters.mysql.source import MySqlSource
from syncd.adapters.mysql.way import Way, way_to
from syncd.adapters.notes import StoredNotes
from syncd.core.reading import Read, Reading
from syncd.core.settings import SourceSettings
from syncd.wiring.once import once
from syncd.wiring.opened import Opened

if TYPE_CHECKING:
    from syncd.core.ports import Horizons, Reader
    from syncd.wiring.service import Service


class Server(Opened):
    """One source with the connections that lead to it."""

    def __init__(self, settings: SourceSettings, service: "Service") -> None:
        super().__init__()
        self.settings: Final = settings
        self._service = service
        self._asking = list[Callable[[], None]]()

    @once
    def way(self) -> Way:
        return self._stack.enter_context(way_to(self.settings))

    @once
    def source(self) -> MySqlSource:
        source = MySqlSource(self.settings, self.way.open, meter=self._service.meter)
        self._stack.callback(source.close)
        return source

    @once
    def horizons(self) -> "Horizons":
        """The horizons of where rows are stamped; for a replica, once it has what they cover."""
        primary = self.settings.primary
        if primary is None:
            return AppliedHorizons(self._polled(self.settings, self.way), self.source)
        way = self._stack.enter_context(way_to(primary))
        at_primary = MySqlSource(primary, way.open, meter=self._service.meter)
        self._stack.callback(at_primary.close)
        self._asking.append(at_primary.close)
        return FollowedHorizons(self._polled(primary, way), primary=at_primary, replica=self.source)

    def _polled(self, settings: SourceSettings, way: Way) -> ServerHorizons:
        keeper = StoredNotes(self._service.store, self.settings.name)
        horizons = ServerHorizons(settings, way.open, keeper, meter=self._service.meter)
        self._stack.callback(horizons.close)
        self._asking.append(horizons.rest)
        return horizons

    def rest(self) -> None:
        """End every connection that waits for a question: readers may have `max_connections`, and that is all.

        Streams of one server run one after another; whoever lets them run at once has to share its connections out.
        """
        for end in (self.source.close, *self._asking):
            end()

    @once
    def reader(self) -> "Reader":
        return self._service.reader_of(self)


class LateReader:
    """A reader that is made with the first reading, and with it all that it stands on; `alone` makes room for it."""

    def __init__(self, make: "Callable[[], Reader]", *, alone: Callable[[], None]) -> None:
        self._make = make
        self._alone = alone
        self._made: Reader | None = None

    def prepare(self, *, little: bool) -> None:
        self._made = self._made or self._make()
        self._made.prepare(little=little)

    def read(self, reading: Reading, *, tell: Callable[[int], None] = lambda _rows: None) -> Read:
        self._made = self._made or self._make()
        self._alone()
        return self._made.read(reading, tell=tell)
