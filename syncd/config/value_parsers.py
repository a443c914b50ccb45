"""The small words of the configuration: durations, instants, addresses."""

import ipaddress
import re
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from syncd.cron import parse_cron
from syncd.settings import ListenAddress

MAX_DURATION: Final = timedelta(days=36_500)
"""No duration is longer: with any of these the calendar goes on, in both directions."""
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
DURATION_PATTERN: Final = r"([0-9]+(\.[0-9]+)?(ms|[smhdw]))+"
_DURATIONS: Final = re.compile(DURATION_PATTERN)
SYSTEM_SCHEMA_PREFIXES: Final = ("pg_", "information_schema", "catalog_history")
"""What the names of the schemas begin with that are Redshift's own."""
MAX_PORT: Final = 65_535
_CRON: Final = re.compile(r"\S+( \S+){4}")


def parse_duration(text: object) -> timedelta:
    """`30s`, `5m`, `1h30m`, `7d` as a span of time."""
    if not isinstance(text, str) or _DURATIONS.fullmatch(text) is None:
        raise ValueError("write a duration such as 30s, 5m, 12h or 7d")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))
    if seconds > MAX_DURATION.total_seconds():
        raise ValueError(f"write a duration of at most {MAX_DURATION.days}d")
    return timedelta(seconds=seconds)


def parse_positive_duration(text: object) -> timedelta:
    """The same, of what makes no sense where it is over at once."""
    if not (found := parse_duration(text)):
        raise ValueError("write a duration above zero, such as 5s")
    return found


def is_cron(text: str) -> bool:
    return _CRON.fullmatch(text) is not None


def parse_interval_or_cron(text: object) -> str:
    """A duration or five fields of cron, as written."""
    if isinstance(text, str) and is_cron(text):
        parse_cron(text)
        return text
    if not isinstance(text, str) or _DURATIONS.fullmatch(text) is None:
        raise ValueError("write a duration such as 5m, or five fields of cron such as '0 3 * * *'")
    parse_positive_duration(text)
    return text


def parse_listen_address(text: object) -> object:
    """`127.0.0.1:8080`, `[::1]:8080` or `:8080`, which is all addresses; `off`, which YAML reads as no, is none."""
    if text is False or text == "off":
        return None
    if not isinstance(text, str):
        return text
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > MAX_PORT:
        raise ValueError("write where to listen, such as 127.0.0.1:8080, or off")
    return ListenAddress(host=host.strip("[]") or "0.0.0.0", port=int(port))  # noqa: S104  # who writes no host asks for it


def parse_lenient_instant(text: object) -> datetime:
    """`2026-01-31` or `2026-01-31T12:00:00Z` as an instant; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(str(text))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("write an instant such as 2026-01-31 or 2026-01-31T12:00:00Z") from error


def parse_url(text: object, *schemes: str) -> SplitResult:
    """A URL of one of the schemes, with a host."""
    form = f"{schemes[0]}://..."
    if not isinstance(text, str):
        raise ValueError(f"write an address such as {form}")  # noqa: TRY004  # pydantic collects no TypeError
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"this is no address: {_describe_url_error(error)}") from None
    if parts.scheme not in schemes or not parts.hostname or port == 0:
        # The address itself may hold a password, so it is not repeated.
        raise ValueError(f"write an address such as {form}")
    return parts


def _describe_url_error(error: ValueError) -> str:
    return "its port is no number" if "ort" in str(error) else "it cannot be taken apart"


def extract_credentials(parts: SplitResult) -> tuple[str, str]:
    """User and password of an address, without their percent escapes."""
    return unquote(parts.username or ""), unquote(parts.password or "")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
