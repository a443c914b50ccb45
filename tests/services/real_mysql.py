"""MySQL itself, for tests: the server of Debian's unstable suite, in a directory of its own.

    python -m tests.services.real_mysql      builds it (as root, about a minute), and says where it is

`debootstrap` makes the directory, once; tests find it there. The server runs with the loader
and the libraries of that directory: nothing is mounted, and no root is needed to start it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from syncd.host.directories import hold_lock

SUITE: Final = "sid"
PACKAGE: Final = "mysql-server-core"
BUILT_WITHIN: Final = 900.0


class Unavailable(Exception):
    """Why there is no real MySQL here, and what would change that."""


def real_mysql() -> Path:
    """A directory to put on PATH: its `mysqld` is MySQL's. Built at the first call, where it can be.

    Raises:
        Unavailable: it is not built, and cannot be.
    """
    place = _place()
    if not (place / "bin" / "mysqld").exists():
        _build(place)
    return place / "bin"


def can_be_had() -> bool:
    """Whether it is built, or a test that asks for it builds it."""
    return (_place() / "bin" / "mysqld").exists() or (os.geteuid() == 0 and shutil.which("debootstrap") is not None)


def _place() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "syncd-tests" / "real-mysql"


def _build(place: Path) -> None:
    if os.geteuid() != 0:
        raise Unavailable("no real MySQL: it is built as root, with python -m tests.services.real_mysql")
    if shutil.which("debootstrap") is None:
        raise Unavailable("no real MySQL: apt-get install debootstrap, then python -m tests.services.real_mysql")
    place.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(place.parent, within=BUILT_WITHIN):
        if place.exists():
            return
        draft = place.with_name("building")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            _run("debootstrap", "--variant=minbase", SUITE, str(draft))
            with _proc_in(draft):
                install = ("apt-get", "install", "--yes", "--no-install-recommends", PACKAGE)
                _run("chroot", str(draft), "env", "DEBIAN_FRONTEND=noninteractive", *install)
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"no real MySQL: {error.cmd[0]} failed: {_last_line(error.output)}") from error
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"no real MySQL: {error.cmd[0]} did not end in {BUILT_WITHIN:.0f} s") from error
        _write_launcher(draft, place)
        draft.rename(place)


@contextmanager
def _proc_in(root: Path) -> Iterator[None]:
    """Some packages ask /proc while they are installed."""
    _run("mount", "--bind", "/proc", str(root / "proc"))
    try:
        yield
    finally:
        _run("umount", str(root / "proc"))


def _run(*command: str) -> None:
    subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        timeout=BUILT_WITHIN,
    )


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or ["nothing was said"])[-1]


def _write_launcher(draft: Path, place: Path) -> None:
    """`bin/mysqld`: the server with the loader and the libraries it was built for, wherever it is started."""
    # The usual programs stay where they are, in usr/bin; `bin` is but a link to it.
    (draft / "bin").unlink()
    (draft / "bin").mkdir()
    triplet = next((draft / "usr/lib").glob("*-linux-gnu")).name
    loader = next((draft / "usr/lib" / triplet).glob("ld-linux*")).name
    libraries = f"{place}/usr/lib/{triplet}"
    launcher = draft / "bin" / "mysqld"
    launcher.write_text(
        "#!/bin/sh\n"
        f'exec "{libraries}/{loader}" --library-path "{libraries}:{libraries}/private"'
        f' "{place}/usr/sbin/mysqld" "$@" --basedir="{place}/usr"\n'
    )
    launcher.chmod(0o755)


def main() -> None:
    if os.geteuid() == 0 and shutil.which("debootstrap") is None and shutil.which("apt-get") is not None:
        _run("apt-get", "install", "--yes", "debootstrap")
    try:
        found = real_mysql()
    except Unavailable as error:
        sys.exit(str(error))
    version = subprocess.run([found / "mysqld", "--version"], capture_output=True, text=True, check=True).stdout
    sys.stdout.write(f"{found}: {version}")


if __name__ == "__main__":
    main()
