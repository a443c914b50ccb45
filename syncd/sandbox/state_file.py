"""What a sandbox remembers between commands: which process serves what, since when."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from syncd.sandbox.process import ProcessId

STATE_FILE: Final = "sandbox.json"
STATE_FORMAT: Final = "syncd.sandbox"
STATE_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord:
    """One service as it was last started; no process once it was taken down."""

    name: str
    port: int
    url: str
    log: str
    about: str = ""
    process: ProcessId | None = None


def read_state(directory: Path) -> dict[str, ServiceRecord]:
    """The records by service; none for a new directory.

    A file that cannot be read counts as none: it was torn by a full disk or an
    editor, its processes are found by their marker, and its data stands apart.
    """
    try:
        document = json.loads((directory / STATE_FILE).read_bytes())
        if document["format"] != STATE_FORMAT or document["format_version"] != STATE_VERSION:
            return {}
        return {name: _parse_record(name, fields) for name, fields in document["services"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def write_state(directory: Path, records: Mapping[str, ServiceRecord]) -> None:
    """Replace the records: all of them or none, readable by their owner alone (addresses hold passwords)."""
    services = {name: {k: v for k, v in asdict(r).items() if k != "name"} for name, r in records.items()}
    document = {"format": STATE_FORMAT, "format_version": STATE_VERSION, "services": services}
    draft = directory / f"{STATE_FILE}.new"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        json.dump(document, file, indent=1, sort_keys=True)
    draft.replace(directory / STATE_FILE)


def _parse_record(name: str, fields: dict[str, Any]) -> ServiceRecord:
    process = fields.pop("process")
    return ServiceRecord(name=name, process=ProcessId(**process) if process else None, **fields)
