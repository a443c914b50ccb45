"""The text of `syncd.yaml` as plain values, each with its place; secrets filled in from the environment and files."""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeAlias
from urllib.parse import quote

import yaml

from syncd.core.errors import ConfigError

Path_: TypeAlias = tuple[str | int, ...]
"""Where a value stands in the document: keys and positions from the top."""

_REFERENCE: Final = re.compile(r"\$\{(?!window\})(file:)?([^}]*)\}")
"""`${window}` is no reference: in a `query` it is the place of a batch's condition."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing wrong with the configuration, and what would mend it."""

    line: int
    key: str
    message: str
    remedy: str = ""


class Misconfigured(ConfigError):
    """Every mistake of the file at once."""

    mistakes: tuple[Mistake, ...] = ()

    @classmethod
    def of(cls, path: str, mistakes: Sequence[Mistake]) -> Self:
        """The error that tells these mistakes of a file, in the order of their lines."""
        ordered = tuple(sorted(mistakes, key=lambda mistake: mistake.line))
        lines = [_told(path, mistake) for mistake in ordered]
        error = cls(lines[0] if len(lines) == 1 else "\n  ".join((f"{len(lines)} mistakes", *lines)))
        error.mistakes = ordered
        return error


@dataclass(slots=True, kw_only=True)
class Text:
    """A document as values, where each of them stands, and what could not be read."""

    path: str
    values: Any = None
    lines: dict[Path_, int] = field(default_factory=dict[Path_, int])
    mistakes: list[Mistake] = field(default_factory=list[Mistake])

    def line_of(self, place: Path_) -> int:
        """The line of a place, or of the nearest one around it that is written down."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read_text(path: Path, environ: Mapping[str, str]) -> Text:
    """The file's values and their places.

    Raises:
        ConfigError: there is no such file, or it is not YAML.
    """
    try:
        body = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path} is not there", hint="Name another file: --config FILE or SYNCD_CONFIG.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    return parse_text(body, path=str(path), environ=environ)


def parse_text(body: str, *, path: str, environ: Mapping[str, str]) -> Text:
    """The values of a text of YAML, each scalar with its references filled in."""
    try:
        root = yaml.compose(body, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        told = getattr(error, "problem", None) or "not YAML"
        raise Misconfigured.of(path, [Mistake(line=line, key="", message=f"this is no YAML: {told}")]) from error
    text = Text(path=path)
    if root is None:
        raise Misconfigured.of(path, [Mistake(line=1, key="", message="the file is empty", remedy="See: syncd init")])
    text.values = _Reader(text, environ).value(root, ())
    return text


class _Reader:
    """Walks the nodes of one document."""

    def __init__(self, text: Text, environ: Mapping[str, str]) -> None:
        self._text = text
        self._fill = _filler(environ)
        self._plain = yaml.SafeLoader("")

    def value(self, node: yaml.Node, place: Path_) -> Any:  # noqa: ANN401  # whatever the file holds
        self._text.lines.setdefault(place, node.start_mark.line + 1)
        match node:
            case yaml.MappingNode():
                return self._mapping(node, place)
            case yaml.SequenceNode():
                return [self.value(inner, (*place, at)) for at, inner in enumerate(node.value)]
            case _:
                return self._scalar(node, place)

    def _mapping(self, node: yaml.MappingNode, place: Path_) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in found:
                self._mistake(line, (*place, key), "stands here twice", "Keep one of the two.")
            self._text.lines[*place, key] = line
            found[key] = self.value(value_node, (*place, key))
        return found

    def _scalar(self, node: yaml.Node, place: Path_) -> Hashable:
        written = str(node.value)
        if _REFERENCE.search(written):
            return self._filled(written, node, place)
        if node.tag.endswith(":timestamp"):
            return written  # instants are ours to read, not YAML's
        return self._plain.construct_object(node)  # type: ignore[no-any-return]  # PyYAML tells no types

    def _filled(self, written: str, node: yaml.Node, place: Path_) -> str:
        try:
            return self._fill(written)
        except ConfigError as error:
            self._mistake(node.start_mark.line + 1, place, error.message, error.hint)
            return written

    def _mistake(self, line: int, place: Path_, message: str, remedy: str) -> None:
        self._text.mistakes.append(Mistake(line=line, key=key_of(place), message=message, remedy=remedy))


def key_of(place: Path_) -> str:
    """A place as one writes it: `tables.shop.orders.cursor`."""
    return ".".join(str(part) for part in place)


def _filler(environ: Mapping[str, str]) -> Callable[[str], str]:
    def fill(written: str) -> str:
        return "".join(_pieces(written, environ))

    return fill


def _pieces(written: str, environ: Mapping[str, str]) -> Iterator[str]:
    """The text with each reference replaced; inside the user part of a URL as percent escapes."""
    done = 0
    for match in _REFERENCE.finditer(written):
        yield written[done : match.start()]
        secret = _from_file(match[2]) if match[1] else _from_environment(match[2], environ)
        yield quote(secret, safe="") if _in_user_part(written, match.start(), match.end()) else secret
        done = match.end()
    yield written[done:]


def _from_environment(name: str, environ: Mapping[str, str]) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"${{{name}}} is no reference", hint="Write ${NAME} or ${file:/path}.")
    if name not in environ:
        raise ConfigError(f"the environment has no {name}", hint=f"Set it: export {name}=..., or in the unit file.")
    return environ[name]


def _from_file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"{name} cannot be read: {why}", hint="May this user read the file?") from error


def _in_user_part(written: str, start: int, end: int) -> bool:
    scheme = written.find("://")
    return 0 <= scheme < start and "@" in written[end:].partition("/")[0]


def _told(path: str, mistake: Mistake) -> str:
    key = f"{mistake.key}: " if mistake.key else ""
    remedy = f" ({mistake.remedy})" if mistake.remedy else ""
    return f"{path}:{mistake.line}: {key}{mistake.message}{remedy}"
