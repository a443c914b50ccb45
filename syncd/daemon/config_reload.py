"""Reloads of the configuration and their results."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from syncd.config.mistakes import ConfigMistake, Misconfigured
from syncd.errors import to_hinted_error
from syncd.settings import DaemonSettings, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadResult:
    """Result of a reload."""

    changed: bool = False
    error: str = ""
    """Reason for which the settings before the reload stay in force; empty if they do not."""
    hint: str = ""
    mistakes: tuple[ConfigMistake, ...] = ()
    needs_restart: bool = False
    """True if a change comes into force only with a restart."""
    is_pending: bool = False
    """True if the file is not read yet, so that nothing is known of it."""

    def to_json(self) -> dict[str, Any]:
        mistakes = [
            {"line": one.line, "column": one.column, "key": one.key, "message": one.message, "remedy": one.remedy}
            for one in self.mistakes
        ]
        return {
            "changed": self.changed,
            "needs_restart": self.needs_restart,
            "pending": self.is_pending,
            "error": self.error or None,
            "hint": self.hint,
            "mistakes": mistakes,
        }


def reload_pending(*, waited_seconds: float, is_stopping: bool = False) -> ReloadResult:
    """Return the result of a reload that the loop has not begun; it reads the file once it is free, unless it stops."""
    hint = (
        "The daemon is stopping: it reads the file at its next start."
        if is_stopping
        else "The daemon reads the file as soon as it is free, and logs the result. It releases its leases in the lake"
        " first: check that the lake answers."
    )
    return ReloadResult(
        error=f"the daemon is busy and has not read the file yet; the reload was requested {waited_seconds:g} s ago",
        hint=hint,
        is_pending=True,
    )


def reload_settings(read_settings: Callable[[], Settings], before: Settings) -> tuple[ReloadResult, Settings]:
    """Read the configuration; return the result and the settings that are in force from now on."""
    try:
        after = read_settings()
    except Exception as caught:  # noqa: BLE001  # no file may stop the streams, whatever it does to its reader
        error = to_hinted_error(caught)
        mistakes = error.mistakes if isinstance(error, Misconfigured) else ()
        return ReloadResult(error=error.message, hint=error.hint, mistakes=mistakes), before
    needs_restart = _restart_only_settings(after) != _restart_only_settings(before)
    return ReloadResult(changed=after != before, needs_restart=needs_restart), after


def _restart_only_settings(settings: Settings) -> object:
    """Return the settings of what is started once, around the loop."""
    return replace(settings.daemon, stop_timeout=DaemonSettings().stop_timeout)
