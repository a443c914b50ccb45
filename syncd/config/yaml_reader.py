"""The text of `syncd.yaml` as plain values, each with its place; secrets filled in from the environment and files."""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, unquote

import yaml
from yaml.error import MarkedYAMLError

from syncd.config.redaction import KeyPath, format_key_path, mask_secret, redact_value
from syncd.errors import ConfigError

_REFERENCE_PATTERN: Final = re.compile(r"\$\{(?!window\})(file:)?([^}]*)\}")
"""`${window}` is no reference: in a `query` it is the place of a batch's condition."""
_MAX_DEPTH: Final = 50
"""How many lists and groups may lie within each other, twice and more what anything here needs."""
_TOO_DEEP_MESSAGE: Final = f"lies more than {_MAX_DEPTH} lists and groups deep"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMistake:
    """One thing wrong with the configuration, and what would mend it."""

    line: int
    column: int = 1
    key: str
    message: str
    value: str = ""
    """What stands there, as it is written; empty: nothing, or nothing that may be shown."""
    remedy: str = ""

    @property
    def description(self) -> str:
        """The mistake in words, without its place."""
        found = f"; found {self.value!r}" if self.value and repr(self.value) not in self.message else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.message}{found}{remedy}"

    def format_with_location(self, path: str) -> str:
        """The mistake in one line, with its place as editors and terminals know to open it."""
        key = f"{self.key}: " if self.key else ""
        return f"{path}:{self.line}:{self.column}: {key}{self.description}"


class FilePosition(NamedTuple):
    """A place in the file as editors count: from 1."""

    line: int
    column: int


class Misconfigured(ConfigError):
    """Every mistake of the file at once."""

    mistakes: tuple[ConfigMistake, ...] = ()

    @classmethod
    def from_mistakes(cls, path: str, mistakes: Sequence[ConfigMistake]) -> Self:
        """The error that tells these mistakes of a file, in the order of their lines."""
        ordered = tuple(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))
        lines = [mistake.format_with_location(path) for mistake in ordered]
        error = cls(lines[0] if len(lines) == 1 else "\n  ".join((f"{len(lines)} mistakes", *lines)))
        error.mistakes = ordered
        return error


@dataclass(slots=True, kw_only=True)
class ConfigDocument:
    """A document as values, where each of them stands, and what could not be read."""

    path: str
    values: Any = None
    key_positions: dict[KeyPath, FilePosition] = field(default_factory=dict[KeyPath, FilePosition])
    """Where each key stands, and each item of a list."""
    scalars: dict[KeyPath, tuple[FilePosition, str]] = field(default_factory=dict[KeyPath, tuple[FilePosition, str]])
    """Where each plain value stands, and how it is written: with its references, not what fills them in."""
    secrets: dict[KeyPath, tuple[str, ...]] = field(default_factory=dict[KeyPath, tuple[str, ...]])
    """What was filled in at a place."""
    mistakes: list[ConfigMistake] = field(default_factory=list[ConfigMistake])

    def find_position(self, key_path: KeyPath, *, key: bool = False) -> FilePosition:
        """Where the value of a place stands (or its key), or the nearest one around it that is written down."""
        if not key and key_path in self.scalars:
            return self.scalars[key_path][0]
        while key_path and key_path not in self.key_positions:
            key_path = key_path[:-1]
        return self.key_positions.get(key_path, FilePosition(1, 1))

    def make_mistake(self, key_path: KeyPath, message: str, remedy: str = "", *, key: bool = False) -> ConfigMistake:
        """What is wrong with the value at a place, or with its key; no secret is repeated."""
        line, column = self.find_position(key_path, key=key)
        written = "" if key or key_path not in self.scalars else self.scalars[key_path][1]
        for secret in self.secrets.get(key_path, ()):
            message, remedy = mask_secret(secret, message), mask_secret(secret, remedy)
        value = redact_value(key_path, written)
        return ConfigMistake(
            line=line, column=column, key=format_key_path(key_path), message=message, value=value, remedy=remedy
        )


def read_document(path: Path, environ: Mapping[str, str]) -> ConfigDocument:
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
    return parse_document(body, path=str(path), environ=environ)


def read_table_names(path: str) -> list[str]:
    """The tables that a file names, as far as it can be read; no secret is asked for."""
    try:
        root = _compose_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    parts = root.value if isinstance(root, yaml.MappingNode) else []
    tables = next((part for key, part in parts if key.value == "tables"), None)
    return [str(key.value) for key, _ in tables.value] if isinstance(tables, yaml.MappingNode) else []


def parse_document(body: str, *, path: str, environ: Mapping[str, str]) -> ConfigDocument:
    """The values of a text of YAML, each scalar with its references filled in."""
    try:
        root = _compose_yaml(body)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        told = getattr(error, "problem", None) or "not YAML"
        wrong = ConfigMistake(line=line, column=column, key="", message=f"cannot be read as YAML: {told}")
        raise Misconfigured.from_mistakes(path, [wrong]) from error
    text = ConfigDocument(path=path)
    if root is None:
        raise Misconfigured.from_mistakes(
            path, [ConfigMistake(line=1, key="", message="the file is empty", remedy="See: syncd init")]
        )
    text.values = _NodeReader(text, environ).read_value(root, ())
    return text


def _compose_yaml(body: str) -> yaml.Node | None:
    found: yaml.Node | None = yaml.compose(body, Loader=_Loader)
    return found


class _Loader(yaml.SafeLoader):
    """Gives up what lies deeper than anything here does, before Python itself gives up."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if parent is not None and self._depth > _MAX_DEPTH:
            raise MarkedYAMLError(problem=_TOO_DEEP_MESSAGE, problem_mark=parent.start_mark)
        found: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return found


class _NodeReader:
    """Walks the nodes of one document."""

    def __init__(self, document: ConfigDocument, environ: Mapping[str, str]) -> None:
        self._document = document
        self._fill_references = _make_reference_filler(environ)
        self._scalar_loader = yaml.SafeLoader("")
        self._open_node_ids: set[int] = set()

    def read_value(self, node: yaml.Node, key_path: KeyPath) -> Any:  # noqa: ANN401  # whatever the file holds
        self._document.key_positions.setdefault(key_path, _position_of(node))
        if id(node) in self._open_node_ids:
            self._add_mistake(key_path, "holds itself", "Write it out.")
            return None
        if len(key_path) >= _MAX_DEPTH:  # by names that stand for others
            self._add_mistake(key_path, _TOO_DEEP_MESSAGE, "Write it out.")
            return None
        match node:
            case yaml.MappingNode() | yaml.SequenceNode():
                self._open_node_ids.add(id(node))
                found = (
                    self._read_mapping(node, key_path)
                    if isinstance(node, yaml.MappingNode)
                    else self._read_list(node, key_path)
                )
                self._open_node_ids.remove(id(node))
                return found
            case _:
                return self._read_scalar(node, key_path)

    def _read_list(self, node: yaml.SequenceNode, key_path: KeyPath) -> list[Any]:
        return [self.read_value(inner, (*key_path, at)) for at, inner in enumerate(node.value)]

    def _read_mapping(self, node: yaml.MappingNode, key_path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            twice = key in found
            self._document.key_positions[*key_path, key] = _position_of(key_node)
            if twice:
                self._add_mistake((*key_path, key), "stands here twice", "Keep one of the two.", key=True)
            found[key] = self.read_value(value_node, (*key_path, key))
        return found

    def _read_scalar(self, node: yaml.Node, key_path: KeyPath) -> Hashable:
        written = str(node.value)
        self._document.scalars[key_path] = (_position_of(node), written)
        if _REFERENCE_PATTERN.search(written):
            return self._read_filled(written, key_path)
        if node.tag.endswith(":timestamp"):
            return written  # instants are ours to read, not YAML's
        try:
            return self._scalar_loader.construct_object(node)  # type: ignore[no-any-return]  # PyYAML tells no types
        except (yaml.YAMLError, ValueError, LookupError, ArithmeticError):  # each kind of value fails in its own way
            kind = node.tag.rpartition(":")[2]
            self._add_mistake(key_path, f"cannot be read as {kind}", "Put it in quotes, or leave the tag out.")
            return None

    def _read_filled(self, written: str, key_path: KeyPath) -> str:
        try:
            filled = self._fill_references(written)
        except ConfigError as error:
            self._add_mistake(key_path, error.message, error.hint)
            return written
        self._document.secrets[key_path] = tuple(piece for piece in (filled, unquote(filled)) if piece)
        return filled

    def _add_mistake(self, key_path: KeyPath, message: str, remedy: str, *, key: bool = False) -> None:
        self._document.mistakes.append(self._document.make_mistake(key_path, message, remedy, key=key))


def _position_of(node: yaml.Node) -> FilePosition:
    return FilePosition(node.start_mark.line + 1, node.start_mark.column + 1)


def _make_reference_filler(environ: Mapping[str, str]) -> Callable[[str], str]:
    def fill(written: str) -> str:
        return "".join(_filled_pieces(written, environ))

    return fill


def _filled_pieces(written: str, environ: Mapping[str, str]) -> Iterator[str]:
    """The text with each reference replaced; inside the user part of a URL as percent escapes."""
    done = 0
    for match in _REFERENCE_PATTERN.finditer(written):
        yield written[done : match.start()]
        secret = _read_secret_file(match[2]) if match[1] else _read_variable(match[2], environ)
        yield quote(secret, safe="") if _is_in_user_part(written, match.start(), match.end()) else secret
        done = match.end()
    yield written[done:]


def _read_variable(name: str, environ: Mapping[str, str]) -> str:
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


def _read_secret_file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text, or no file has such a name"
        raise ConfigError(f"{name} cannot be read: {why}", hint="May this user read the file?") from error


def _is_in_user_part(written: str, start: int, end: int) -> bool:
    scheme = written.find("://")
    return 0 <= scheme < start and "@" in written[end:].partition("/")[0]
