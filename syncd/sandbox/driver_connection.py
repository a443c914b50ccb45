"""The driver's connection to the stand-in, of which nothing is left where its greeting fails."""

from contextlib import suppress
from typing import Any

from redshift_connector.core import Connection


class StandInConnection(Connection):
    """As the driver's own, which leaves its socket open to chance where a server that listens does not greet."""

    def __init__(self, **words: Any) -> None:  # noqa: ANN401  # as the driver has them
        try:
            super().__init__(**words)
        except BaseException:
            for end in (getattr(self, "_sock", None), getattr(self, "_usock", None)):
                if end is not None:
                    with suppress(OSError):  # what was not sent yet need not be
                        end.close()
            raise
