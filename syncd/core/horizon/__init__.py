"""The commit horizon: the instant before which no stamp of the server can still appear."""

from syncd.core.horizon.notes import Candidate, Notes
from syncd.core.horizon.readings import NO_CLIENT, Readings, Sight, Thread, Writer
from syncd.core.horizon.rule import judge
from syncd.core.horizon.stamps import Stamp, stamp_of, unstamped
from syncd.core.horizon.triggers import Trigger, bypassed, triggers_of
from syncd.core.horizon.walls import floor_to, wall_bound, zone_of

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
