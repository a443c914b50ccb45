"""Whose turn is it on the connections to one server? Each question borrows one, and no more are open than may be."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from syncd.adapters.mysql.replica import Position, Replication
from syncd.adapters.mysql.source import MySqlSource
from syncd.core.errors import SourceUnfit
from syncd.core.places import NOBODY
from syncd.core.schema import Server, Table
from syncd.core.underway import UnderWay

if TYPE_CHECKING:
    from syncd.adapters.mysql.poll import Poller
    from syncd.core.places import Places

QUESTIONS: Final = "questions"

Connections: TypeAlias = "Places[MySqlSource | Poller]"
"""The places at one server, and what is open there."""


class LentSource:
    """The port `Source` for one pass, or for all: each question is asked over a connection that is lent for it.

    None is held from one question to the next, and so none while something else is waited for.
    """

    def __init__(self, places: Connections, make: Callable[[], MySqlSource], *, under_way: UnderWay = NOBODY) -> None:
        self._places = places
        self._make = make
        self._under_way = under_way

    @contextmanager
    def lent(self) -> Generator[MySqlSource]:
        """A connection for a while, ended with the pass.

        Raises:
            PassStopped: the pass was ended, before or meanwhile.
        """
        found = self._places.take(self._under_way, kind=QUESTIONS)
        source = found if isinstance(found, MySqlSource) else self._make()
        try:
            with self._under_way.holding(source.abort):
                yield source
        except SourceUnfit:
            raise  # the whole answer came
        except BaseException as error:
            source.close()  # what comes next on this line may answer an older question
            if self._under_way.ended and isinstance(error, Exception):
                raise self._under_way.stopped() from error
            raise
        finally:
            if source.waits:
                self._places.park(source, kind=QUESTIONS)
            else:
                source.close()
                self._places.give_back()

    def server(self) -> Server:
        with self.lent() as source:
            return source.server()

    def table(self, database: str, name: str) -> Table:
        with self.lent() as source:
            return source.table(database, name)

    def created_by(self, database: str, name: str) -> str:
        with self.lent() as source:
            return source.created_by(database, name)

    def busy(self) -> str | None:
        with self.lent() as source:
            return source.busy()

    def rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        with self.lent() as source:
            return source.rows(sql)

    def logged(self) -> tuple[Position, str]:
        with self.lent() as source:
            return source.logged()

    def following(self) -> Replication | None:
        with self.lent() as source:
            return source.following()

    def catch_up(self, position: Position, *, primary: str) -> None:
        with self.lent() as source:
            source.catch_up(position, primary=primary)
