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

from syncd.cli.exit_codes import ExitCode, worst_exit_code
from syncd.cli.output import print_message, show_json
from syncd.cli.stream_options import DEFAULT_CONFIG_PATH

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from syncd.daemon.daemon_loop import DaemonLoop
    from syncd.daemon.event_sinks import EventSinks
    from syncd.daemon.monitoring import DaemonMonitor
    from syncd.daemon.pass_runner import PassRunner
    from syncd.events import EventListener
    from syncd.settings import Settings
    from watermarks.clock import Clock

ANSWERS_WITHIN: Final = 20.0
"""Seconds in which the loop has to take up a word."""

_config_option = click.option(
    "-c", "--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG_PATH, show_default=True, help="The file."
)


@click.command()
@_config_option
def daemon(config: Path) -> None:
    """Keep every table up to date, each by its schedule, until SIGTERM or Ctrl-C."""
    run_daemon(config)


def run_daemon(config: Path, *, ttl: float | None = None) -> None:
    """Be the daemon of a file in this process; `ttl` is after how many seconds of silence others take over."""
    from syncd.app import LEASE_TTL_SECONDS
    from syncd.config.check import read_settings
    from syncd.daemon.daemon_loop import DaemonLoop
    from syncd.daemon.event_sinks import EventSinks
    from syncd.daemon.monitoring import DaemonMonitor
    from syncd.daemon.schedule import HostClock

    ttl = ttl or LEASE_TTL_SECONDS
    settings = read_settings(config, os.environ)
    clock = HostClock()
    watching = DaemonMonitor(settings, clock=clock)
    with EventSinks(settings, clock=clock, environ=os.environ, stream=sys.stderr) as tellers:
        at_work = DaemonLoop(
            settings,
            read_settings=lambda: read_settings(config, os.environ),
            make_runner=partial(_make_pass_runner, ttl, watching, tellers),
            readers=[tellers, *watching.readers],
            report=tellers.report,
            clock=clock,
            lease_ttl_seconds=ttl,
        )
        with ExitStack() as stack:
            for part in _background_services(at_work, config, tellers, clock):
                stack.enter_context(part)
            server = stack.enter_context(
                watching.serve_http(last_iteration_at=lambda: at_work.last_iteration_at, report=tellers.report)
            )
            if server is not None:
                tellers.report(f"shown at {server.url}")
            with _handle_signals(at_work):
                tellers.report(f"{len(settings.streams)} tables; process {os.getpid()}")
                clean = at_work.run()
        if clean:
            tellers.report("stopped")
        else:
            tellers.report(
                "not everything came to its end in time; nothing is lost, and what was held falls free by itself"
            )
    if not clean:
        _exit_now(ExitCode.INTERRUPTED)


@click.command()
@_config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def reload(config: Path, *, as_json: bool) -> None:
    """Let the daemons of this file on this machine read it again.

    A file with mistakes changes nothing: they are told, and the settings of before stay in force.
    """
    from syncd.daemon.control_socket import send_command

    answers = send_command(config, "reload")
    if as_json:
        show_json({"daemons": answers})
    for answer in answers:
        if not as_json:
            click.echo(f"process {answer['process']}: {_describe_reply(answer)}")
        if answer["error"]:
            print_message(f"error: {answer['error']}")
            print_message(f"hint: {answer['hint'] or 'The daemon goes on with the settings of before.'}")
    sys.exit(worst_exit_code(_reply_exit_code(answer) for answer in answers))


def _reply_exit_code(answer: dict[str, Any]) -> ExitCode:
    if answer.get("pending"):
        return ExitCode.LAKE  # as of whatever was asked for and not answered
    return ExitCode.USAGE if answer["error"] else ExitCode.DONE


def _describe_reply(answer: dict[str, Any]) -> str:
    if answer.get("pending"):
        return "asked, and not done yet"
    if answer["error"]:
        return "refused, the settings of before stay in force"
    changed = "read again" if answer["changed"] else "nothing has changed"
    return f"{changed}; `daemon:` comes into force with the next start" if answer["needs_restart"] else changed


def _background_services(
    at_work: "DaemonLoop", config: Path, tellers: "EventSinks", clock: "Clock"
) -> "Iterator[AbstractContextManager[object]]":
    """Everything that is up while the loop runs; what cannot be put up is the end of the start."""
    from syncd.daemon.control_socket import ControlServer
    from syncd.daemon.systemd import SystemdNoticeSocket
    from syncd.daemon.systemd_watchdog import SystemdNotifier

    yield ControlServer(config, _make_control_handler(at_work))
    yield SystemdNotifier(
        SystemdNoticeSocket.from_environ(os.environ), at_work, clock=clock, describe_status=tellers.describe_status
    )


def _make_control_handler(at_work: "DaemonLoop") -> "Callable[[str], dict[str, Any]]":
    from syncd.daemon.config_reload import reload_pending

    def answer(word: str) -> dict[str, Any]:
        if word != "reload":
            return {"process": os.getpid(), "error": f"{word!r} is nothing that is known here", "hint": ""}
        try:
            told = at_work.reload().result(ANSWERS_WITHIN)
        except TimeoutError:
            told = reload_pending(waited_seconds=ANSWERS_WITHIN, is_stopping=at_work.is_stopping)
        return {"process": os.getpid(), **told.to_json()}

    return answer


def _make_pass_runner(
    ttl: float,
    watching: "DaemonMonitor",
    tellers: "EventSinks",
    settings: "Settings",
    tell: "EventListener",
    lost: "Callable[[], None]",
) -> "PassRunner":
    from syncd.app import StageService

    watching.reconfigure(settings)
    tellers.reconfigure(settings)
    return StageService(
        settings, environ=os.environ, emit=tell, meter=watching.meter, lease_ttl_seconds=ttl, on_lease_lost=lost
    )


@contextmanager
def _handle_signals(at_work: "DaemonLoop") -> Iterator[None]:
    """SIGTERM and Ctrl-C stop it, the second of them at once; SIGHUP has it read its file again."""
    asked = 0

    def stop(_number: int, _frame: object) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            _exit_now(ExitCode.INTERRUPTED)
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


def _exit_now(code: ExitCode) -> None:
    """End now, whatever is under way: it is made so that this harms nothing, and the JVM ends with us."""
    os._exit(code)
