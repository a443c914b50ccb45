"""State of a sandbox between commands: the process, port and address of each service."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from syncd.sandbox.process import ProcessId
from syncd.sandbox.sandbox_dirs import write_private

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
