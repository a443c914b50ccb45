"""The first hour with `syncd`: what is typed, what one wants to know before it, and how both sides stand after it."""

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

This is a session with `syncd` as somebody has it who sees it for the first time: from an empty directory to tables that
are kept equal, and on to rows that were deleted behind its back, a run that is killed in its middle, and a change of
mind.

Nobody wrote what is printed here. `tests/journeys` types these commands into a shell, one after the other, holds every
word of the answers against this page, and after each step both sides against each other, value by value. `make tour`
writes the page anew.

The source is MariaDB with the small shop of the sandbox in it; S3 and Redshift are the sandbox's too
([stand-in.md](stand-in.md)), and Spark is Spark. Do it yourself with `syncd sandbox up`, which prints the addresses, or
with servers of yours. Passwords are in the environment: `MYSQL_PASSWORD`, `REDSHIFT_PASSWORD`, and what AWS looks for;
with `AWS_ENDPOINT_URL_S3`, since this S3 is not Amazon's. The terminal is 120 columns wide.
"""

STEPS: Final[tuple[Step | str, ...]] = (
    "From nothing to the first rows",
    Typed(
        why="What is there to be copied, and how? `init` reads the schema, and no table whole.",
        typed="syncd init 'mysql://syncd:${MYSQL_PASSWORD}@{mysql}/shop' --zone UTC --lake s3://lake/syncd"
        " --warehouse 'redshift://loader:${REDSHIFT_PASSWORD}@{redshift}/dev'",
        truth=None,
    ),
    Typed(
        why="It has written down why it proposes what it proposes. This is the entry of one table:",
        typed="sed -n '/1,000 rows/,/sortkey/p' syncd.yaml",
        truth=None,
    ),
    Typed(
        why="Rows that are deleted at the source shall go from the warehouse too, and batches shall be small, so that"
        " one hour shows several. Two lines for all tables:",
        typed="printf 'defaults:\\n  deltes: hard\\n  batch_rows: 1500\\n' >> syncd.yaml",
        truth=None,
    ),
    Typed(
        why="Is the file right? All mistakes are told at once, each with its place.",
        typed="syncd config check",
        exits=2,
        truth=None,
    ),
    Typed(
        why="A slip of the fingers. Mended, and looked at again:",
        typed="sed -i 's/deltes/deletes/' syncd.yaml; syncd config check",
        truth=None,
    ),
    Typed(
        why="Is everything fit for it: this machine, MySQL, S3, Redshift? What is not comes with what to paste.",
        typed="syncd doctor",
        truth=None,
    ),
    Typed(
        why="What would a run do? This writes nothing anywhere.",
        typed="syncd plan",
        truth=None,
    ),
    Typed(
        why="Then let it. The progress goes to stderr, the table at the end to stdout, and `--json` is for programs.",
        typed="syncd run --all",
    ),
    Typed(
        why="How do the tables stand, and up to when are they complete?",
        typed="syncd status",
    ),
    Typed(
        why="And where is order 42?",
        typed="syncd explain orders id=42",
    ),
    "The source changes",
    AtSource(
        why="Somebody adds a column to a table, and fills it for some of the rows.",
        statements=(
            "ALTER TABLE orders ADD COLUMN channel VARCHAR(20) NOT NULL DEFAULT 'web'",
            "UPDATE orders SET channel = 'app' WHERE id % 10 = 0",
        ),
        truth={"orders": (1000, 0, 0)},
    ),
    Typed(
        why="What does that mean for the next run? A hundred rows, and one statement of DDL:",
        typed="syncd plan",
        truth={"orders": (1000, 0, 0)},
    ),
    Typed(
        why="The column comes, and the rows of before get its default, which nobody has to read again.",
        typed="syncd run --all",
    ),
    AtSource(
        why="Somebody deletes rows, and mends two others by hand without touching their stamp. No cursor sees either.",
        statements=(
            "DELETE FROM orders WHERE id BETWEEN 7 AND 9",
            "UPDATE customers SET name = 'Zoë', update_at = update_at WHERE id IN (5, 6)",
        ),
        truth={"orders": (0, 3, 0), "customers": (0, 0, 2)},
    ),
    Typed(
        why="Is the warehouse what the source is? Both add up digests of their rows, and only what differs is fetched."
        " It ends with 7, as whatever is in doubt does.",
        typed="syncd verify --all",
        exits=7,
        truth={"orders": (0, 3, 0), "customers": (0, 0, 2)},
    ),
    Typed(
        why="What became of order 8?",
        typed="syncd explain orders id=8",
        truth={"orders": (0, 3, 0), "customers": (0, 0, 2)},
    ),
    Typed(
        why="Let it be mended: what differs is read again, what is gone is buried, and then both sides are compared"
        " once more.",
        typed="syncd verify --all --repair --yes",
    ),
    Typed(
        why="And order 8 now?",
        typed="syncd explain orders id=8",
    ),
    "Killed in the middle",
    AtSource(
        why="An import brings five times as many orders at once, all with the same stamp.",
        statements=(
            """\
INSERT INTO orders (customer_id, status, total, currency, is_gift, flags, placed_at, details)
  SELECT customer_id, 'paid', total / 2, currency, is_gift, flags, placed_at, details FROM orders, countries""",
        ),
        truth={"orders": (4985, 0, 0)},
    ),
    Killed(
        why="A run begins to read them. While its third batch is on its way to S3, files written and not yet named, the"
        " process is killed with SIGKILL from another terminal.",
        typed="syncd run -t orders",
        manifest="syncd/batches/mysql/shop.orders/1-6.json",
        truth={"orders": (4985, 0, 0)},
    ),
    Typed(
        why="What does it look like now?",
        typed="syncd status -t orders",
        truth={"orders": (4985, 0, 0)},
    ),
    Typed(
        why="Nothing has to be cleaned up by hand. The next run goes on where that one was: the batches that are whole"
        " are not read again, and what was left lying is removed.",
        typed="syncd run -t orders",
    ),
    "Taken back",
    Typed(
        why="What would it mean to read a table all over again? It shows that, and asks; here nobody answers.",
        typed="syncd watermark reset -t orders --reason 'to see what happens'",
        exits=2,
    ),
    Typed(
        why="Then without asking.",
        typed="syncd watermark reset -t orders --reason 'to see what happens' --yes",
    ),
    Typed(
        why="How does the table stand? Nothing has happened to a single row.",
        typed="syncd status -t orders",
    ),
    Typed(
        why="That was not wanted after all.",
        typed="syncd watermark undo -t orders --reason 'it was only to see' --yes",
    ),
    Typed(
        why="Who did what to it, and why? All of it stays; these are the newest five.",
        typed="syncd watermark history -t orders --limit 5",
    ),
    Typed(
        why="All is as it was:",
        typed="syncd status",
    ),
    Typed(
        why="and both sides are equal,",
        typed="syncd verify --all",
    ),
    Typed(
        why="and so says an audit that reads the lake alone, every byte of it, from the first batch on.",
        typed="syncd audit --deep",
    ),
)
