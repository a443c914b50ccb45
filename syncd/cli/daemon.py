"""`syncd daemon` and `syncd reload`: every stream kept up to date until somebody says stop."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.exit_codes import Exit, worst
from syncd.cli.output import say, show_json
from syncd.cli.stream_options import CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from syncd.daemon.daemon_loop import Daemon
    from syncd.daemon.event_sinks import Tellers
    from syncd.daemon.monitoring import Watching
    from syncd.daemon.pass_runner import Works
    from syncd.events import Tell
    from syncd.settings import Settings
    from watermarks.clock import Clock

ANSWERS_WITHIN: Final = 20.0
"""Seconds in which the loop has to take up a word."""

_file = click.option(
    "-c", "--config", type=click.Path(path_type=Path), default=CONFIG, show_default=True, help="The file."
)


@click.command()
@_file
def daemon(config: Path) -> None:
    """Keep every table up to date, each by its schedule, until SIGTERM or Ctrl-C."""
    serve(config)


def serve(config: Path, *, ttl: float | None = None) -> None:
    """Be the daemon of a file in this process; `ttl` is after how many seconds of silence others take over."""
    from syncd.app import TTL
    from syncd.config.check import read_settings
    from syncd.daemon.daemon_loop import Daemon
    from syncd.daemon.event_sinks import Tellers
    from syncd.daemon.monitoring import Watching
    from syncd.daemon.schedule import HostClock

    ttl = ttl or TTL
    settings = read_settings(config, os.environ)
    clock = HostClock()
    watching = Watching(settings, clock=clock)
    with Tellers(settings, clock=clock, environ=os.environ, stream=sys.stderr) as tellers:
        at_work = Daemon(
            settings,
            read=lambda: read_settings(config, os.environ),
            make=partial(_works, ttl, watching, tellers),
            readers=[tellers, *watching.readers],
            say=tellers.say,
            clock=clock,
            ttl=ttl,
        )
        with ExitStack() as stack:
            for part in _around(at_work, config, tellers, clock):
                stack.enter_context(part)
            server = stack.enter_context(watching.serving(beat=lambda: at_work.turned_at, say=tellers.say))
            if server is not None:
                tellers.say(f"shown at {server.url}")
            with _signals(at_work):
                tellers.say(f"{len(settings.streams)} tables; process {os.getpid()}")
                clean = at_work.run()
        if clean:
            tellers.say("stopped")
        else:
            tellers.say(
                "not everything came to its end in time; nothing is lost, and what was held falls free by itself"
            )
    if not clean:
        _leave(Exit.INTERRUPTED)


@click.command()
@_file
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def reload(config: Path, *, as_json: bool) -> None:
    """Let the daemons of this file on this machine read it again.

    A file with mistakes changes nothing: they are told, and the settings of before stay in force.
    """
    from syncd.daemon.control_socket import ask

    answers = ask(config, "reload")
    if as_json:
        show_json({"daemons": answers})
    for answer in answers:
        if not as_json:
            click.echo(f"process {answer['process']}: {_told(answer)}")
        if answer["error"]:
            say(f"error: {answer['error']}")
            say(f"hint: {answer['hint'] or 'The daemon goes on with the settings of before.'}")
    sys.exit(worst(_code(answer) for answer in answers))


def _code(answer: dict[str, Any]) -> Exit:
    if answer.get("pending"):
        return Exit.LAKE  # as of whatever was asked for and not answered
    return Exit.USAGE if answer["error"] else Exit.DONE


def _told(answer: dict[str, Any]) -> str:
    if answer.get("pending"):
        return "asked, and not done yet"
    if answer["error"]:
        return "refused, the settings of before stay in force"
    changed = "read again" if answer["changed"] else "nothing has changed"
    return f"{changed}; `daemon:` comes into force with the next start" if answer["needs_restart"] else changed


def _around(
    at_work: "Daemon", config: Path, tellers: "Tellers", clock: "Clock"
) -> "Iterator[AbstractContextManager[object]]":
    """Everything that is up while the loop runs; what cannot be put up is the end of the start."""
    from syncd.daemon.control_socket import Listening
    from syncd.daemon.systemd import Systemd
    from syncd.daemon.systemd_watchdog import Alive

    yield Listening(config, _answering(at_work))
    yield Alive(Systemd.of(os.environ), at_work, clock=clock, status=tellers.status)


def _answering(at_work: "Daemon") -> "Callable[[str], dict[str, Any]]":
    from syncd.daemon.config_reload import not_yet

    def answer(word: str) -> dict[str, Any]:
        if word != "reload":
            return {"process": os.getpid(), "error": f"{word!r} is nothing that is known here", "hint": ""}
        try:
            told = at_work.reload().result(ANSWERS_WITHIN)
        except TimeoutError:
            told = not_yet(within=ANSWERS_WITHIN, ending=at_work.ending)
        return {"process": os.getpid(), **told.fields()}

    return answer


def _works(
    ttl: float,
    watching: "Watching",
    tellers: "Tellers",
    settings: "Settings",
    tell: "Tell",
    lost: "Callable[[], None]",
) -> "Works":
    from syncd.app import Service

    watching.settings(settings)
    tellers.reconfigure(settings)
    return Service(settings, environ=os.environ, tell=tell, meter=watching.meter, ttl=ttl, lost=lost)


@contextmanager
def _signals(at_work: "Daemon") -> Iterator[None]:
    """SIGTERM and Ctrl-C stop it, the second of them at once; SIGHUP has it read its file again."""
    asked = 0

    def stop(_number: int, _frame: object) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            _leave(Exit.INTERRUPTED)
        at_work.stop()

    def read_again(_number: int, _frame: object) -> None:
        at_work.reload()

    wanted = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: read_again}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(code: Exit) -> None:
    """End now, whatever is under way: it is made so that this harms nothing, and the JVM ends with us."""
    os._exit(code)
