"""Starts the services of a sandbox, tells how they stand, ends them: its own processes and no others."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from syncd.concurrency.polling import until
from syncd.host.cache_dirs import make_writable
from syncd.host.directory_lock import WAIT, held
from syncd.host.host_errors import NotReady, NotWritable
from syncd.sandbox.ports import choose_port, is_free
from syncd.sandbox.process import ProcessId, find_marked, launch
from syncd.sandbox.service import Service
from syncd.sandbox.state_file import Record, read_state, write_state

ANSWERS_WITHIN: Final = 60.0
ENDS_WITHIN: Final = 30.0
ATTEMPTS: Final = 3  # a free port may be taken between the choice and the server's start
DIRECTORY_HINT: Final = "Make the directory writable, or name another one with --dir."


class Stand(StrEnum):
    """How a service stands."""

    RUNNING = "running"
    SILENT = "silent"  # its process lives and does not answer
    KILLED = "killed"  # its process is gone, and nobody took it down
    STOPPED = "stopped"
    GIVEN = "given"  # a server of somebody else's, which answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One service, as it was just found."""

    name: str
    stand: Stand
    url: str
    port: int
    pid: int | None
    about: str
    log: str
    started_now: bool = False


class Supervisor:
    """The services of one directory. The order of the table is the order of starting."""

    def __init__(
        self,
        directory: Path,
        services: Sequence[Service],
        *,
        wait: float = WAIT,
        tell: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._directory = directory
        self._services = services
        self._wait = wait
        self._tell = tell
        self.started: Sequence[str] = ()
        """What the last `up` had to start."""

    def up(self) -> list[Standing]:
        """Start what does not run, and return when every service has answered.

        What runs and answers is left alone. If one cannot come up, those that this
        call started are ended again.

        Raises:
            HintedError: the group that the service names, with the log's own words.
        """
        self.started = ()
        make_writable(self._directory / "log", hint=DIRECTORY_HINT)
        with held(self._directory, within=self._wait):
            records = read_state(self._directory)
            standing = {s.name: self._keep(s, records.get(s.name)) for s in self._services}
            absent = [s for s in self._services if standing[s.name] is None]
            self.started = [service.name for service in absent]
            for service in absent:
                self._end(service.name, records, patience=0.0)  # what does not answer does not hear either
            started = self._start_all(absent, records)
        return [standing[s.name] or started[s.name] for s in self._services]

    def restart(self, name: str, *, kill: bool = False) -> Standing:
        """End one service, gently or not, and start it again on the port it had."""
        service = next(s for s in self._services if s.name == name)
        if service.given:
            raise NotReady(f"{name} was given, and is not the sandbox's to restart", hint="Restart it where it runs.")
        with held(self._directory, within=self._wait):
            records = read_state(self._directory)
            process = records[name].process
            if process is not None and kill:
                process.kill()
                until(lambda: is_free(records[name].port), within=ENDS_WITHIN)
            return self._start_all([service], records)[name]

    def end(self, names: Sequence[str]) -> None:
        """End these services, and leave the others running."""
        with held(self._directory, within=self._wait):
            records = read_state(self._directory)
            for name in names:
                self._end(name, records)

    def _keep(self, service: Service, record: Record | None) -> Standing | None:
        """How a service stands that needs no start; none for one that does."""
        found = stand_of(service, record)
        return found if found.stand in (Stand.RUNNING, Stand.GIVEN) else None

    def _start_all(self, services: Sequence[Service], records: dict[str, Record]) -> dict[str, Standing]:
        try:
            for service in services:
                # Silent, killed or to be restarted: whatever is left of it goes before its data is touched.
                self._end(service.name, records)
                self._prepare(service)
                # Launched before the next one is prepared: it loads while that one makes its files.
                if not service.given:
                    self._launch(service, records)
            return {service.name: self._await(service, records) for service in services}
        except BaseException:
            # An interruption too: whoever sees `up` fail must find nothing running that it started.
            for service in services:
                self._end(service.name, records)
            raise

    def _prepare(self, service: Service) -> None:
        try:
            service.prepare()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise NotWritable(
                f"{service.name} could not be prepared: {reason}: {error.filename}", hint=DIRECTORY_HINT
            ) from error

    def _launch(self, service: Service, records: dict[str, Record]) -> None:
        last = records.get(service.name)
        port = choose_port(asked=service.port, last=last.port if last else None)
        log = self._directory / "log" / f"{service.name}.log"
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        argv = service.command(port)
        try:
            process = launch(
                argv,
                environ={**os.environ, **service.environ},
                log=log,
                marker=f"{service.name}{_mark(self._directory)}",
            )
        except OSError as error:
            raise service.down(
                f"{argv[0]} does not run here: {(error.strerror or '').lower()}", hint="Install it anew."
            ) from error
        records[service.name] = Record(
            name=service.name, port=port, url=service.url(port), log=str(log), process=process
        )
        write_state(self._directory, records)

    def _await(self, service: Service, records: dict[str, Record]) -> Standing:
        if service.given:
            raise service.down(
                f"{service.name} does not answer at {service.url(0)}",
                hint="Start it, name another, or mend its user and key.",
            )
        for _ in range(ATTEMPTS):
            record = records[service.name]
            process = record.process
            assert process is not None
            about = _first_word(service, process, record.port)
            if about is not None:
                records[service.name] = replace(record, about=about)
                write_state(self._directory, records)
                self._tell(f"{service.name} answers on port {record.port}: {about}")
                return replace(_standing(records[service.name], Stand.RUNNING), started_now=True)
            if process.alive() or service.port is not None or is_free(record.port):
                break
            self._launch(service, records)
        raise self._failure(service, records[service.name])

    def _failure(self, service: Service, record: Record) -> Exception:
        lives = record.process is not None and record.process.alive()
        did = f"gave no answer in {ANSWERS_WITHIN:.0f} s" if lives else "ended before it answered"
        return service.down(f"{service.name} {did}: {_complaint(Path(record.log))}", hint=f"See {record.log}")

    def _end(self, name: str, records: dict[str, Record], *, patience: float = ENDS_WITHIN) -> None:
        record = records.get(name)
        if record is not None and record.process is not None:
            record.process.end(patience=patience)
            records[name] = replace(record, process=None)
            write_state(self._directory, records)
        _end_marked(self._directory, only=name)


def take_down(directory: Path, *, wait: float = WAIT) -> list[str]:
    """End every service of a directory, all at once; the names of those that ran."""
    if not directory.is_dir():
        return []
    with held(directory, within=wait):
        records = read_state(directory)
        running = {name: r.process for name, r in records.items() if r.process is not None and r.process.alive()}
        _end_together(list(running.values()))
        _end_marked(directory)
        write_state(directory, {name: replace(record, process=None) for name, record in records.items()})
    return sorted(running)


def look_at(directory: Path, services: Sequence[Service]) -> list[Standing]:
    """How every service stands, asked now; changes nothing."""
    records = read_state(directory)
    return [stand_of(service, records.get(service.name)) for service in services]


def stand_of(service: Service, record: Record | None) -> Standing:
    """How one service stands, by its process and by what it answers."""
    if service.given:
        about = service.ask(0)
        return Standing(
            name=service.name,
            stand=Stand.SILENT if about is None else Stand.GIVEN,
            url=service.url(0),
            port=0,
            pid=None,
            about=about or "",
            log="",
        )
    if record is None:
        return Standing(name=service.name, stand=Stand.STOPPED, url="", port=0, pid=None, about="", log="")
    if record.process is None:
        return _standing(record, Stand.STOPPED)
    if not record.process.alive():
        return _standing(record, Stand.KILLED)
    return _standing(record, Stand.SILENT if service.ask(record.port) is None else Stand.RUNNING)


def _standing(record: Record, stand: Stand) -> Standing:
    pid = record.process.pid if record.process and stand in (Stand.RUNNING, Stand.SILENT) else None
    return Standing(
        name=record.name, stand=stand, url=record.url, port=record.port, pid=pid, about=record.about, log=record.log
    )


def _first_word(service: Service, process: ProcessId, port: int) -> str | None:
    """What the server says once it serves; none if it ended, or its time is over."""
    said: list[str] = []

    def answered_or_ended() -> bool:
        word = service.ask(port)
        # Somebody else may answer on the port of a server that ended.
        if word is not None and process.alive():
            said.append(word)
        return bool(said) or not process.alive()

    until(answered_or_ended, within=ANSWERS_WITHIN)
    return said[0] if said else None


def _complaint(log: Path) -> str:
    """The line of a log that tells most."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "it wrote no log"
    errors = [line for line in lines if "error" in line.lower() and "aborting" not in line.lower()]
    return (errors or lines or ["its log is empty"])[-1]


def _mark(directory: Path) -> str:
    return f"@{directory}"


def _end_marked(directory: Path, *, only: str | None = None) -> None:
    """End what runs for services of this directory, whoever is its parent by now."""
    mark = _mark(directory)
    found = [(marker.removesuffix(mark), process) for marker, process in find_marked(mark)]
    _end_together([process for name, process in found if only in (None, name)])


def _end_together(processes: Sequence[ProcessId]) -> None:
    for process in processes:
        process.send(signal.SIGTERM)
    for process in processes:
        process.end(patience=ENDS_WITHIN)
