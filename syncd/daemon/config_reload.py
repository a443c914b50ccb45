"""What became of a configuration that was read again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from syncd.config.mistakes import ConfigMistake, Misconfigured
from syncd.errors import to_hinted_error
from syncd.settings import DaemonSettings, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadResult:
    """The answer to whoever asked for it."""

    changed: bool = False
    error: str = ""
    """Why the settings of before stay in force; empty where they do not."""
    hint: str = ""
    mistakes: tuple[ConfigMistake, ...] = ()
    needs_restart: bool = False
    """Whether something was changed that only a new start brings into force."""
    is_pending: bool = False
    """Whether it was asked for and is not done yet, so that nothing is known of the file."""

    def to_json(self) -> dict[str, Any]:
        """As it is told to another process, and printed for programs."""
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
    """The answer where the loop has not come to it; it is done as soon as the loop is free, unless that is `ending`."""
    return ReloadResult(
        error=f"the daemon has not read the file yet: it was asked {waited_seconds:g} s ago and is busy",
        hint="It stops: the next start reads the file."
        if is_stopping
        else "It reads the file as soon as that is over, and its log says what came of it, as `syncd reload` does then."
        " Does the lake answer? What is held there is given back first.",
        is_pending=True,
    )


def reload_settings(read_settings: Callable[[], Settings], before: Settings) -> tuple[ReloadResult, Settings]:
    """The answer, and the settings that are to be in force from now on."""
    try:
        after = read_settings()
    except Exception as error:  # noqa: BLE001  # whatever a file does to its reader, the streams go on
        told = to_hinted_error(error)
        mistakes = told.mistakes if isinstance(told, Misconfigured) else ()
        return ReloadResult(error=told.message, hint=told.hint, mistakes=mistakes), before
    return ReloadResult(
        changed=after != before, needs_restart=_restart_only_settings(after) != _restart_only_settings(before)
    ), after


def _restart_only_settings(settings: Settings) -> object:
    """What is put up once, around the loop."""
    return replace(settings.daemon, stop_timeout=DaemonSettings().stop_timeout)
