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

from syncd.concurrency.polling import wait_until
from syncd.errors import ReaderDown
from syncd.host.java import find_java
from syncd.spark.class_archive import ClassArchive, find_archive

START_TIMEOUT_SECONDS: Final = 120.0
EXIT_TIMEOUT_SECONDS: Final = 20.0
MIN_FREE_BYTES: Final = 4 << 20
"""Bytes: far more than a session writes by itself; rows never come to this disk."""
FREE_SPACE_HINT: Final = (
    "Free some space there, or name another directory: TMPDIR, or spark.local.dir in `spark: {conf: }`."
)
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_OUT_OF_MEMORY_EXIT_CODE: Final = 52
"""The code with which Spark ends then."""
_OUTPUT_TAIL_CHARS: Final = 2_000

_LOG4J_CONFIG: Final = """\
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
    makes_archive: bool = False
    """Whether it makes the archive of its classes when it ends, which takes it longer than anybody should wait."""
    port: int = 0
    secret: str = field(default="", repr=False)

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    def wait_for_exit(self, within: float) -> bool:
        """Whether the process is gone, or is in so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(within)
        return self.has_ended

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether Spark ended it because its heap had no room."""
        return self.process.poll() == _OUT_OF_MEMORY_EXIT_CODE

    @property
    def output_tail(self) -> str:
        """The last of what it wrote, for a failed start."""
        log = Path(self.home.name) / "log"
        return log.read_text(errors="replace")[-_OUTPUT_TAIL_CHARS:].strip() if log.exists() else ""

    def stop(self) -> None:
        """Close the pipe that keeps it alive; kill what does not end by itself, unless it has an archive to make."""
        if self.makes_archive:
            self.detach()
            return
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(EXIT_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self.home.cleanup()

    def detach(self) -> None:
        """Close the pipe and do not wait: it ends, and archives its classes, at its own pace."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        threading.Thread(target=self.process.wait, name="java-ends", daemon=True).start()
        self.home.cleanup()

    def kill(self) -> None:
        """End it now, with whatever it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(EXIT_TIMEOUT_SECONDS)


def start_jvm(conf: Mapping[str, str], *, environ: Mapping[str, str], cache: Path, drivers: Sequence[Path]) -> Jvm:
    """Start Spark's JVM and wait until it listens.

    Raises:
        NoJava, JavaTooOld: there is none that will do.
        ReaderDown: it ended, or did not come up in time.
    """
    java = find_java(environ)
    home = _make_home(conf)
    place = Path(home.name)
    archive = find_archive(cache, java=java, class_path=[*sorted(_spark_jars().glob("*.jar")), *drivers])
    command = _build_command(java, _write_properties(conf, place, archive), environ)
    told = place / "port"
    local = conf.get("spark.master", "local").startswith("local")
    process = _spawn(archive, command, place, {**environ, **_build_environment(told, local=local)})
    jvm = Jvm(process=process, home=home, makes_archive=archive is not None and not archive.exists)
    up = wait_until(lambda: told.exists() or jvm.process.poll() is not None, timeout_seconds=START_TIMEOUT_SECONDS)
    if not up or not told.exists():
        jvm.kill()
        raise ReaderDown(
            f"the JVM of Spark {'ended' if up else 'did not listen'} before it could be asked:"
            f" {jvm.output_tail or 'no word'}",
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
        raise ReaderDown(f"no place for the files of Spark: {error.strerror or error}", hint=FREE_SPACE_HINT) from error
    for place in dict.fromkeys((home.name, *conf.get("spark.local.dir", home.name).split(","))):
        if Path(place).is_dir() and shutil.disk_usage(place).free < MIN_FREE_BYTES:
            home.cleanup()
            raise ReaderDown(f"no space left for the files of Spark on the disk of {place}", hint=FREE_SPACE_HINT)
    return home


def _spark_home() -> Path:
    """Where Spark lies. It is found without loading PySpark, which is loaded while Java starts."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ReaderDown("PySpark is not installed", hint="Install syncd again: pip install syncd")
    return Path(found.origin).resolve().parent


def _spark_jars() -> Path:
    return _spark_home() / "jars"


def _write_properties(conf: Mapping[str, str], folder: Path, archive: ClassArchive | None) -> Path:
    """A file that only we read: settings may hold secrets, and a command line is everybody's."""
    (folder / "log4j2.properties").write_text(_LOG4J_CONFIG)
    options = [f"-Dlog4j2.configurationFile={folder}/log4j2.properties", *(archive.java_options if archive else [])]
    further = conf.get("spark.driver.extraJavaOptions", "")
    whole = {
        **conf,
        "spark.local.dir": conf.get("spark.local.dir", str(folder)),
        "spark.driver.extraJavaOptions": " ".join([*options, further]).strip(),
    }
    path = folder / "spark.conf"
    path.touch(0o600)
    path.write_text("".join(f"{name} {_escape(value)}\n" for name, value in whole.items()))
    return path


def _escape(value: str) -> str:
    """As Java reads properties."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _build_command(java: str, properties: Path, environ: Mapping[str, str]) -> list[str]:
    """What `bin/spark-submit` would run, asked of the same launcher without the scripts around it."""
    launcher = next(iter(_spark_jars().glob("spark-launcher_*.jar")))
    asked = subprocess.run(
        [
            *(java, "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", str(launcher), "org.apache.spark.launcher.Main"),
            *(_SUBMIT, "--properties-file", str(properties), "pyspark-shell"),
        ],
        env={**environ, "SPARK_HOME": str(_spark_home()), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        check=False,
        timeout=START_TIMEOUT_SECONDS,
    )
    parts = asked.stdout.partition("\0\n")[2].split("\0")[:-1]
    if asked.returncode != 0 or not parts:
        raise ReaderDown(f"the launcher of Spark gave no command: {asked.stderr.strip()[-_OUTPUT_TAIL_CHARS:]}")
    return [java, *parts[1:]]


def _build_environment(port_file: Path, *, local: bool) -> dict[str, str]:
    told_to_all = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(port_file)}
    # Told where Spark lies, it gives its workers PySpark out of an archive of sources, which each of them compiles
    # anew. On this machine alone they find it where we do.
    return told_to_all if local else {"SPARK_HOME": str(_spark_home()), **told_to_all}


def _spawn(
    archive: ClassArchive | None, command: list[str], folder: Path, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    with (folder / "log").open("wb") as log:
        # Its standard input is a pipe of ours: when we end, in whatever way, it reads the end of it
        # and ends too. A session of its own keeps the terminal's Ctrl-C for us.
        return subprocess.Popen(
            archive.wrap_command(command) if archive else command,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _read_port(port_file: Path) -> tuple[int, str]:
    port, length = struct.unpack_from("!ii", body := port_file.read_bytes())
    return port, body[8 : 8 + length].decode()
