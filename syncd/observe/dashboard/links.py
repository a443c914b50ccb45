"""Where pages of the dashboard are."""

from urllib.parse import quote

from syncd.observe.dashboard.markup import Markup, tag
from watermarks.names import StreamName


def stream_path(stream: StreamName) -> str:
    """The path of a stream's page: its name as one piece."""
    return f"/streams/{quote(str(stream), safe='')}"


def stream_link(stream: StreamName) -> Markup:
    return tag("a", stream.table_name, href=stream_path(stream))
