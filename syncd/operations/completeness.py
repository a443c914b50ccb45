"""Up to which instant does a mark say that everything is there?"""

from datetime import UTC, datetime, tzinfo

from watermarks.cursor import Cursor, ValueKind


def mark_to_instant(mark: Cursor, *, zone: tzinfo | None) -> datetime | None:
    """The instant of a mark; None where its order is none of time, or nobody said in which zone its clock goes."""
    if not mark:
        return None
    first = mark.values[0]
    plain = first.raw
    if not isinstance(plain, datetime):
        return None
    if first.kind is ValueKind.INSTANT:
        return plain
    return None if zone is None else plain.replace(tzinfo=zone).astimezone(UTC)


def latest_known(*instants: datetime | None) -> datetime | None:
    """The last of those that are known."""
    return max((instant for instant in instants if instant is not None), default=None)
