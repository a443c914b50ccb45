"""The text of `syncd.yaml` as plain values, each with its place; secrets filled in from the environment and files."""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, unquote

import yaml
from yaml.error import MarkedYAMLError

from syncd.config.redaction import Path_, hidden, key_of, shown
from syncd.errors import ConfigError

_REFERENCE: Final = re.compile(r"\$\{(?!window\})(file:)?([^}]*)\}")
"""`${window}` is no reference: in a `query` it is the place of a batch's condition."""
_DEEPEST: Final = 50
"""How many lists and groups may lie within each other, twice and more what anything here needs."""
_TOO_DEEP: Final = f"lies more than {_DEEPEST} lists and groups deep"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing wrong with the configuration, and what would mend it."""

    line: int
    column: int = 1
    key: str
    message: str
    value: str = ""
    """What stands there, as it is written; empty: nothing, or nothing that may be shown."""
    remedy: str = ""

    @property
    def told(self) -> str:
        """The mistake in words, without its place."""
        found = f"; found {self.value!r}" if self.value and repr(self.value) not in self.message else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.message}{found}{remedy}"

    def at(self, path: str) -> str:
        """The mistake in one line, with its place as editors and terminals know to open it."""
        key = f"{self.key}: " if self.key else ""
        return f"{path}:{self.line}:{self.column}: {key}{self.told}"


class Spot(NamedTuple):
    """A place in the file as editors count: from 1."""

    line: int
    column: int


class Misconfigured(ConfigError):
    """Every mistake of the file at once."""

    mistakes: tuple[Mistake, ...] = ()

    @classmethod
    def of(cls, path: str, mistakes: Sequence[Mistake]) -> Self:
        """The error that tells these mistakes of a file, in the order of their lines."""
        ordered = tuple(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))
        lines = [mistake.at(path) for mistake in ordered]
        error = cls(lines[0] if len(lines) == 1 else "\n  ".join((f"{len(lines)} mistakes", *lines)))
        error.mistakes = ordered
        return error


@dataclass(slots=True, kw_only=True)
class Text:
    """A document as values, where each of them stands, and what could not be read."""

    path: str
    values: Any = None
    keys: dict[Path_, Spot] = field(default_factory=dict[Path_, Spot])
    """Where each key stands, and each item of a list."""
    scalars: dict[Path_, tuple[Spot, str]] = field(default_factory=dict[Path_, tuple[Spot, str]])
    """Where each plain value stands, and how it is written: with its references, not what fills them in."""
    secrets: dict[Path_, tuple[str, ...]] = field(default_factory=dict[Path_, tuple[str, ...]])
    """What was filled in at a place."""
    mistakes: list[Mistake] = field(default_factory=list[Mistake])

    def spot_of(self, place: Path_, *, key: bool = False) -> Spot:
        """Where the value of a place stands (or its key), or the nearest one around it that is written down."""
        if not key and place in self.scalars:
            return self.scalars[place][0]
        while place and place not in self.keys:
            place = place[:-1]
        return self.keys.get(place, Spot(1, 1))

    def mistake(self, place: Path_, message: str, remedy: str = "", *, key: bool = False) -> Mistake:
        """What is wrong with the value at a place, or with its key; no secret is repeated."""
        line, column = self.spot_of(place, key=key)
        written = "" if key or place not in self.scalars else self.scalars[place][1]
        for secret in self.secrets.get(place, ()):
            message, remedy = hidden(secret, message), hidden(secret, remedy)
        value = shown(place, written)
        return Mistake(line=line, column=column, key=key_of(place), message=message, value=value, remedy=remedy)


def read_text(path: Path, environ: Mapping[str, str]) -> Text:
    """The file's values and their places.

    Raises:
        ConfigError: there is no such file, or it is not YAML.
    """
    try:
        body = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} is not there",
            hint="Name another file: --config FILE or SYNCD_CONFIG. To write one: syncd init MYSQL_URL",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    return parse_text(body, path=str(path), environ=environ)


def table_names(path: str) -> list[str]:
    """The tables that a file names, as far as it can be read; no secret is asked for."""
    try:
        root = _composed(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    parts = root.value if isinstance(root, yaml.MappingNode) else []
    tables = next((part for key, part in parts if key.value == "tables"), None)
    return [str(key.value) for key, _ in tables.value] if isinstance(tables, yaml.MappingNode) else []


def parse_text(body: str, *, path: str, environ: Mapping[str, str]) -> Text:
    """The values of a text of YAML, each scalar with its references filled in."""
    try:
        root = _composed(body)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        told = getattr(error, "problem", None) or "not YAML"
        wrong = Mistake(line=line, column=column, key="", message=f"cannot be read as YAML: {told}")
        raise Misconfigured.of(path, [wrong]) from error
    text = Text(path=path)
    if root is None:
        raise Misconfigured.of(path, [Mistake(line=1, key="", message="the file is empty", remedy="See: syncd init")])
    text.values = _Reader(text, environ).value(root, ())
    return text


def _composed(body: str) -> yaml.Node | None:
    found: yaml.Node | None = yaml.compose(body, Loader=_Loader)
    return found


class _Loader(yaml.SafeLoader):
    """Gives up what lies deeper than anything here does, before Python itself gives up."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if parent is not None and self._depth > _DEEPEST:
            raise MarkedYAMLError(problem=_TOO_DEEP, problem_mark=parent.start_mark)
        found: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return found


class _Reader:
    """Walks the nodes of one document."""

    def __init__(self, text: Text, environ: Mapping[str, str]) -> None:
        self._text = text
        self._fill = _filler(environ)
        self._plain = yaml.SafeLoader("")
        self._within: set[int] = set()

    def value(self, node: yaml.Node, place: Path_) -> Any:  # noqa: ANN401  # whatever the file holds
        self._text.keys.setdefault(place, _spot(node))
        if id(node) in self._within:
            self._mistake(place, "holds itself", "Write it out.")
            return None
        if len(place) >= _DEEPEST:  # by names that stand for others
            self._mistake(place, _TOO_DEEP, "Write it out.")
            return None
        match node:
            case yaml.MappingNode() | yaml.SequenceNode():
                self._within.add(id(node))
                found = self._mapping(node, place) if isinstance(node, yaml.MappingNode) else self._list(node, place)
                self._within.remove(id(node))
                return found
            case _:
                return self._scalar(node, place)

    def _list(self, node: yaml.SequenceNode, place: Path_) -> list[Any]:
        return [self.value(inner, (*place, at)) for at, inner in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, place: Path_) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            twice = key in found
            self._text.keys[*place, key] = _spot(key_node)
            if twice:
                self._mistake((*place, key), "stands here twice", "Keep one of the two.", key=True)
            found[key] = self.value(value_node, (*place, key))
        return found

    def _scalar(self, node: yaml.Node, place: Path_) -> Hashable:
        written = str(node.value)
        self._text.scalars[place] = (_spot(node), written)
        if _REFERENCE.search(written):
            return self._filled(written, place)
        if node.tag.endswith(":timestamp"):
            return written  # instants are ours to read, not YAML's
        try:
            return self._plain.construct_object(node)  # type: ignore[no-any-return]  # PyYAML tells no types
        except (yaml.YAMLError, ValueError, LookupError, ArithmeticError):  # each kind of value fails in its own way
            kind = node.tag.rpartition(":")[2]
            self._mistake(place, f"cannot be read as {kind}", "Put it in quotes, or leave the tag out.")
            return None

    def _filled(self, written: str, place: Path_) -> str:
        try:
            filled = self._fill(written)
        except ConfigError as error:
            self._mistake(place, error.message, error.hint)
            return written
        self._text.secrets[place] = tuple(piece for piece in (filled, unquote(filled)) if piece)
        return filled

    def _mistake(self, place: Path_, message: str, remedy: str, *, key: bool = False) -> None:
        self._text.mistakes.append(self._text.mistake(place, message, remedy, key=key))


def _spot(node: yaml.Node) -> Spot:
    return Spot(node.start_mark.line + 1, node.start_mark.column + 1)


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
    if not _is_text(environ[name]):
        raise ConfigError(f"what the environment has as {name} is no text", hint="Write it in UTF-8.")
    return environ[name]


def _is_text(value: str) -> bool:
    """Whether it is; bytes that are not come from the environment as characters that nobody can write."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _from_file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text, or no file has such a name"
        raise ConfigError(f"{name} cannot be read: {why}", hint="May this user read the file?") from error


def _in_user_part(written: str, start: int, end: int) -> bool:
    scheme = written.find("://")
    return 0 <= scheme < start and "@" in written[end:].partition("/")[0]
