"""Parsers for single values of the configuration: durations, instants, addresses."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from syncd.cron import parse_cron
from syncd.settings import ListenAddress

MAX_DURATION: Final = timedelta(days=36_500)
"""Limit that keeps every sum of an instant and a duration within the calendar."""
REFERENCE_PATTERN: Final = r"\$\{(?!window\})"
"""Start of a reference such as `${NAME}`. `${window}` is none: in a `query` it is the place of a batch's condition."""
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
DURATION_PATTERN: Final = r"([0-9]+(\.[0-9]+)?(ms|[smhdw]))+"
_DURATIONS: Final = re.compile(DURATION_PATTERN)
SYSTEM_SCHEMA_PREFIXES: Final = ("pg_", "information_schema", "catalog_history")
"""Prefixes of the schemas that Redshift reserves for itself."""
MAX_PORT: Final = 65_535
_CRON: Final = re.compile(r"\S+( \S+){4}")


def parse_duration(text: object) -> timedelta:
    """Parse `30s`, `5m`, `1h30m` or `7d`."""
    if not isinstance(text, str) or _DURATIONS.fullmatch(text) is None:
        raise ValueError("write a duration such as 30s, 5m, 12h or 7d")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))
    if seconds > MAX_DURATION.total_seconds():
        raise ValueError(f"write a duration of at most {MAX_DURATION.days}d")
    return timedelta(seconds=seconds)


def parse_positive_duration(text: object) -> timedelta:
    """Parse a duration that must not be zero."""
    if not (duration := parse_duration(text)):
        raise ValueError("write a duration above zero, such as 5s")
    return duration


def parse_interval_or_cron(text: object) -> timedelta | str:
    """Parse an interval; return five fields of cron as written, once they are checked."""
    if isinstance(text, str) and _CRON.fullmatch(text):
        parse_cron(text)
        return text
    if not isinstance(text, str) or _DURATIONS.fullmatch(text) is None:
        raise ValueError("write a duration such as 5m, or five fields of cron such as '0 3 * * *'")
    return parse_positive_duration(text)


def parse_listen_address(text: object) -> object:
    """Parse `127.0.0.1:8080`, `[::1]:8080` or `:8080` (all addresses); `off`, which YAML reads as false, is None."""
    if text is False or text == "off":
        return None
    if not isinstance(text, str):
        return text
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > MAX_PORT:
        raise ValueError("write where to listen, such as 127.0.0.1:8080, or off")
    return ListenAddress(host=host.strip("[]") or "0.0.0.0", port=int(port))  # noqa: S104  # an omitted host means all


def parse_lenient_instant(text: object) -> datetime:
    """Parse `2026-01-31` or `2026-01-31T12:00:00Z`; an instant without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(str(text))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("write an instant such as 2026-01-31 or 2026-01-31T12:00:00Z") from error


def parse_url(text: object, *schemes: str) -> SplitResult:
    """Parse a URL of one of the schemes; it must name a host."""
    form = f"{schemes[0]}://..."
    if not isinstance(text, str):
        raise ValueError(f"write an address such as {form}")  # noqa: TRY004  # pydantic collects no TypeError
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        problem = "the port is not a number" if "ort" in str(error) else "it cannot be parsed"
        raise ValueError(f"not a valid address: {problem}") from None
    if parts.scheme not in schemes or not parts.hostname or port == 0:
        # The address itself may hold a password, so the message does not repeat it.
        raise ValueError(f"write an address such as {form}")
    return parts


def extract_credentials(parts: SplitResult) -> tuple[str, str]:
    """Return user and password of an address, without percent escapes."""
    return unquote(parts.username or ""), unquote(parts.password or "")
