"""The commit horizon: the instant such that no row stamped before it can still appear."""

from syncd.horizon.automatic_timestamps import (
    BeforeTrigger,
    StampKind,
    find_bypassing_trigger,
    find_stamp_kind,
    find_unstamped_change,
    parse_triggers,
)
from syncd.horizon.horizon_notes import HorizonNotes, IdCandidate
from syncd.horizon.horizon_rule import compute_horizons
from syncd.horizon.transaction_readings import NO_CONNECTION, HorizonPoll, ServerThread, Visibility, WritingTransaction

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
