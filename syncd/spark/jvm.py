"""The JVM that Spark's driver runs in: started without a shell script, and never older than its parent."""

import os
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from syncd.concurrency.polling import until
from syncd.errors import ReaderDown
from syncd.host.java import find_java
from syncd.spark.class_archive import ClassArchive, find_archive

STARTED_WITHIN: Final = 120.0
ENDED_WITHIN: Final = 20.0
ROOM: Final = 4 << 20
"""Bytes: far more than a session writes by itself; rows never come to this disk."""
ROOM_HINT: Final = "Free some space there, or name another directory: TMPDIR, or spark.local.dir in `spark: {conf: }`."
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_OUT_OF_MEMORY: Final = 52
"""The code with which Spark ends then."""
_SAID_AT_MOST: Final = 2_000

_QUIET: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
# A failed task is told to whoever asked for it, once.
logger.quiet.name = org.apache.spark
logger.quiet.level = fatal
"""


@dataclass(slots=True)
class Jvm:
    """One Java process with Spark in it, and where to talk to it."""

    process: subprocess.Popen[bytes]
    home: tempfile.TemporaryDirectory[str]
    archives: bool = False
    """Whether it makes the archive of its classes when it ends, which takes it longer than anybody should wait."""
    port: int = 0
    secret: str = field(default="", repr=False)

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    def ends(self, within: float) -> bool:
        """Whether the process is gone, or is in so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(within)
        return self.ended

    @property
    def ran_full(self) -> bool:
        """Whether Spark ended it because its heap had no room."""
        return self.process.poll() == _OUT_OF_MEMORY

    @property
    def said(self) -> str:
        """The last of what it wrote, for a failed start."""
        log = Path(self.home.name) / "log"
        return log.read_text(errors="replace")[-_SAID_AT_MOST:].strip() if log.exists() else ""

    def end(self) -> None:
        """Close the pipe that keeps it alive; kill what does not end by itself, unless it has an archive to make."""
        if self.archives:
            self.leave()
            return
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(ENDED_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
        self.home.cleanup()

    def leave(self) -> None:
        """Close the pipe and do not wait: it ends, and archives its classes, at its own pace."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        threading.Thread(target=self.process.wait, name="java-ends", daemon=True).start()
        self.home.cleanup()

    def kill(self) -> None:
        """End it now, with whatever it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(ENDED_WITHIN)


def start_jvm(conf: Mapping[str, str], *, environ: Mapping[str, str], cache: Path, drivers: Sequence[Path]) -> Jvm:
    """Start Spark's JVM and wait until it listens.

    Raises:
        NoJava, JavaTooOld: there is none that will do.
        ReaderDown: it ended, or did not come up in time.
    """
    java = find_java(environ)
    home = _make_home(conf)
    place = Path(home.name)
    archive = find_archive(cache, java=java, class_path=[*sorted(_jars().glob("*.jar")), *drivers])
    command = _command(java, _properties(conf, place, archive), environ)
    told = place / "port"
    local = conf.get("spark.master", "local").startswith("local")
    process = _spawn(archive, command, place, {**environ, **_environ(told, local=local)})
    jvm = Jvm(process=process, home=home, archives=archive is not None and not archive.made)
    up = until(lambda: told.exists() or jvm.process.poll() is not None, within=STARTED_WITHIN)
    if not up or not told.exists():
        jvm.kill()
        raise ReaderDown(
            f"the JVM of Spark {'ended' if up else 'did not listen'} before it could be asked: {jvm.said or 'no word'}",
            hint="Is there enough memory for spark.driver_memory, and does SPARK_CONF_DIR hold what it should?",
        )
    jvm.port, jvm.secret = _read_port(told)
    return jvm


def _make_home(conf: Mapping[str, str]) -> tempfile.TemporaryDirectory[str]:
    """A directory for this process alone, on a disk with room: on a full one Java waits, and does not say for what.

    Raises:
        ReaderDown: there is no room.
    """
    try:
        home = tempfile.TemporaryDirectory(prefix="syncd-spark-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ReaderDown(f"no place for the files of Spark: {error.strerror or error}", hint=ROOM_HINT) from error
    for place in dict.fromkeys((home.name, *conf.get("spark.local.dir", home.name).split(","))):
        if Path(place).is_dir() and shutil.disk_usage(place).free < ROOM:
            home.cleanup()
            raise ReaderDown(f"no space left for the files of Spark on the disk of {place}", hint=ROOM_HINT)
    return home


def _home() -> Path:
    """Where Spark lies. It is found without loading PySpark, which is loaded while Java starts."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ReaderDown("PySpark is not installed", hint="Install syncd again: pip install syncd")
    return Path(found.origin).resolve().parent


def _jars() -> Path:
    return _home() / "jars"


def _properties(conf: Mapping[str, str], place: Path, archive: ClassArchive | None) -> Path:
    """A file that only we read: settings may hold secrets, and a command line is everybody's."""
    (place / "log4j2.properties").write_text(_QUIET)
    options = [f"-Dlog4j2.configurationFile={place}/log4j2.properties", *(archive.options if archive else [])]
    further = conf.get("spark.driver.extraJavaOptions", "")
    whole = {
        **conf,
        "spark.local.dir": conf.get("spark.local.dir", str(place)),
        "spark.driver.extraJavaOptions": " ".join([*options, further]).strip(),
    }
    path = place / "spark.conf"
    path.touch(0o600)
    path.write_text("".join(f"{name} {_escaped(value)}\n" for name, value in whole.items()))
    return path


def _escaped(value: str) -> str:
    """As Java reads properties."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _command(java: str, properties: Path, environ: Mapping[str, str]) -> list[str]:
    """What `bin/spark-submit` would run, asked of the same launcher without the scripts around it."""
    launcher = next(iter(_jars().glob("spark-launcher_*.jar")))
    asked = subprocess.run(
        [
            *(java, "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", str(launcher), "org.apache.spark.launcher.Main"),
            *(_SUBMIT, "--properties-file", str(properties), "pyspark-shell"),
        ],
        env={**environ, "SPARK_HOME": str(_home()), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        check=False,
        timeout=STARTED_WITHIN,
    )
    parts = asked.stdout.partition("\0\n")[2].split("\0")[:-1]
    if asked.returncode != 0 or not parts:
        raise ReaderDown(f"the launcher of Spark gave no command: {asked.stderr.strip()[-_SAID_AT_MOST:]}")
    return [java, *parts[1:]]


def _environ(told: Path, *, local: bool) -> dict[str, str]:
    told_to_all = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)}
    # Told where Spark lies, it gives its workers PySpark out of an archive of sources, which each of them compiles
    # anew. On this machine alone they find it where we do.
    return told_to_all if local else {"SPARK_HOME": str(_home()), **told_to_all}


def _spawn(
    archive: ClassArchive | None, command: list[str], place: Path, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    with (place / "log").open("wb") as log:
        # Its standard input is a pipe of ours: when we end, in whatever way, it reads the end of it
        # and ends too. A session of its own keeps the terminal's Ctrl-C for us.
        return subprocess.Popen(
            archive.wrapped(command) if archive else command,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _read_port(told: Path) -> tuple[int, str]:
    port, length = struct.unpack_from("!ii", body := told.read_bytes())
    return port, body[8 : 8 + length].decode()
