"""The commit horizon: the instant before which no stamp of the server can still appear."""

from syncd.horizon.notes import HorizonNotes, IdCandidate
from syncd.horizon.readings import NO_CONNECTION, HorizonPoll, ServerThread, Visibility, WritingTransaction
from syncd.horizon.rule import compute_horizons
from syncd.horizon.stamps import (
    BeforeTrigger,
    StampKind,
    find_bypassing_trigger,
    find_stamp_kind,
    find_unstamped_change,
    parse_triggers,
)

__all__ = [
    "NO_CONNECTION",
    "BeforeTrigger",
    "HorizonNotes",
    "HorizonPoll",
    "IdCandidate",
    "ServerThread",
    "StampKind",
    "Visibility",
    "WritingTransaction",
    "compute_horizons",
    "find_bypassing_trigger",
    "find_stamp_kind",
    "find_unstamped_change",
    "parse_triggers",
]
