"""How each command is typed: shown first by its help, and by the manual page."""

from collections.abc import Mapping
from inspect import cleandoc
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "audit": ("syncd audit", "syncd audit -t shop.orders --json"),
    "daemon": ("syncd daemon --config /etc/syncd/syncd.yaml",),
    "demo": ("syncd demo --for 60s",),
    "explain": ("syncd explain shop.orders id=42",),
    "jars": ("syncd jars list", "syncd jars fetch"),
    "jars fetch": ("syncd jars fetch", "syncd jars fetch mysql-connector-j"),
    "jars list": ("syncd jars list --json",),
    "plan": ("syncd plan", "syncd plan -t shop.orders"),
    "quarantine": ("syncd quarantine list", "syncd quarantine show -t shop.orders"),
    "quarantine list": ("syncd quarantine list -t shop.orders",),
    "quarantine show": ("syncd quarantine show -t shop.orders",),
    "quarantine replay": ("syncd quarantine replay -t shop.orders --dry-run",),
    "reload": ("syncd reload --config /etc/syncd/syncd.yaml",),
    "run": ("syncd run --all", "syncd run -t shop.orders --limit 100000", "syncd run --all --dry-run"),
    "runs": ("syncd runs", "syncd runs -t shop.orders --json"),
    "s3clean": ("syncd s3clean list", "syncd s3clean clean -t shop.orders"),
    "s3clean list": ("syncd s3clean list -t shop.orders",),
    "s3clean clean": ("syncd s3clean clean -t shop.orders",),
    "sandbox": ("syncd sandbox up", "syncd sandbox down"),
    "sandbox up": ("syncd sandbox up",),
    "sandbox down": ("syncd sandbox down",),
    "sandbox status": ("syncd sandbox status --json",),
    "status": ("syncd status", "syncd status -t shop.orders --json"),
    "verify": ("syncd verify -t shop.orders", "syncd verify --all --json"),
    "watermark": ("syncd watermark get -t shop.orders", "syncd watermark check --all"),
    "watermark get": ("syncd watermark get -t shop.orders --show-files",),
    "watermark import": (
        "syncd watermark import -t shop.orders --dry-run",
        "syncd watermark import -t shop.orders --from s3://old-bucket/watermarks/ --reason 'moved to syncd'",
        "syncd watermark import --all --from s3://old-bucket/watermark/last_run_timestamp.txt",
    ),
    "watermark list": ("syncd watermark list",),
    "watermark history": ("syncd watermark history -t shop.orders",),
    "watermark export": ("syncd watermark export -t shop.orders",),
    "watermark undo": ("syncd watermark undo -t shop.orders",),
    "watermark check": ("syncd watermark check --all",),
    "watermark rebuild": ("syncd watermark rebuild -t shop.orders",),
}
"""By the words of the command; a command may have its own in its docstring instead."""


def add_examples(command_path: str, help_text: str) -> str:
    """The help of a command, its examples behind the first sentence."""
    help_text = cleandoc(help_text)
    if "Examples:" in help_text or command_path not in EXAMPLES:
        return help_text
    first, _, rest = help_text.partition("\n\n")
    shown = "\n".join(("\b", "Examples:", *(f"  {line}" for line in EXAMPLES[command_path])))
    return "\n\n".join(part for part in (first, shown, rest) if part)
