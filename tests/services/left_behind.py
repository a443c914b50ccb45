"""A lake, a warehouse and a source that an older commit left, and the command that continues them.

`tests/fixtures/left_behind/make.py` writes the files; `tests/integration/continuity` restores them.
"""

import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncd.sandbox.running_sandbox import Sandbox

FIXTURE: Final = Path(__file__).parents[1] / "fixtures" / "left_behind"
CONFIG: Final = FIXTURE / "syncd.yaml"
LAKE: Final = FIXTURE / "lake.tar.xz"
ETAGS: Final = FIXTURE / "etags.json"
WAREHOUSE: Final = FIXTURE / "warehouse.sql"
SOURCE: Final = FIXTURE / "source.tar.xz"
ANSWERS: Final = FIXTURE / "answers.json"

PREFIX: Final = "left/behind/"
"""Of all keys of the lake, as the configuration names it."""
PASSWORD: Final = "left-behind"
"""Of the source's user; the data directory holds its hash."""
COMMAND_TIMEOUT_SECONDS: Final = 300

LOOKS: Final[Mapping[str, Sequence[str]]] = {
    "status": ("status",),
    "watermark get": ("watermark", "get", "--all", "--show-files"),
    "watermark history": ("watermark", "history", "--all"),
    "watermark check": ("watermark", "check", "--all", "--full"),
    "watermark export": ("watermark", "export", "--all"),
    "audit": ("audit", "--deep"),
    "quarantine list": ("quarantine", "list"),
    "quarantine show": ("quarantine", "show"),
    "runs": ("runs",),
}
"""Commands that write nothing; each is run with `--json`."""

VOLATILE: Final = frozenset({"polled_at", "poll_overdue", "extract_lag_seconds", "load_lag_seconds"})
"""Fields that depend on when a command is run."""
WORDS: Final = frozenset(
    {"reasons", "reason", "message", "next_step", "hint", "consequence", "unproven_reason", "error"}
)
"""Fields that hold sentences for people: these may be worded anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one command printed, and its exit code."""

    words: tuple[str, ...]
    exit: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(str(self)) from None

    @property
    def facts(self) -> Any:
        """The printed document without volatile fields and without sentences."""
        return facts({name: value for name, value in self.json.items() if name != "at"})

    def streams(self) -> dict[str, dict[str, Any]]:
        """The entries of `streams`, by the table's name without its database."""
        return {one["table"].partition(".")[2]: one for one in self.json["streams"]}

    def __str__(self) -> str:
        return f"syncd {' '.join(self.words)}: exit {self.exit}\n{self.out}\n{self.err}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The `syncd` program with the fixture's configuration and the addresses of a sandbox."""

    program: Path
    environ: Mapping[str, str]
    config: Path = CONFIG

    def __call__(self, *words: str, exits: Sequence[int] = (0,), environ: Mapping[str, str] | None = None) -> Answer:
        """Run `syncd` with these words.

        Raises:
            AssertionError: it ended with another exit code.
        """
        done = subprocess.run(
            [self.program, *words, "--config", self.config],
            env={**self.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
        answer = Answer(words=words, exit=done.returncode, out=done.stdout, err=done.stderr)
        assert answer.exit in exits, str(answer)
        return answer

    def look(self, *names: str) -> dict[str, Answer]:
        """Run these of `LOOKS`, or all of them, two at a time and whatever their exit codes are."""
        looks = {name: LOOKS[name] for name in names or LOOKS}
        with ThreadPoolExecutor(2) as pool:
            found = pool.map(lambda words: self(*words, "--json", exits=range(256)), looks.values())
            return dict(zip(looks, found, strict=True))


def environ_of(box: Sandbox, *, mysql_port: int) -> dict[str, str]:
    """The environment of `syncd`: what the configuration fills in, and the credentials of the lake."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SYNCD_", "AWS_", "PYTHON"))}
    cache = {name: os.environ[name] for name in ("SYNCD_CACHE",) if name in os.environ}
    return {
        **kept,
        **cache,
        **box.s3.environ,
        "S3_ENDPOINT": box.s3.endpoint,
        "MYSQL_PORT": str(mysql_port),
        "MYSQL_PASSWORD": PASSWORD,
        "REDSHIFT_PORT": str(box.redshift.port),
        "REDSHIFT_PASSWORD": box.redshift.password,
    }


def sandbox_environ() -> dict[str, str]:
    """The environment of the sandbox: without other MySQL servers, so that it runs the MariaDB of its archive."""
    others = ("mysqld", "mariadbd")
    folders = os.environ.get("PATH", "").split(os.pathsep)
    path = [folder for folder in folders if not any((Path(folder) / other).exists() for other in others)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SYNCD_SANDBOX")}
    return {**kept, "PATH": os.pathsep.join(path)}


def facts(found: Any) -> Any:
    """The document without volatile fields and without sentences."""
    match found:
        case dict():
            # The reason beside an author is the text of the change in the history.
            left = VOLATILE | WORDS - ({"reason"} if "author" in found else set())
            return {name: facts(value) for name, value in found.items() if name not in left}
        case list():
            return [facts(each) for each in found]
        case _:
            return found


def lake_objects(box: Sandbox) -> dict[str, tuple[bytes, str]]:
    """Every object of the lake by its key below the prefix, with its ETag."""
    client, bucket = box.s3.make_client(), box.s3.bucket
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=PREFIX)
    keys = [each["Key"] for page in pages for each in page.get("Contents", [])]
    found = {}
    for key in keys:
        answer = client.get_object(Bucket=bucket, Key=key)
        found[key.removeprefix(PREFIX)] = (answer["Body"].read(), answer["ETag"].strip('"'))
    client.close()
    return found


def stored_objects() -> Iterator[tuple[str, bytes]]:
    """Every object of the fixture's lake: its key below the prefix, and its bytes."""
    with tarfile.open(LAKE) as archive:
        for member in archive.getmembers():
            body = archive.extractfile(member)
            assert body is not None
            yield member.name, body.read()


def store_objects(objects: Mapping[str, tuple[bytes, str]]) -> None:
    """Write the objects as the fixture's lake, with their ETags beside them."""
    with tarfile.open(LAKE, "w:xz", preset=9) as archive:
        for key in sorted(objects):
            body, _ = objects[key]
            member = tarfile.TarInfo(key)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    etags = {key: etag for key, (_, etag) in sorted(objects.items())}
    ETAGS.write_text(json.dumps(etags, indent=0) + "\n")


def restore_lake(box: Sandbox) -> None:
    """Put the fixture's objects into the empty lake.

    Raises:
        AssertionError: an object has another ETag than it had, which manifests know.
    """
    client, etags = box.s3.make_client(), json.loads(ETAGS.read_text())
    for key, body in stored_objects():
        answer = client.put_object(Bucket=box.s3.bucket, Key=PREFIX + key, Body=body)
        assert answer["ETag"].strip('"') == etags[key], key
    client.close()


_INTERVAL: Final = re.compile(r";\n(?=CREATE|INSERT)")


def restore_warehouse(box: Sandbox) -> None:
    """Carry out the fixture's SQL in the empty stand-in, as a client of Redshift would."""
    with box.redshift.connect() as connection:
        connection.autocommit = False
        cursor = connection.cursor()
        for statement in _INTERVAL.split(WAREHOUSE.read_text().rstrip().rstrip(";")):
            cursor.execute(statement)
        connection.commit()


def restore_source(directory: Path) -> None:
    """Put the fixture's data directory where a sandbox in this directory will find it."""
    home = directory / "mysql"
    home.mkdir(parents=True)
    with tarfile.open(SOURCE) as archive:
        archive.extractall(home, filter="data")
    password = home / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
