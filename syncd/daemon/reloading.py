"""What became of a configuration that was read again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from syncd.config.read import Misconfigured, Mistake
from syncd.core.errors import hinted
from syncd.core.settings import DaemonSettings, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """The answer to whoever asked for it."""

    changed: bool = False
    error: str = ""
    """Why the settings of before stay in force; empty where they do not."""
    hint: str = ""
    mistakes: tuple[Mistake, ...] = ()
    later: bool = False
    """Whether something was changed that only a new start brings into force."""

    def fields(self) -> dict[str, Any]:
        """As it is told to another process, and printed for programs."""
        mistakes = [
            {"line": one.line, "column": one.column, "key": one.key, "message": one.message, "remedy": one.remedy}
            for one in self.mistakes
        ]
        return {
            "changed": self.changed,
            "needs_restart": self.later,
            "error": self.error or None,
            "hint": self.hint,
            "mistakes": mistakes,
        }


def read_again(read: Callable[[], Settings], before: Settings) -> tuple[Reloaded, Settings]:
    """The answer, and the settings that are to be in force from now on."""
    try:
        after = read()
    except Exception as error:  # noqa: BLE001  # whatever a file does to its reader, the streams go on
        told = hinted(error)
        mistakes = told.mistakes if isinstance(told, Misconfigured) else ()
        return Reloaded(error=told.message, hint=told.hint, mistakes=mistakes), before
    return Reloaded(changed=after != before, later=_later(after) != _later(before)), after


def _later(settings: Settings) -> object:
    """What is put up once, around the loop."""
    return replace(settings.daemon, stop_timeout=DaemonSettings().stop_timeout)
