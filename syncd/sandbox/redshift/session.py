"""Session of one client: messages of the protocol, plans of its statements, answers in Redshift's form."""

import selectors
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from syncd.sandbox.redshift import wire
from syncd.sandbox.redshift.backend import ALL_ROWS, NO_PARAMETERS, BackendError, PostgresConnection
from syncd.sandbox.redshift.faults import FaultAction, FaultTiming, StatementFault
from syncd.sandbox.redshift.refusal import Refusal, not_supported
from syncd.sandbox.redshift.shared_state import StandInContext
from syncd.sandbox.redshift.sql.plan import StatementContext, StatementPlan, acquire_locks_sql
from syncd.sandbox.redshift.sql.session_settings import ON_VALUES, ONE_MATCH_SQL
from syncd.sandbox.redshift.sql.statements import plan_statement
from syncd.sandbox.redshift.sql.translate import (
    error_to_redshift,
    refusal_to_fields,
    tag_to_redshift,
    varbyte_to_redshift,
)
from syncd.sandbox.redshift.wire import Message, MessageStream, PeerGone, ResultField

# The types that a parameter may be declared with: unknown, and those that Redshift shares with PostgreSQL.
PARAMETER_TYPES: Final = frozenset(
    {0, 16, 20, 21, 23, 25, 700, 701, 705, 1042, 1043, 1082, 1083, 1114, 1184, 1266, 1700}
)
KINDS_OMITTED_IN_SIMPLE_QUERY: Final = frozenset({b"1", b"2", b"3", b"n", b"t"})


class ConnectionDropped(Exception):  # by an injected fault
    """The connection ends without an answer."""


@dataclass(slots=True)
class PreparedStatement:
    """A statement as the client prepared it."""

    sql: str
    plan: StatementPlan
    types: tuple[int, ...]
    fields: list[ResultField] | None = None

    @property
    def is_local(self) -> bool:
        """True if PostgreSQL gets the statement when it is executed, or never."""
        return self.plan.program is not None or self.plan.waits_for_execution


@dataclass(slots=True)
class Portal:
    prepared: PreparedStatement
    bind: bytes


@dataclass(slots=True)
class ClientSession:
    """The session of a client that has logged in."""

    client: MessageStream
    server: StandInContext
    context: StatementContext
    skips_to_sync: bool = False
    is_simple_query: bool = False
    prepared: dict[bytes, PreparedStatement] = field(default_factory=dict)
    portals: dict[bytes, Portal] = field(default_factory=dict)

    @property
    def backend(self) -> PostgresConnection:
        return self.context.backend

    def serve(self) -> None:
        """Answer until the client ends the session or either side is gone."""
        while self.client.has_unread or self._wait_for_client():
            message = self.client.read_message()
            self.server.faults.wait_thawed()
            if message.kind == b"X":
                return
            self._handle(message)

    def _wait_for_client(self) -> bool:
        """Return True when the client has sent something; pass on errors that PostgreSQL reports meanwhile."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.client.sock, selectors.EVENT_READ)
            selector.register(self.backend.stream.sock, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self.client.sock in ready:
                    return True
                message = self.backend.read()  # raises PeerGone when PostgreSQL ended the connection
                if message.kind == b"E":
                    self._send_error(wire.unpack_fields(message.body))
                    self.client.flush()

    def _handle(self, message: Message) -> None:
        if message.kind == b"S":
            self._sync()
        elif self.skips_to_sync:
            return
        elif message.kind == b"Q":
            self._simple_query(message.body[:-1].decode())
        else:
            handler = HANDLERS.get(message.kind)
            if handler is None:
                raise PeerGone(f"unknown message of kind {message.kind!r}")
            self._run_step(lambda: handler(self, message.body))

    def _run_step(self, step: Callable[[], None]) -> None:
        """Take one step of the extended protocol; after an error, skip everything up to Sync."""
        before = self.backend.status
        try:
            step()
        except Refusal as refusal:
            self._send_error(self._fail_transaction(refusal_to_fields(refusal), before=before))
            self.skips_to_sync = True
        except BackendError as error:
            self._send_error(error_to_redshift(error.fields, self.context.pid))
            self.skips_to_sync = True

    def _fail_transaction(self, fields: dict[str, str], *, before: bytes) -> dict[str, str]:
        """Fail the transaction with the stand-in's own error, or return the error of one that had failed already."""
        if self.backend.status == b"I" or (before, self.backend.status) == (b"T", b"E"):
            return fields  # a COPY that broke off has failed the transaction already
        try:
            self.backend.run("SELECT pg_catalog.redshift_raise('XX000', 'refused', '')")
        except BackendError as error:
            if error.fields["C"] == "25P02":
                return error.fields
        return fields

    def _send_error(self, fields: dict[str, str]) -> None:
        self.client.queue(wire.pack_report(b"E", fields))

    def _answer(self, kind: bytes, body: bytes = b"") -> None:
        if not (self.is_simple_query and kind in KINDS_OMITTED_IN_SIMPLE_QUERY):
            self.client.queue(wire.pack(kind, body))

    # -- the steps of the extended protocol ------------------------------------------------

    def parse(self, body: bytes) -> None:
        name, sql, types = wire.unpack_parse(body)
        self._prepare(name, sql, types)

    def _prepare(self, name: bytes, sql: str, types: tuple[int, ...]) -> None:
        plan = plan_statement(sql, self.server.names)
        self.server.write_new_names()
        if name and name in self.prepared:
            raise Refusal("42P05", f'prepared statement "{name.decode()}" already exists')
        if foreign := set(types) - PARAMETER_TYPES:
            raise not_supported(f"a bind parameter of the type with number {min(foreign)} is not supported")
        prepared = PreparedStatement(sql, plan, types)
        if plan.program is not None and types:
            raise not_supported("bind parameters are not supported in this statement")
        if not prepared.is_local:
            self.backend.request_and_discard(wire.pack_parse(name, self._render_sql(plan), types), b"1")
        self.prepared[name] = prepared
        self._answer(b"1")

    def _render_sql(self, plan: StatementPlan) -> str:
        last = self.context.last_copy
        return plan.render_sql({"PG_LAST_COPY_COUNT": last.count, "PG_LAST_COPY_ID": last.id})

    def describe(self, body: bytes) -> None:
        kind, name = body[:1], body[1:-1]
        prepared = self._find_prepared(name) if kind == b"S" else self._find_portal(name).prepared
        if prepared.is_local:
            if kind == b"S":
                count = len(prepared.types)
                self._answer(b"t", struct.pack(f"!h{count}I", count, *prepared.types))
            self._answer(b"n")
            return
        for message in self.backend.request(wire.pack(b"D", body), b"Tn"):
            if message.kind == b"T":
                prepared.fields = wire.unpack_row_description(message.body)
                fields = [self.server.types.to_redshift(f, self.server.names) for f in prepared.fields]
                self.client.queue(wire.pack_row_description(fields))
            else:
                self._answer(message.kind, message.body)

    def bind(self, body: bytes) -> None:
        end = body.index(b"\0")
        stop = body.index(b"\0", end + 1)
        portal, name = body[:end], body[end + 1 : stop]
        prepared = self._find_prepared(name)
        self.portals[portal] = Portal(prepared, body[stop + 1 :])
        if not prepared.is_local:
            if self.backend.status == b"T" and prepared.plan.reads:
                self.backend.run_own_statement(acquire_locks_sql(prepared.plan.reads, prepared.plan.writes))
            if prepared.plan.has_late_values:
                self.backend.request_and_discard(wire.pack(b"C", b"S" + name + b"\0"), b"3")
                self.backend.request_and_discard(
                    wire.pack_parse(name, self._render_sql(prepared.plan), prepared.types), b"1"
                )
            self.backend.request_and_discard(wire.pack(b"B", body), b"2")
        self._answer(b"2")

    def execute(self, body: bytes) -> None:
        name = body[: body.index(b"\0")]
        portal = self._find_portal(name)
        fault = self.server.faults.take_due(portal.prepared.sql, FaultTiming.BEFORE)
        if fault is not None:
            self._apply_fault(fault)
        plan = portal.prepared.plan
        if plan.program is not None:
            self._run_program(plan)
        elif plan.waits_for_execution:
            self._execute_write(portal)
        else:
            self._forward_results(portal.prepared, self.backend.request(wire.pack(b"E", body), b"CsI"))
        fault = self.server.faults.take_due(portal.prepared.sql, FaultTiming.AFTER)
        if fault is not None:
            self._sync_backend()
            self._apply_fault(fault)

    def close(self, body: bytes) -> None:
        kind, name = body[:1], body[1:-1]
        if kind == b"S":
            self.prepared.pop(name, None)
        else:
            self.portals.pop(name, None)
        self.backend.request_and_discard(wire.pack(b"C", body), b"3")
        self._answer(b"3")

    def _sync(self) -> None:
        self._sync_backend()
        self.skips_to_sync = False
        self.portals.clear()
        self.client.queue(wire.pack(b"Z", self.backend.status))
        self.server.faults.wait_thawed()
        self.client.flush()

    def _sync_backend(self) -> None:
        for fields in self.backend.sync():
            self._send_error(error_to_redshift(fields, self.context.pid))

    def _simple_query(self, sql: str) -> None:
        self.is_simple_query = True

        def steps() -> None:
            self._prepare(b"", sql, ())
            if not self.prepared[b""].plan.sql and self.prepared[b""].plan.program is None:
                self.client.queue(wire.pack(b"I"))
                return
            self.bind(b"\0\0" + NO_PARAMETERS)
            self.describe(b"P\0")
            self.execute(b"\0" + ALL_ROWS)

        self._run_step(steps)
        self._sync()
        self.is_simple_query = False

    def _find_prepared(self, name: bytes) -> PreparedStatement:
        if name not in self.prepared:
            raise Refusal("26000", f'prepared statement "{name.decode()}" does not exist')
        return self.prepared[name]

    def _find_portal(self, name: bytes) -> Portal:
        if name not in self.portals:
            raise Refusal("34000", f'portal "{name.decode()}" does not exist')
        return self.portals[name]

    def _execute_write(self, portal: Portal) -> None:
        plan = portal.prepared.plan
        self.backend.run_own_statement(acquire_locks_sql(plan.reads, plan.writes))
        if plan.strict_sql and self.backend.run_own_statement(ONE_MATCH_SQL).lower() in ON_VALUES:
            plan = plan.with_strict_sql()
        self.backend.request_and_discard(wire.pack_parse(b"", self._render_sql(plan), portal.prepared.types), b"1")
        self.backend.request_and_discard(wire.pack(b"B", b"\0\0" + portal.bind), b"2")
        self._forward_results(portal.prepared, self.backend.request(wire.pack(b"E", b"\0" + ALL_ROWS), b"CI"))

    def _forward_results(self, prepared: PreparedStatement, messages: Iterator[Message]) -> None:
        fields = prepared.fields or []
        varbytes = frozenset(i for i, f in enumerate(fields) if f.type == self.server.types.varbyte)
        for message in messages:
            if message.kind == b"D" and (varbytes or prepared.plan.ends_with_nul):
                self.client.queue(_row_to_redshift(message.body, varbytes, nul=prepared.plan.ends_with_nul))
            elif message.kind == b"C":
                tag = prepared.plan.tag
                self._answer(b"C", tag.encode() + b"\0" if tag else tag_to_redshift(message.body, prepared.plan))
            elif message.kind in b"DIsN":
                self._answer(message.kind, message.body)

    def _run_program(self, plan: StatementPlan) -> None:
        assert plan.program is not None
        in_block = self.backend.status != b"I"
        self.context.in_block = in_block
        if plan.outside_block and in_block:
            raise Refusal("25001", f"{plan.outside_block} cannot run inside a transaction block")
        wrapped = not in_block and not plan.no_transaction
        if wrapped:
            self.backend.run("BEGIN")
        try:
            tag = plan.program(self.context)
            if wrapped and self.backend.status != b"I":
                self.backend.run("COMMIT")
        finally:
            if wrapped and self.backend.status != b"I":
                self.backend.run("ROLLBACK")
        for sentence in self.context.notices:
            self.client.queue(wire.pack_report(b"N", {"S": "INFO", "C": "00000", "M": sentence}))
        self.context.notices.clear()
        self._answer(b"C", wire.pack_text(tag))

    def _apply_fault(self, fault: StatementFault) -> None:
        match fault.deed:
            case FaultAction.DROP:
                raise ConnectionDropped
            case FaultAction.DELAY:
                threading.Event().wait(fault.seconds)
            case FaultAction.HOLD:
                fault.released.wait()
            case FaultAction.FAIL:
                raise Refusal(fault.code, fault.message, fault.detail)


def _row_to_redshift(body: bytes, varbytes: frozenset[int], *, nul: bool) -> bytes:
    values = [varbyte_to_redshift(v) if i in varbytes else v for i, v in enumerate(wire.unpack_row(body))]
    return wire.pack_row([v + b"\0" if nul and v is not None else v for v in values])


HANDLERS: Final[dict[bytes, Callable[[ClientSession, bytes], None]]] = {
    b"P": ClientSession.parse,
    b"D": ClientSession.describe,
    b"B": ClientSession.bind,
    b"E": ClientSession.execute,
    b"C": ClientSession.close,
    b"H": lambda session, _: session.client.flush(),
}
