"""Watcher that ends one server process with the process that started it; runs as a script of its own.

    python parent_watch.py USER_ID GROUP_ID PROGRAM ARGUMENT...

The program runs as that user. When standard input ends, because the starter closed it or is gone,
the watcher asks the program to stop and ends after it. Standard library only.
"""

import ctypes
import os
import signal
import sys
import threading
from typing import Final

PR_SET_PDEATHSIG: Final = 1
STOP_TIMEOUT_SECONDS: Final = 10.0


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process with the watcher, where the kernel can (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def switch_user(user: int, group: int) -> None:
    if os.geteuid() == 0 and user != 0:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)


def launch(user: int, group: int, command: list[str]) -> int:
    watcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        switch_user(user, group)
        die_with_parent(watcher)
        os.close(0)
        os.open(os.devnull, os.O_RDONLY)
        os.execv(command[0], command)  # noqa: S606  # no shell; the arguments are our own
    return pid


def stop_at_end_of_input(pid: int) -> None:
    """Wait for the starter to go, then ask for a fast stop, then kill."""
    while os.read(0, 1024):
        pass
    os.kill(pid, signal.SIGINT)
    kill = threading.Timer(STOP_TIMEOUT_SECONDS, os.kill, (pid, signal.SIGKILL))
    kill.daemon = True
    kill.start()


def main() -> int:
    user, group, *command = sys.argv[1:]
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    pid = launch(int(user), int(group), command)
    threading.Thread(target=stop_at_end_of_input, args=(pid,), daemon=True).start()
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
