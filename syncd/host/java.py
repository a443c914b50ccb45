"""The Java of this machine, and its version."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from syncd.errors import JavaTooOld, NoJava

OLDEST_JAVA: Final = 17  # Spark 4 runs on nothing older
_INSTALL_HINT: Final = (
    f"Install a Java runtime of version {OLDEST_JAVA} or newer and put it on PATH, or set JAVA_HOME to it."
)
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def find_java(environ: Mapping[str, str]) -> str:
    """Return the program `java` of JAVA_HOME, else of PATH, after checking its version.

    Raises:
        NoJava: there is none, or it does not run.
        JavaTooOld: its version is too old for Spark.
    """
    home = environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        raise NoJava(f"no java in JAVA_HOME={home}" if home else "no java on PATH", hint=_INSTALL_HINT)
    major = _major_version(java, environ)
    if major < OLDEST_JAVA:
        raise JavaTooOld(f"{java} is Java {major}, and {OLDEST_JAVA} or newer is needed", hint=_INSTALL_HINT)
    return java


def _major_version(java: str, environ: Mapping[str, str]) -> int:
    """Return the version in Java's release file, or, which takes longer, the one that the program reports."""
    with suppress(OSError, UnicodeDecodeError):
        if found := _RELEASE.search((Path(java).resolve().parent.parent / "release").read_text(encoding="utf-8")):
            return int(found[1])
    try:
        completed = subprocess.run(
            [java, "-version"], env=environ, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoJava(f"{java} does not run: {error}", hint=_INSTALL_HINT) from error
    found = _VERSION.search(completed.stderr)
    if completed.returncode != 0 or found is None:
        raise NoJava(f"{java} -version shows no version", hint=_INSTALL_HINT)
    return int(found[1])
