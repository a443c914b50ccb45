"""The commit horizon: the instant before which no stamp of the server can still appear."""

from syncd.horizon.notes import Candidate, Notes
from syncd.horizon.readings import NO_CLIENT, Readings, Sight, Thread, Writer
from syncd.horizon.rule import judge
from syncd.horizon.stamps import Stamp, stamp_of, unstamped
from syncd.horizon.triggers import Trigger, bypassed, triggers_of
from syncd.tables.wall_clock import floor_to, wall_bound, zone_of

__all__ = [
    "NO_CLIENT",
    "Candidate",
    "Notes",
    "Readings",
    "Sight",
    "Stamp",
    "Thread",
    "Trigger",
    "Writer",
    "bypassed",
    "floor_to",
    "judge",
    "stamp_of",
    "triggers_of",
    "unstamped",
    "wall_bound",
    "zone_of",
]
