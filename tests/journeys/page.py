"""The page of the first hour, made of what was played."""

from collections.abc import Iterable, Mapping

from tests.journeys.normal import normal
from tests.journeys.playing import Played
from tests.journeys.script import BEFORE, AtSource, Killed

_AFTER = """\
## Placeholders

Values that differ in every run are replaced: instants, file names, durations (`N.N s`), sizes (`N.N kB`), lags (`Ns`),
estimates (`about N`), processes, the user (`you@host`), versions, ports and directories.
"""


def page(played: Iterable[Played | str], *, places: Mapping[str, str]) -> str:
    """The whole page; a text among the steps is a heading."""
    parts = [f"## {one}\n" if isinstance(one, str) else _shown(one, places) for one in played]
    return "\n".join([BEFORE, *parts, _AFTER])


def _shown(one: Played, places: Mapping[str, str]) -> str:
    step = one.step
    if isinstance(step, AtSource):
        statements = "".join(f"{statement};\n" for statement in step.statements)
        return f"{step.why}\n\n```sql\n{statements}```\n"
    typed = step.typed.replace("{mysql}", "127.0.0.1:3306").replace("{redshift}", "127.0.0.1:5439")
    printed = normal(one.printed, places=places)
    if isinstance(step, Killed):
        printed += "Killed\n"
    code = f"$ echo $?\n{one.exits}\n" if one.exits else ""
    return f"{step.why}\n\n```console\n$ {typed}\n{printed}{code}```\n"
