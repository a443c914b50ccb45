"""`syncd daemon` and `syncd reload`: keep every stream up to date until stopped."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from syncd.cli.option_types import config_option, json_option
from syncd.cli.output import print_message, show_json
from syncd.error_classes import ExitCode, worst_exit_code

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from syncd.daemon.daemon_loop import DaemonLoop
    from syncd.daemon.event_sinks import EventSinks
    from syncd.daemon.monitor import DaemonMonitor
    from syncd.daemon.worker_pool import PassRunner
    from syncd.events import EventListener
    from syncd.settings import Settings
    from watermarks.clock import Clock

RELOAD_TIMEOUT_SECONDS: Final = 20.0
"""Time in which the loop has to take up a command."""


@click.command()
@config_option
def daemon(config: Path) -> None:
    """Keep every table up to date on its schedule, until SIGTERM or Ctrl-C."""
    run_daemon(config)


def run_daemon(config: Path, *, ttl: float | None = None) -> None:
    """Run the daemon of a file in this process; other processes take over after `ttl` seconds without a renewal."""
    from syncd.app.process_resources import LEASE_TTL_SECONDS
    from syncd.config.check import read_settings
    from syncd.daemon.daemon_loop import DaemonLoop
    from syncd.daemon.event_sinks import EventSinks
    from syncd.daemon.monitor import DaemonMonitor
    from syncd.daemon.schedule import HostClock

    ttl = ttl or LEASE_TTL_SECONDS
    settings = read_settings(config, os.environ)
    clock = HostClock()
    monitor = DaemonMonitor(settings, clock=clock)
    with EventSinks(settings, board=monitor.board, clock=clock, environ=os.environ, stream=sys.stderr) as sinks:
        loop = DaemonLoop(
            settings,
            read_settings=lambda: read_settings(config, os.environ),
            make_runner=partial(_make_pass_runner, ttl, monitor, sinks),
            readers=[sinks, *monitor.readers],
            report=sinks.report,
            clock=clock,
            lease_ttl_seconds=ttl,
        )
        with ExitStack() as stack:
            for part in _background_services(loop, config, sinks, clock):
                stack.enter_context(part)
            server = stack.enter_context(
                monitor.serve_http(last_iteration_at=lambda: loop.last_iteration_at, report=sinks.report)
            )
            if server is not None:
                sinks.report(f"dashboard at {server.url}")
            with _handle_signals(loop):
                sinks.report(f"{len(settings.streams)} tables; process {os.getpid()}")
                clean = loop.run()
        if clean:
            sinks.report("stopped")
        else:
            sinks.report("shutdown timed out; no data was lost and the leases will expire")
    if not clean:
        _exit_now(ExitCode.INTERRUPTED)


@click.command()
@config_option
@json_option
def reload(config: Path, *, as_json: bool) -> None:
    """Let the daemons that run with this file on this machine read it again.

    A file with mistakes changes nothing: the mistakes are printed, and the current settings stay in force.
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
            print_message(f"hint: {answer['hint'] or 'The daemon continues with its current settings.'}")
    sys.exit(worst_exit_code(_reply_exit_code(answer) for answer in answers))


def _reply_exit_code(answer: dict[str, Any]) -> ExitCode:
    if answer.get("pending"):
        return ExitCode.LAKE  # as for every request without an answer
    return ExitCode.USAGE if answer["error"] else ExitCode.DONE


def _describe_reply(answer: dict[str, Any]) -> str:
    if answer.get("pending"):
        return "requested, not done yet"
    if answer["error"]:
        return "refused, the current settings stay in force"
    changed = "read again" if answer["changed"] else "nothing has changed"
    return f"{changed}; changes under `daemon:` take effect at the next start" if answer["needs_restart"] else changed


def _background_services(
    loop: "DaemonLoop", config: Path, sinks: "EventSinks", clock: "Clock"
) -> "Iterator[AbstractContextManager[object]]":
    """Yield the services that run beside the loop; if one cannot start, the daemon does not start."""
    from syncd.daemon.control_socket import ControlServer
    from syncd.daemon.systemd import SystemdNoticeSocket, SystemdNotifier

    yield ControlServer(config, _make_control_handler(loop))
    yield SystemdNotifier(
        SystemdNoticeSocket.from_environ(os.environ), loop, clock=clock, describe_status=sinks.describe_status
    )


def _make_control_handler(loop: "DaemonLoop") -> "Callable[[str], dict[str, Any]]":
    from syncd.daemon.config_reload import reload_pending

    def answer(command: str) -> dict[str, Any]:
        if command != "reload":
            return {"process": os.getpid(), "error": f"unknown command {command!r}", "hint": ""}
        try:
            result = loop.reload().result(RELOAD_TIMEOUT_SECONDS)
        except TimeoutError:
            result = reload_pending(waited_seconds=RELOAD_TIMEOUT_SECONDS, is_stopping=loop.is_stopping)
        return {"process": os.getpid(), **result.to_json()}

    return answer


def _make_pass_runner(
    ttl: float,
    monitor: "DaemonMonitor",
    sinks: "EventSinks",
    settings: "Settings",
    emit: "EventListener",
    on_lease_lost: "Callable[[], None]",
) -> "PassRunner":
    from syncd.app.stage_services import StageService

    monitor.reconfigure(settings)
    sinks.reconfigure(settings)
    return StageService(
        settings,
        environ=os.environ,
        emit=emit,
        meter=monitor.meter,
        lease_ttl_seconds=ttl,
        on_lease_lost=on_lease_lost,
    )


@contextmanager
def _handle_signals(loop: "DaemonLoop") -> Iterator[None]:
    """Stop on SIGTERM and Ctrl-C, at once on the second one; read the configuration again on SIGHUP."""
    stops = 0

    def stop(_number: int, _frame: object) -> None:
        nonlocal stops
        stops += 1
        if stops > 1:
            _exit_now(ExitCode.INTERRUPTED)
        loop.stop()

    def read_again(_number: int, _frame: object) -> None:
        loop.reload()

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: read_again}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_now(code: ExitCode) -> None:
    """End the process at once: every step survives a kill, and the JVM ends with this process."""
    os._exit(code)
