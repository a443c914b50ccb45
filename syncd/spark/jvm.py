"""The JVM of Spark's driver: started without a shell script, and never outliving its parent."""

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

from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import ReaderDown
from syncd.host.java import find_java
from syncd.spark.class_archive import ClassArchive, find_archive

START_TIMEOUT_SECONDS: Final = 120.0
EXIT_TIMEOUT_SECONDS: Final = 20.0
MIN_FREE_BYTES: Final = 4 << 20
"""Far more than a session writes; rows never reach this disk."""
FREE_SPACE_HINT: Final = (
    "Free some space there, or set another directory: TMPDIR, or spark.local.dir in `spark: {conf: }`."
)
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_OUT_OF_MEMORY_EXIT_CODE: Final = 52
"""Exit code of Spark after running out of heap."""
_OUTPUT_TAIL_CHARS: Final = 2_000

_LOG4J_CONFIG: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
# A failed task is reported to its caller, once.
logger.quiet.name = org.apache.spark
logger.quiet.level = fatal
"""


@dataclass(slots=True)
class Jvm:
    """One Java process with Spark, and its gateway port."""

    process: subprocess.Popen[bytes]
    home: tempfile.TemporaryDirectory[str]
    makes_archive: bool = False
    """Whether it writes its class archive when it ends, which takes too long to wait for."""
    port: int = 0
    secret: str = field(default="", repr=False)

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def wait_for_exit(self, within: float) -> bool:
        """Return whether the process has ended, or ends within so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(within)
        return self.has_ended

    @property
    def ran_out_of_memory(self) -> bool:
        """Return whether Spark ended it because its heap was full."""
        return self.process.poll() == _OUT_OF_MEMORY_EXIT_CODE

    @property
    def output_tail(self) -> str:
        """Last output, for a failed start."""
        log = Path(self.home.name) / "log"
        return log.read_text(errors="replace")[-_OUTPUT_TAIL_CHARS:].strip() if log.exists() else ""

    def stop(self) -> None:
        """Close the pipe that keeps it alive; kill it if it does not end, unless it writes an archive."""
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
        """Close the pipe without waiting: it ends, and writes its class archive, in the background."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        threading.Thread(target=self.process.wait, name="java-ends", daemon=True).start()
        self.home.cleanup()

    def kill(self) -> None:
        """Kill it with all its child processes."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(EXIT_TIMEOUT_SECONDS)


def start_jvm(conf: Mapping[str, str], *, environ: Mapping[str, str], cache: Path, drivers: Sequence[Path]) -> Jvm:
    """Start Spark's JVM and wait until it listens.

    Raises:
        NoJava, JavaTooOld: there is no suitable Java.
        ReaderDown: it ended, or did not start in time.
    """
    java = find_java(environ)
    home = _make_home(conf)
    place = Path(home.name)
    archive = find_archive(cache, java=java, class_path=[*sorted(_spark_jars().glob("*.jar")), *drivers])
    command = _build_command(java, _write_properties(conf, place, archive), environ)
    port_file = place / "port"
    local = conf.get("spark.master", "local").startswith("local")
    process = _spawn(archive, command, place, {**environ, **_build_environment(port_file, local=local)})
    jvm = Jvm(process=process, home=home, makes_archive=archive is not None and not archive.exists)
    up = wait_until(lambda: port_file.exists() or jvm.process.poll() is not None, timeout_seconds=START_TIMEOUT_SECONDS)
    if not up or not port_file.exists():
        jvm.kill()
        raise ReaderDown(
            f"the JVM of Spark {'ended during its start' if up else 'did not start in time'}:"
            f" {jvm.output_tail or 'no output'}",
            hint="Check that the machine has the memory of spark.driver_memory, and the files in SPARK_CONF_DIR.",
        )
    jvm.port, jvm.secret = _read_port(port_file)
    return jvm


def _make_home(conf: Mapping[str, str]) -> tempfile.TemporaryDirectory[str]:
    """Make a directory for this process, on a disk with free space: on a full one Java waits without a message.

    Raises:
        ReaderDown: there is not enough space.
    """
    try:
        home = tempfile.TemporaryDirectory(prefix="syncd-spark-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ReaderDown(
            f"cannot make a directory for the files of Spark: {error.strerror or error}", hint=FREE_SPACE_HINT
        ) from error
    for place in dict.fromkeys((home.name, *conf.get("spark.local.dir", home.name).split(","))):
        if Path(place).is_dir() and shutil.disk_usage(place).free < MIN_FREE_BYTES:
            home.cleanup()
            raise ReaderDown(f"no space left for the files of Spark on the disk of {place}", hint=FREE_SPACE_HINT)
    return home


def _spark_home() -> Path:
    """Return Spark's directory, without loading PySpark, which is loaded while Java starts."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ReaderDown("PySpark is not installed", hint="Reinstall syncd: pip install syncd")
    return Path(found.origin).resolve().parent


def _spark_jars() -> Path:
    return _spark_home() / "jars"


def _write_properties(conf: Mapping[str, str], folder: Path, archive: ClassArchive | None) -> Path:
    """Write a file that only we can read: settings may hold secrets, and command lines are public."""
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
    """Escape a value for a Java properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _build_command(java: str, properties: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the command of `bin/spark-submit`, from the same launcher without its shell scripts."""
    launcher = next(iter(_spark_jars().glob("spark-launcher_*.jar")))
    launched = subprocess.run(
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
    parts = launched.stdout.partition("\0\n")[2].split("\0")[:-1]
    if launched.returncode != 0 or not parts:
        raise ReaderDown(f"the launcher of Spark returned no command: {launched.stderr.strip()[-_OUTPUT_TAIL_CHARS:]}")
    return [java, *parts[1:]]


def _build_environment(port_file: Path, *, local: bool) -> dict[str, str]:
    environment = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(port_file)}
    # With SPARK_HOME set, workers get PySpark from an archive of sources, which each of them compiles again. On this
    # machine they find the installed one.
    return environment if local else {"SPARK_HOME": str(_spark_home()), **environment}


def _spawn(
    archive: ClassArchive | None, command: list[str], folder: Path, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    with (folder / "log").open("wb") as log:
        # Its standard input is our pipe: however this process ends, it reads the end of file
        # and ends too. A process session of its own keeps the terminal's Ctrl-C away from it.
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
