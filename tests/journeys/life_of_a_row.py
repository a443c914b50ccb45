"""Run one table through the sandbox, record the calls on the way of a row, and print them as a page.

`python -m tests.journeys.life_of_a_row > docs/explanation/life-of-a-row.md` renews the page (make life).
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from syncd.sandbox.running_sandbox import Sandbox

RECORDER: Final = Path(__file__).parent / "recorder"
RUN_SECONDS: Final = 900.0
"""Seconds that a run may take on a busy machine."""
MAX_EXTRACT_CALLS: Final = 50
MAX_LOAD_CALLS: Final = 40
MAX_FILES: Final = 20
MAX_FOLDER_CHANGES: Final = 15

Frame = tuple[str, str]
"""Module and qualified name of a function."""

TABLE_SQL: Final = """CREATE TABLE life.orders (
    id INT PRIMARY KEY,
    note VARCHAR(20),
    update_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
    KEY (update_at, id)
)"""

EFFECTS: Final[Sequence[tuple[str, str]]] = (
    ("MySQL SELECT", "the index of the table is probed"),
    ("Spark", "Spark reads the windows of the plan"),
    ("S3 PutObject l/claims/", "the stage is claimed"),
    ("S3 PutObject l/plans/", "the plan of the batch is created"),
    ("S3 PutObject l/data/", "a Parquet part is written"),
    ("S3 PutObject l/batches/", "the link with its manifest is created"),
    ("S3 PutObject l/history/", "the history entry is created"),
    ("S3 PutObject l/watermarks/", "the watermark document is replaced"),
    ("SQL LOCK", "the fence of the stream is locked"),
    ("SQL COPY", "the files are copied into a scratch table"),
    ("SQL INSERT", "rows are inserted"),
    ("SQL DELETE", "rows are deleted"),
    ("SQL COMMIT", "the transaction is committed"),
)
"""Effects whose call stacks make the chains, by what a record begins with, and their meaning.

Other statements at the source identify the server, describe the table and poll the horizon; they read no row of it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A function on the way of a row, or an effect that it has."""

    frame: Frame | None = None
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallChain:
    """Every function of ours on the call stacks of the effects, in the order of their first calls."""

    steps: tuple[Step, ...]

    @property
    def frames(self) -> tuple[Frame, ...]:
        return tuple(step.frame for step in self.steps if step.frame is not None)

    @property
    def files(self) -> int:
        return len({module for module, _ in self.frames})

    @property
    def folder_changes(self) -> int:
        folders = [_folder(module) for module, _ in self.frames]
        return sum(one != other for one, other in pairwise(folders))

    @property
    def summary(self) -> str:
        return f"{len(self.frames)} calls, {self.files} files, {self.folder_changes} changes of folder"


def record_chains(directory: Path) -> tuple[CallChain, CallChain]:
    """Run a table twice and return the chains of the second run: to the extracted and to the loaded mark."""
    with Sandbox(directory / "box") as box:
        _execute(box, "CREATE DATABASE life", TABLE_SQL, "INSERT INTO life.orders (id, note) VALUES (42, 'new')")
        config = _write_config(box, directory)
        _run(box, config, directory / "first")
        _execute(box, "UPDATE life.orders SET note = 'changed'")
        _run(box, config, directory / "second")
    records = [json.loads(line) for line in (directory / "second").read_text(encoding="utf-8").splitlines()]
    effects = [(_effect(each["effect"]), [(module, name) for module, name in each["stack"]]) for each in records]
    kept = [(effect, stack) for effect, stack in effects if effect]
    extracted = _end_of(kept, "S3 PutObject l/batches/", "S3 PutObject l/watermarks/")
    claimed = next(index for index in range(extracted, len(kept)) if kept[index][0] == "S3 PutObject l/claims/")
    loaded = _end_of(kept, "SQL COMMIT", "S3 PutObject l/watermarks/")
    return _chain(kept[: extracted + 1]), _chain(kept[claimed : loaded + 1])


def render_page(extract: CallChain, load: CallChain) -> str:
    """Return the page of both chains."""
    return f"""# The life of a row

Row 42 of a table is updated, and `syncd run -t orders` brings it to the warehouse. Listed is every function of ours on
the call stack of an effect, in the order of the first call, and indented the effects: statements that read the table,
writes of claims, plans, files, links and watermarks, and the transaction in the warehouse. The poll of the
[horizon](horizon.md), which comes before the plan, is left out. `make life` renews the page from a traced run on the
sandbox, and a test compares it with the code.

## To the extracted mark

{extract.summary}.

{_listing(extract)}

## To the loaded mark

{load.summary}. Both stages begin in the command line; the functions that start the command are listed again.

{_listing(load)}
"""


def _listing(chain: CallChain) -> str:
    return "\n".join(("```", *_lines(chain), "```"))


def _lines(chain: CallChain) -> Iterator[str]:
    """Yield each function, and indented each effect that the functions before it have."""
    for step in chain.steps:
        yield f"    {step.effect}" if step.frame is None else ".".join(step.frame)


def _chain(records: Sequence[tuple[str, list[Frame]]]) -> CallChain:
    steps: list[Step] = []
    known: set[Frame] = set()
    meanings = dict(EFFECTS)
    for effect, stack in records:
        fresh = [frame for frame in stack if frame not in known]
        known.update(fresh)
        steps += [Step(frame=frame) for frame in dict.fromkeys(fresh)]
        if fresh and (not steps or steps[-1].effect != meanings[effect]):
            steps.append(Step(effect=meanings[effect]))
    return CallChain(steps=tuple(steps))


def _effect(record: str) -> str:
    if record.startswith("MySQL") and "`orders`" not in record:
        return ""
    return next((prefix for prefix, _ in EFFECTS if record.startswith(prefix)), "")


def _end_of(records: Sequence[tuple[str, object]], after: str, effect: str) -> int:
    """Return the index of the first `effect` behind the last record that is `after`."""
    start = max(index for index, (each, _) in enumerate(records) if each == after)
    return next(index for index in range(start, len(records)) if records[index][0] == effect)


def _folder(module: str) -> str:
    return module.rpartition(".")[0]


def _execute(box: Sandbox, *statements: str) -> None:
    with box.mysql.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def _write_config(box: Sandbox, directory: Path) -> Path:
    mysql, redshift, s3 = box.mysql, box.redshift, box.s3
    path = directory / "syncd.yaml"
    path.write_text(
        f"""source:
  {{url: "mysql://{mysql.user}:${{MYSQL_PASSWORD}}@{mysql.host}:{mysql.port}/life", zone: UTC, tls: disable}}
lake: {{url: "s3://{s3.bucket}/l", endpoint: "{s3.endpoint}"}}
warehouse:
  url: "redshift://{redshift.user}:${{REDSHIFT_PASSWORD}}@{redshift.host}:{redshift.port}/{redshift.database}"
  iam_role: "arn:aws:iam::123456789012:role/load"
  tls: disable
tables: {{life.orders: }}
""",
        encoding="utf-8",
    )
    return path


def _run(box: Sandbox, config: Path, record: Path) -> None:
    environ = {
        **os.environ,
        **box.s3.environ,
        "MYSQL_PASSWORD": box.mysql.password,
        "REDSHIFT_PASSWORD": box.redshift.password,
        "CALL_RECORD": str(record),
        "PYTHONPATH": str(RECORDER),
    }
    command = [sys.executable, "-m", "syncd", "run", "-t", "life.orders", "-c", str(config)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)  # a server that root starts runs as another user
        sys.stdout.write(render_page(*record_chains(Path(directory))))


if __name__ == "__main__":
    main()
