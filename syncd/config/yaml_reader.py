"""Reader of `syncd.yaml`: plain values with their places, and references replaced from the environment and files."""

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

import yaml
from yaml.error import MarkedYAMLError

from syncd.config.mistakes import ConfigMistake, KeyPath, Misconfigured, mask_secret, redact_value
from syncd.config.value_parsers import REFERENCE_PATTERN
from syncd.errors import ConfigError

_REFERENCE: Final = re.compile(rf"{REFERENCE_PATTERN}(file:)?([^}}]*)\}}")
_MAX_DEPTH: Final = 50
"""Levels of nesting, more than twice what any configuration needs."""
_TOO_DEEP_MESSAGE: Final = f"is nested more than {_MAX_DEPTH} levels deep"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class FilePosition(NamedTuple):
    """Position in the file, counted from 1 as editors do."""

    line: int
    column: int


@dataclass(slots=True, kw_only=True)
class ConfigDocument:
    """Values of a document with their places, and the collector of its mistakes."""

    path: str
    values: Any = None
    key_positions: dict[KeyPath, FilePosition] = field(default_factory=dict[KeyPath, FilePosition])
    """Position of each key and of each list item."""
    scalars: dict[KeyPath, tuple[FilePosition, str]] = field(default_factory=dict[KeyPath, tuple[FilePosition, str]])
    """Position of each plain value, and its text as written, with references unreplaced."""
    secrets: dict[KeyPath, tuple[str, ...]] = field(default_factory=dict[KeyPath, tuple[str, ...]])
    """Values that replaced the references of a place."""
    mistakes: list[ConfigMistake] = field(default_factory=list[ConfigMistake])

    def find_position(self, key_path: KeyPath, *, key: bool = False) -> FilePosition:
        """Return the position of a value (or of its key), or of the nearest section around it that is written."""
        if not key and key_path in self.scalars:
            return self.scalars[key_path][0]
        while key_path and key_path not in self.key_positions:
            key_path = key_path[:-1]
        return self.key_positions.get(key_path, FilePosition(1, 1))

    def make_mistake(self, key_path: KeyPath, message: str, remedy: str = "", *, key: bool = False) -> ConfigMistake:
        """Build a mistake of the value at a place, or of its key; secrets are masked."""
        line, column = self.find_position(key_path, key=key)
        written = "" if key or key_path not in self.scalars else self.scalars[key_path][1]
        for secret in self.secrets.get(key_path, ()):
            message, remedy = mask_secret(secret, message), mask_secret(secret, remedy)
        name, value = ".".join(map(str, key_path)), redact_value(key_path, written)
        return ConfigMistake(line=line, column=column, key=name, message=message, value=value, remedy=remedy)

    def report_mistake(self, key_path: KeyPath, message: str, remedy: str = "", *, key: bool = False) -> None:
        """Add a mistake, unless its place has one already: later ones follow from the first."""
        mistake = self.make_mistake(key_path, message, remedy, key=key)
        if all((known.line, known.key) != (mistake.line, mistake.key) for known in self.mistakes):
            self.mistakes.append(mistake)

    def to_error(self) -> Misconfigured:
        return Misconfigured.from_mistakes(self.path, self.mistakes)

    def resolve_path(self, path: Path | None) -> Path | None:
        """Return a path relative to the directory of the configuration."""
        return None if path is None else Path(self.path).parent / path


def read_document(path: Path, environ: Mapping[str, str]) -> ConfigDocument:
    """Read the values of a file with their places.

    Raises:
        ConfigError: the file does not exist, cannot be read, or is not YAML.
    """
    try:
        body = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            f"configuration file {path} does not exist",
            hint="Name another file with --config or SYNCD_CONFIG, or write one: syncd init MYSQL_URL",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    return parse_document(body, path=str(path), environ=environ)


def read_table_names(path: str) -> list[str]:
    """Return the tables that a file names, as far as it can be read, without resolving references."""
    try:
        root = _compose_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    parts = root.value if isinstance(root, yaml.MappingNode) else []
    tables = next((part for key, part in parts if key.value == "tables"), None)
    return [str(key.value) for key, _ in tables.value] if isinstance(tables, yaml.MappingNode) else []


def parse_document(body: str, *, path: str, environ: Mapping[str, str]) -> ConfigDocument:
    """Parse YAML into values, with the references of each scalar replaced."""
    try:
        root = _compose_yaml(body)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = getattr(error, "problem", None) or "not YAML"
        mistake = ConfigMistake(line=line, column=column, key="", message=f"cannot be read as YAML: {problem}")
        raise Misconfigured.from_mistakes(path, [mistake]) from error
    document = ConfigDocument(path=path)
    if root is None:
        raise Misconfigured.from_mistakes(
            path, [ConfigMistake(line=1, key="", message="the file is empty", remedy="See: syncd init")]
        )
    document.values = _NodeReader(document, environ).read_value(root, ())
    return document


def _compose_yaml(body: str) -> yaml.Node | None:
    root: yaml.Node | None = yaml.compose(body, Loader=_Loader)
    return root


class _Loader(yaml.SafeLoader):
    """Loader that refuses deep nesting before Python reaches its recursion limit."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if parent is not None and self._depth > _MAX_DEPTH:
            raise MarkedYAMLError(problem=_TOO_DEEP_MESSAGE, problem_mark=parent.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _NodeReader:
    """Recursive reader of the nodes of one document."""

    def __init__(self, document: ConfigDocument, environ: Mapping[str, str]) -> None:
        self._document = document
        self._environ = environ
        self._scalar_loader = yaml.SafeLoader("")
        self._open_node_ids: set[int] = set()

    def read_value(self, node: yaml.Node, key_path: KeyPath) -> Any:  # noqa: ANN401  # any YAML value
        self._document.key_positions.setdefault(key_path, _position_of(node))
        if id(node) in self._open_node_ids:
            self._add_mistake(key_path, "contains itself", "Write it out without an alias.")
            return None
        if len(key_path) >= _MAX_DEPTH:  # aliases can nest deeper than the text
            self._add_mistake(key_path, _TOO_DEEP_MESSAGE, "Write it out without an alias.")
            return None
        if not isinstance(node, yaml.MappingNode | yaml.SequenceNode):
            return self._read_scalar(node, key_path)
        self._open_node_ids.add(id(node))
        if isinstance(node, yaml.MappingNode):
            value: Any = self._read_mapping(node, key_path)
        else:
            value = [self.read_value(inner, (*key_path, at)) for at, inner in enumerate(node.value)]
        self._open_node_ids.remove(id(node))
        return value

    def _read_mapping(self, node: yaml.MappingNode, key_path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            self._document.key_positions[*key_path, key] = _position_of(key_node)
            if key in values:
                self._add_mistake((*key_path, key), "is given twice", "Keep one of the two.", key=True)
            values[key] = self.read_value(value_node, (*key_path, key))
        return values

    def _read_scalar(self, node: yaml.Node, key_path: KeyPath) -> Hashable:
        written = str(node.value)
        self._document.scalars[key_path] = (_position_of(node), written)
        if _REFERENCE.search(written):
            return self._replace_references(written, key_path)
        if node.tag.endswith(":timestamp"):
            return written  # the value parsers read instants, not YAML
        try:
            return self._scalar_loader.construct_object(node)  # type: ignore[no-any-return]  # PyYAML tells no types
        except (yaml.YAMLError, ValueError, LookupError, ArithmeticError):  # the error depends on the type of the value
            kind = node.tag.rpartition(":")[2]
            self._add_mistake(key_path, f"cannot be read as {kind}", "Put it in quotes, or remove the tag.")
            return None

    def _replace_references(self, written: str, key_path: KeyPath) -> str:
        try:
            value = "".join(_replaced_pieces(written, self._environ))
        except ConfigError as error:
            self._add_mistake(key_path, error.message, error.hint)
            return written
        self._document.secrets[key_path] = tuple(piece for piece in (value, unquote(value)) if piece)
        return value

    def _add_mistake(self, key_path: KeyPath, message: str, remedy: str, *, key: bool = False) -> None:
        self._document.mistakes.append(self._document.make_mistake(key_path, message, remedy, key=key))


def _position_of(node: yaml.Node) -> FilePosition:
    return FilePosition(node.start_mark.line + 1, node.start_mark.column + 1)


def _replaced_pieces(written: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the text with each reference replaced; in the user part of a URL the value is percent-escaped."""
    done = 0
    for match in _REFERENCE.finditer(written):
        yield written[done : match.start()]
        secret = _read_secret_file(match[2]) if match[1] else _read_variable(match[2], environ)
        yield quote(secret, safe="") if _is_in_user_part(written, match.start(), match.end()) else secret
        done = match.end()
    yield written[done:]


def _read_variable(name: str, environ: Mapping[str, str]) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"${{{name}}} is not a valid reference", hint="Write ${NAME} or ${file:/path}.")
    if name not in environ:
        raise ConfigError(
            f"environment variable {name} is not set", hint=f"Set it: export {name}=..., or in the unit file."
        )
    # Bytes that are not UTF-8 come from the environment as lone surrogates, which no server accepts.
    if any("\ud800" <= character <= "\udfff" for character in environ[name]):
        raise ConfigError(f"environment variable {name} is not valid text", hint="Write it in UTF-8.")
    return environ[name]


def _read_secret_file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else "its content is not UTF-8, or its name is not valid"
        raise ConfigError(f"{name} cannot be read: {cause}", hint="Check that this user may read the file.") from error


def _is_in_user_part(written: str, start: int, end: int) -> bool:
    scheme = written.find("://")
    return 0 <= scheme < start and "@" in written[end:].partition("/")[0]
