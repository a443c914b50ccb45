"""The first hour with `syncd`: the commands, the reason for each, and how both sides differ after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Wrong = tuple[int, int, int]
"""Rows of a table that the warehouse lacks, has beyond the source, and has with other values."""

EQUAL: Final[Mapping[str, Wrong]] = {}
"""Every table is the same on both sides, value by value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """One command as a user types it into a shell."""

    why: str
    typed: str
    exits: int = 0
    truth: Mapping[str, Wrong] | None = field(default_factory=lambda: EQUAL)
    """In what tables differ afterwards, and by how much; None where the warehouse has no table yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A command that is ended by SIGKILL while this manifest is on its way to the lake."""

    why: str
    typed: str
    manifest: str
    truth: Mapping[str, Wrong]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtSource:
    """What somebody else does at the source meanwhile."""

    why: str
    statements: tuple[str, ...]
    truth: Mapping[str, Wrong]


Step = Typed | Killed | AtSource

BEFORE: Final = """\
# The first hour

From an empty directory to tables that are kept equal, then deleted rows, a killed run, and a change that is taken back.
All output is real: `tests/journeys` types these commands into a shell, compares every answer with this page, and
compares both sides value by value after each step. `make tour` renews the page.

To follow, run `syncd sandbox up`, which prints the addresses of MariaDB with a small shop, S3 and the
[Redshift stand-in](../explanation/stand-in.md), or use your own servers. The environment holds `MYSQL_PASSWORD`,
`REDSHIFT_PASSWORD`, the AWS variables, and `AWS_ENDPOINT_URL_S3`, because this S3 is not Amazon's. The terminal is 120
columns wide.
"""

STEPS: Final[tuple[Step | str, ...]] = (
    "From nothing to the first rows",
    Typed(
        why="`init` reads the schema and proposes how to copy each table. It reads no table completely.",
        typed="syncd init 'mysql://syncd:${MYSQL_PASSWORD}@{mysql}/shop' --zone UTC --lake s3://lake/syncd"
        " --warehouse 'redshift://loader:${REDSHIFT_PASSWORD}@{redshift}/dev'",
        truth=None,
    ),
    Typed(
        why="Deletes at the source shall also delete in the warehouse, and small batches make this session show "
        "several:",
        typed="printf 'defaults:\\n  deletes: hard\\n  batch_rows: 1500\\n' >> syncd.yaml",
        truth=None,
    ),
    Typed(
        why="`config check` reports all mistakes at once, each with its place.",
        typed="syncd config check",
        truth=None,
    ),
    Typed(
        why="`doctor` checks this machine, MySQL, S3 and Redshift. A warning or failure comes with a remedy to paste:",
        typed="syncd doctor | grep -v '^  pass'",
        truth=None,
    ),
    Typed(
        why="Run it. Progress goes to stderr, the final table to stdout; `--json` is for programs.",
        typed="syncd run --all 2> progress.txt",
    ),
    Typed(
        why="`status` shows up to when each table is complete.",
        typed="syncd status",
    ),
    "Changes at the source",
    AtSource(
        why="An application adds a column and fills it for some rows.",
        statements=(
            "ALTER TABLE orders ADD COLUMN channel VARCHAR(20) NOT NULL DEFAULT 'web'",
            "UPDATE orders SET channel = 'app' WHERE id % 10 = 0",
        ),
        truth={"orders": (1000, 0, 0)},
    ),
    Typed(
        why="`plan` shows what a run would do, and writes nothing: read a hundred rows, and run one DDL statement.",
        typed="syncd plan -t orders",
        truth={"orders": (1000, 0, 0)},
    ),
    Typed(
        why="The run adds the column. Older rows get its default without being read again.",
        typed="syncd run -t orders",
    ),
    AtSource(
        why="Some rows are deleted, and two others are changed without a new stamp. No cursor sees either.",
        statements=(
            "DELETE FROM orders WHERE id BETWEEN 7 AND 9",
            "UPDATE customers SET name = 'Zoë', update_at = update_at WHERE id IN (5, 6)",
        ),
        truth={"orders": (0, 3, 0), "customers": (0, 0, 2)},
    ),
    Typed(
        why="`verify` compares digests of both sides and fetches only what differs. Exit code 7 means that data "
        "is in doubt.",
        typed="syncd verify --all",
        exits=7,
        truth={"orders": (0, 3, 0), "customers": (0, 0, 2)},
    ),
    Typed(
        why="What happened to order 8?",
        typed="syncd explain orders id=8",
        truth={"orders": (0, 3, 0), "customers": (0, 0, 2)},
    ),
    Typed(
        why="Repair it: the differing rows are read again, the deletes are applied, and both sides are compared "
        "once more.",
        typed="syncd verify -t customers -t orders --repair --yes",
    ),
    "A killed run",
    AtSource(
        why="An import adds five times as many orders at once, all with the same stamp.",
        statements=(
            """\
INSERT INTO orders (customer_id, status, total, currency, is_gift, flags, placed_at, details)
  SELECT customer_id, 'paid', total / 2, currency, is_gift, flags, placed_at, details FROM orders, countries""",
        ),
        truth={"orders": (4985, 0, 0)},
    ),
    Killed(
        why="A run begins to read them. SIGKILL ends the process while the third batch is on its way to S3: its "
        "files are written but no manifest names them yet.",
        typed="syncd run -t orders",
        manifest="syncd/batches/mysql/shop.orders/1-6.json",
        truth={"orders": (4985, 0, 0)},
    ),
    Typed(
        why="No clean-up by hand is needed. The next run continues: it does not read complete batches again, and "
        "removes leftover files.",
        typed="syncd run -t orders",
    ),
    "A change taken back",
    Typed(
        why="`reset` shows what reading the table again means; without `--yes` it asks. Rows change with the next run.",
        typed="syncd watermark reset -t orders --reason 'to see what happens' --yes",
    ),
    Typed(
        why="Take it back:",
        typed="syncd watermark undo -t orders --reason 'it was only to see' --yes",
    ),
    Typed(
        why="The history keeps every change, with its author and reason. The newest five:",
        typed="syncd watermark history -t orders --limit 5",
    ),
    Typed(
        why="Both sides are equal:",
        typed="syncd verify -t orders",
    ),
    Typed(
        why="An audit reads the lake alone, every byte from the first batch on, and agrees:",
        typed="syncd audit -t orders --deep",
    ),
)
