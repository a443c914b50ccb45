"""Supervisor of a sandbox's services: it starts, probes and ends its own processes and no others."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from syncd.concurrency.thread_helpers import wait_until
from syncd.errors import NotReady, NotWritable
from syncd.host.directories import LOCK_WAIT_SECONDS, hold_lock, make_writable
from syncd.sandbox.process import ProcessId, choose_port, find_marked, is_port_free, launch
from syncd.sandbox.sandbox_dirs import ServiceRecord, read_state, write_state
from syncd.sandbox.service import SandboxService

START_TIMEOUT_SECONDS: Final = 60.0
STOP_TIMEOUT_SECONDS: Final = 30.0
MAX_START_ATTEMPTS: Final = 3  # a free port may be taken between the choice and the server's start
DIRECTORY_HINT: Final = "Make the directory writable, or choose another one with --dir."


class ServiceState(StrEnum):
    RUNNING = "running"
    SILENT = "silent"  # its process runs and does not answer
    KILLED = "killed"  # its process is gone without `down`
    STOPPED = "stopped"
    EXTERNAL = "external"  # a server that the sandbox did not start, which answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """One service as it was just probed."""

    name: str
    state: ServiceState
    url: str = ""
    port: int = 0
    pid: int | None = None
    about: str = ""
    log: str = ""
    started_now: bool = False


class Supervisor:
    """The services of one directory, in the order of starting."""

    def __init__(
        self,
        directory: Path,
        services: Sequence[SandboxService],
        *,
        wait: float = LOCK_WAIT_SECONDS,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._directory = directory
        self._services = services
        self._wait = wait
        self._report = report
        self.started: Sequence[str] = ()
        """Names of the services that the last `up` started."""

    def up(self) -> list[ServiceStatus]:
        """Start what does not run, and return when every service has answered.

        Services that run and answer stay as they are. If one cannot start, the services that
        this call started are ended again.

        Raises:
            HintedError: the service's own start error, with the cause from its log.
        """
        self.started = ()
        make_writable(self._directory / "log", hint=DIRECTORY_HINT)
        with hold_lock(self._directory, within=self._wait):
            records = read_state(self._directory)
            standing = {s.name: self._status_if_running(s, records.get(s.name)) for s in self._services}
            absent = [s for s in self._services if standing[s.name] is None]
            self.started = [service.name for service in absent]
            for service in absent:
                # A server that does not answer ignores SIGTERM too.
                self._stop_service(service.name, records, timeout_seconds=0.0)
            started = self._start_all(absent, records)
        return [standing[s.name] or started[s.name] for s in self._services]

    def restart(self, name: str, *, kill: bool = False) -> ServiceStatus:
        """End one service, with SIGKILL if asked, and start it again on the port it had."""
        service = next(s for s in self._services if s.name == name)
        if service.is_external:
            raise NotReady(
                f"{name} is an external server, which the sandbox does not restart", hint="Restart it where it runs."
            )
        with hold_lock(self._directory, within=self._wait):
            records = read_state(self._directory)
            process = records[name].process
            if process is not None and kill:
                process.kill()
                wait_until(lambda: is_port_free(records[name].port), timeout_seconds=STOP_TIMEOUT_SECONDS)
            return self._start_all([service], records)[name]

    def stop(self, names: Sequence[str]) -> None:
        """End these services and leave the others running."""
        with hold_lock(self._directory, within=self._wait):
            records = read_state(self._directory)
            for name in names:
                self._stop_service(name, records)

    def _status_if_running(self, service: SandboxService, record: ServiceRecord | None) -> ServiceStatus | None:
        """Return the status of a service that needs no start, else None."""
        found = check_service(service, record)
        return found if found.state in (ServiceState.RUNNING, ServiceState.EXTERNAL) else None

    def _start_all(
        self, services: Sequence[SandboxService], records: dict[str, ServiceRecord]
    ) -> dict[str, ServiceStatus]:
        try:
            for service in services:
                # What is left of a silent, killed or restarted server ends before its data is touched.
                self._stop_service(service.name, records)
                self._prepare(service)
                # Launched before the next one is prepared, so that it loads meanwhile.
                if not service.is_external:
                    self._launch(service, records)
            return {service.name: self._wait_until_serving(service, records) for service in services}
        except BaseException:
            # Also an interruption: after a failed `up`, nothing runs that it started.
            for service in services:
                self._stop_service(service.name, records)
            raise

    def _prepare(self, service: SandboxService) -> None:
        try:
            service.prepare()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise NotWritable(
                f"{service.name} could not be prepared: {reason}: {error.filename}", hint=DIRECTORY_HINT
            ) from error

    def _launch(self, service: SandboxService, records: dict[str, ServiceRecord]) -> None:
        last = records.get(service.name)
        port = choose_port(requested=service.port, previous=last.port if last else None)
        log = self._directory / "log" / f"{service.name}.log"
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        argv = service.command(port)
        try:
            process = launch(
                argv,
                environ={**os.environ, **service.environ},
                log=log,
                marker=f"{service.name}{_marker_suffix(self._directory)}",
            )
        except OSError as error:
            raise service.start_error(
                f"{argv[0]} cannot be run: {(error.strerror or '').lower()}", hint="Reinstall it."
            ) from error
        records[service.name] = ServiceRecord(
            name=service.name, port=port, url=service.url(port), log=str(log), process=process
        )
        write_state(self._directory, records)

    def _wait_until_serving(self, service: SandboxService, records: dict[str, ServiceRecord]) -> ServiceStatus:
        if service.is_external:
            raise service.start_error(
                f"{service.name} does not answer at {service.url(0)}",
                hint="Start it, name another one, or correct its user and key.",
            )
        for _ in range(MAX_START_ATTEMPTS):
            record = records[service.name]
            process = record.process
            assert process is not None
            about = _wait_for_answer(service, process, record.port)
            if about is not None:
                records[service.name] = replace(record, about=about)
                write_state(self._directory, records)
                self._report(f"{service.name} answers on port {record.port}: {about}")
                return replace(_make_status(records[service.name], ServiceState.RUNNING), started_now=True)
            if process.is_alive() or service.port is not None or is_port_free(record.port):
                break
            self._launch(service, records)
        raise self._start_failure(service, records[service.name])

    def _start_failure(self, service: SandboxService, record: ServiceRecord) -> Exception:
        runs = record.process is not None and record.process.is_alive()
        event = f"gave no answer in {START_TIMEOUT_SECONDS:.0f} s" if runs else "ended before it answered"
        return service.start_error(
            f"{service.name} {event}: {_find_error_line(Path(record.log))}", hint=f"See {record.log}"
        )

    def _stop_service(
        self, name: str, records: dict[str, ServiceRecord], *, timeout_seconds: float = STOP_TIMEOUT_SECONDS
    ) -> None:
        record = records.get(name)
        if record is not None and record.process is not None:
            record.process.terminate(timeout_seconds=timeout_seconds)
            records[name] = replace(record, process=None)
            write_state(self._directory, records)
        _stop_marked(self._directory, only=name)


def stop_services(directory: Path, *, wait: float = LOCK_WAIT_SECONDS) -> list[str]:
    """End every service of a directory at once and return the names of those that ran."""
    if not directory.is_dir():
        return []
    with hold_lock(directory, within=wait):
        records = read_state(directory)
        running = {name: r.process for name, r in records.items() if r.process is not None and r.process.is_alive()}
        _stop_together(list(running.values()))
        _stop_marked(directory)
        write_state(directory, {name: replace(record, process=None) for name, record in records.items()})
    return sorted(running)


def check_services(directory: Path, services: Sequence[SandboxService]) -> list[ServiceStatus]:
    """Probe every service; changes nothing."""
    records = read_state(directory)
    return [check_service(service, records.get(service.name)) for service in services]


def check_service(service: SandboxService, record: ServiceRecord | None) -> ServiceStatus:
    """Return the state of one service, by its process and its answer."""
    if service.is_external:
        about = service.probe(0)
        state = ServiceState.SILENT if about is None else ServiceState.EXTERNAL
        return ServiceStatus(name=service.name, state=state, url=service.url(0), about=about or "")
    if record is None:
        return ServiceStatus(name=service.name, state=ServiceState.STOPPED)
    if record.process is None:
        return _make_status(record, ServiceState.STOPPED)
    if not record.process.is_alive():
        return _make_status(record, ServiceState.KILLED)
    return _make_status(record, ServiceState.SILENT if service.probe(record.port) is None else ServiceState.RUNNING)


def _make_status(record: ServiceRecord, state: ServiceState) -> ServiceStatus:
    pid = record.process.pid if record.process and state in (ServiceState.RUNNING, ServiceState.SILENT) else None
    return ServiceStatus(
        name=record.name, state=state, url=record.url, port=record.port, pid=pid, about=record.about, log=record.log
    )


def _wait_for_answer(service: SandboxService, process: ProcessId, port: int) -> str | None:
    """Return the server's version text once it serves; None if it ended or its time is over."""
    answers: list[str] = []

    def answered_or_ended() -> bool:
        answer = service.probe(port)
        # Another server may answer on the port of one that ended.
        if answer is not None and process.is_alive():
            answers.append(answer)
        return bool(answers) or not process.is_alive()

    wait_until(answered_or_ended, timeout_seconds=START_TIMEOUT_SECONDS)
    return answers[0] if answers else None


def _find_error_line(log: Path) -> str:
    """Return the most telling line of a log."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "it wrote no log"
    errors = [line for line in lines if "error" in line.lower() and "aborting" not in line.lower()]
    return (errors or lines or ["its log is empty"])[-1]


def _marker_suffix(directory: Path) -> str:
    return f"@{directory}"


def _stop_marked(directory: Path, *, only: str | None = None) -> None:
    """End processes of this directory's services, whatever their parent is by now."""
    mark = _marker_suffix(directory)
    found = [(marker.removesuffix(mark), process) for marker, process in find_marked(mark)]
    _stop_together([process for name, process in found if only in (None, name)])


def _stop_together(processes: Sequence[ProcessId]) -> None:
    for process in processes:
        process.send(signal.SIGTERM)
    for process in processes:
        process.terminate(timeout_seconds=STOP_TIMEOUT_SECONDS)
