"""`syncd sandbox` as its user sees it: text, JSON, exit code, and two lines for every mishap."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from syncd.host.directories import hold_lock
from syncd.sandbox.process import LOOPBACK, find_marked

ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("SYNCD_")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    code: int
    out: str
    err: str

    @property
    def mishap(self) -> list[str]:
        return self.err.splitlines()[-2:]


Run = Callable[..., Told]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """The command in a process of its own, with a directory of the test's own, and nothing left of it afterwards."""
    directory = tmp_path / "box"

    def syncd(*words: str, **environ: str) -> Told:
        place = [] if "--dir" in words or words[0] == "jars" else ["--dir", str(directory)]
        done = subprocess.run(
            [sys.executable, "-m", "syncd", *words, *place],
            env={**ENVIRON, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        return Told(code=done.returncode, out=done.stdout, err=done.stderr)

    yield syncd
    syncd("sandbox", "down")
    assert list(find_marked(f"@{directory}")) == []


def nothing_runs(directory: Path) -> bool:
    return not list(find_marked(f"@{directory}"))


@pytest.mark.services
def test_a_first_session(run: Run) -> None:
    up = run("sandbox", "up", "--orders", "50")
    again = run("sandbox", "up", "--orders", "50")
    status = run("sandbox", "status")
    down = run("sandbox", "down")
    once_more = run("sandbox", "down")
    after = run("sandbox", "status")

    assert [told.code for told in (up, again, status, down, once_more, after)] == [0] * 6
    assert re.search(r"^mysql +running +mysql://\S+@127\.0\.0\.1:\d+/shop +\d+ +M\w+ [\d.]+", up.out, re.MULTILINE)
    assert re.search(r"^s3 +running +http://127\.0\.0\.1:\d+ +\d+ +bucket lake", up.out, re.MULTILINE)
    assert re.search(r"^redshift +running +redshift://\S+@127\.0\.0\.1:\d+/dev +\d+ +Redshift ", up.out, re.MULTILINE)
    assert "shop: 5 customers, 50 orders, " in up.out
    assert again.err == "the sandbox was already up\n"
    assert again.out == up.out
    assert status.out.splitlines() == up.out.splitlines()[:-1]
    assert re.search(
        r"^S3 accepts any keys: export AWS_ENDPOINT_URL_S3=http://127\.0\.0\.1:\d+ AWS_\w+=", up.out, re.MULTILINE
    )
    assert "AWS_" not in after.out
    assert down.out == "stopped mysql, redshift, s3\n"
    assert once_more.out.startswith("nothing runs in ")
    assert len(re.findall(r"^\w+ +stopped", after.out, re.MULTILINE)) == 3


@pytest.mark.services
def test_the_fields_of_its_json(run: Run, tmp_path: Path) -> None:
    up = json.loads(run("sandbox", "up", "--json", "--orders", "10").out)
    status = json.loads(run("sandbox", "status", "--json").out)
    down = json.loads(run("sandbox", "down", "--json").out)

    fields = {"name", "state", "url", "port", "pid", "version", "log", "started_now"}
    assert set(up) == {"directory", "services", "shop"}
    assert set(status) == {"directory", "services"}
    assert all(set(service) == fields for service in up["services"] + status["services"])
    assert set(up["shop"]) == {"customers", "orders", "order_lines", "events", "countries"}
    assert down == {"directory": str(tmp_path / "box"), "stopped": ["mysql", "redshift", "s3"]}


@pytest.mark.services
def test_a_given_password_is_never_shown(run: Run) -> None:
    given = "mysql://u:s3cr3t@127.0.0.1:1/shop"

    up = run("sandbox", "up", SYNCD_SANDBOX_MYSQL=given)
    status = run("sandbox", "status", SYNCD_SANDBOX_MYSQL=given)

    assert up.code == 4
    assert up.mishap[0] == "error: mysql does not answer at mysql://u@127.0.0.1:1/shop"
    assert "s3cr3t" not in up.out + up.err + status.out + status.err


def test_a_busy_port_is_said(run: Run, tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        told = run("sandbox", "up", "--s3-port", str(port))

    assert told.code == 2
    assert told.mishap == [
        f"error: port {port} on 127.0.0.1 is used by another program",
        "hint: Choose another port, or none for any free one.",
    ]
    assert nothing_runs(tmp_path / "box")


def test_a_directory_that_cannot_be_written_is_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    told = run("sandbox", "up", "--dir", str(tmp_path / "file" / "below"))

    assert told.code == 2
    assert told.err.splitlines() == [
        f"error: cannot write to {tmp_path}/file/below/log: not a directory",
        "hint: Make the directory writable, or choose another one with --dir.",
    ]


def test_a_cache_that_cannot_be_written_is_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    told = run("sandbox", "up", SYNCD_CACHE=str(tmp_path / "file"), PATH="/usr/bin:/bin")

    assert told.code == 2
    assert told.err.splitlines() == [
        f"error: cannot write to {tmp_path}/file/jars: not a directory",
        "hint: Make the directory writable, or set SYNCD_CACHE to another one.",
    ]


def test_no_java_is_said_where_something_must_be_fetched(run: Run, tmp_path: Path) -> None:
    told = run("sandbox", "up", SYNCD_CACHE=str(tmp_path / "cache"), PATH=str(tmp_path), JAVA_HOME="")

    assert told.code == 2
    assert told.err.splitlines() == [
        "error: no java on PATH",
        "hint: Install a Java runtime of version 17 or newer and put it on PATH, or set JAVA_HOME to it.",
    ]
    assert nothing_runs(tmp_path / "box")


def test_an_old_java_is_said_with_its_number(run: Run, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)

    told = run("sandbox", "up", SYNCD_CACHE=str(tmp_path / "cache"), JAVA_HOME=str(tmp_path), PATH="/bin:/usr/bin")

    assert told.code == 2
    assert told.mishap[0] == f"error: {java} is Java 8, and 17 or newer is needed"
    assert told.mishap[1].startswith("hint: Install a Java runtime of version 17")


def no_network() -> str:
    """A proxy that nobody listens at, told to Java itself."""
    with socket.create_server((LOOPBACK, 0)) as probe:
        port = probe.getsockname()[1]
    return " ".join(f"-D{kind}.proxyHost={LOOPBACK} -D{kind}.proxyPort={port}" for kind in ("http", "https"))


@pytest.mark.parametrize("words", [("sandbox", "up"), ("jars", "fetch", "mysql-connector-j")])
def test_no_network_is_said_and_leaves_nothing(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    cache = tmp_path / "cache"

    told = run(*words, SYNCD_CACHE=str(cache), JAVA_TOOL_OPTIONS=no_network(), PATH="/usr/bin:/bin")

    assert told.code == 4
    assert re.fullmatch(r"error: cannot fetch \S+\.jar: connection refused", told.mishap[0])
    assert told.mishap[1].startswith(f"hint: Check the network or the proxy, or copy the file to {cache}/jars ")
    assert [path.name for path in (cache / "jars").iterdir()] == ["lock"]
    assert nothing_runs(tmp_path / "box")


def test_a_command_at_work_in_the_same_directory_is_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "box" / "log").mkdir(parents=True)
    with hold_lock(tmp_path / "box"):
        told = run("sandbox", "up", "--wait", "0.2")

    assert told.code == 11
    assert told.mishap == [
        f"error: another command has been using {tmp_path}/box for 0 s",
        "hint: Wait for it to end, or use another --dir.",
    ]


@pytest.mark.parametrize("word", ["up", "down", "status"])
def test_every_command_tells_what_it_does(run: Run, word: str) -> None:
    told = run("sandbox", word, "--help")

    assert told.code == 0
    assert "--json" in told.out
    assert "--dir" in told.out
