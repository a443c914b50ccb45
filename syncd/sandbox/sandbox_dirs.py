"""Directories of a sandbox, and the file that records its processes."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from syncd.host.directories import find_cache, find_xdg_base
from syncd.sandbox.process import ProcessId


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPaths:
    """Directory of this sandbox, and the cache that all sandboxes of this user share."""

    directory: Path
    cache: Path

    @property
    def jars(self) -> Path:
        return self.cache / "jars"


def find_paths(environ: Mapping[str, str], *, directory: Path | None = None) -> SandboxPaths:
    """Return the requested directory, else the one that the XDG base directories name, with the cache."""
    return SandboxPaths(
        directory=(
            directory or find_xdg_base(environ, "XDG_STATE_HOME", ".local/state") / "syncd" / "sandbox"
        ).absolute(),
        cache=find_cache(environ),
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)


def write_once(path: Path, text: str) -> None:
    """Write a private file unless it exists; a kill leaves it absent or whole."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.new")
        write_private(draft, text)
        draft.replace(path)


def read_secret(path: Path) -> str:
    """Return the text of a private file, or an empty text if it was never written."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


STATE_FILE: Final = "sandbox.json"
STATE_FORMAT: Final = "syncd.sandbox"
STATE_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord:
    """One service as it was last started; without a process once it was stopped."""

    name: str
    port: int
    url: str
    log: str
    about: str = ""
    process: ProcessId | None = None


def read_state(directory: Path) -> dict[str, ServiceRecord]:
    """Return the records by service; empty for a new directory.

    An unreadable file counts as empty: a full disk or an editor tore it, the processes
    are found by their marker, and the data is stored elsewhere.
    """
    try:
        document = json.loads((directory / STATE_FILE).read_bytes())
        if document["format"] != STATE_FORMAT or document["format_version"] != STATE_VERSION:
            return {}
        return {name: _parse_record(name, fields) for name, fields in document["services"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def write_state(directory: Path, records: Mapping[str, ServiceRecord]) -> None:
    """Replace all records at once; only the owner can read them (addresses hold passwords)."""
    services = {name: {k: v for k, v in asdict(r).items() if k != "name"} for name, r in records.items()}
    document = {"format": STATE_FORMAT, "format_version": STATE_VERSION, "services": services}
    draft = directory / f"{STATE_FILE}.new"
    write_private(draft, json.dumps(document, indent=1, sort_keys=True))
    draft.replace(directory / STATE_FILE)


def _parse_record(name: str, fields: dict[str, Any]) -> ServiceRecord:
    process = fields.pop("process")
    return ServiceRecord(name=name, process=ProcessId(**process) if process else None, **fields)
