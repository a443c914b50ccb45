"""One client's connection: reads its messages, does what their plans say, answers as Redshift does."""

import selectors
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from syncd.sandbox.redshift import wire
from syncd.sandbox.redshift.backend import Backend, BackendError
from syncd.sandbox.redshift.faults import Deed, Fault, When
from syncd.sandbox.redshift.refusal import Refusal, not_supported
from syncd.sandbox.redshift.shared_state import House
from syncd.sandbox.redshift.sql.plan import Plan
from syncd.sandbox.redshift.sql.session_settings import ON, ONE_MATCH_SQL
from syncd.sandbox.redshift.sql.statements import plan_of
from syncd.sandbox.redshift.sql.translate import fields_of_refusal, in_front, tag_in_front, varbyte_in_front
from syncd.sandbox.redshift.statement_context import Desk, enter_sql
from syncd.sandbox.redshift.wire import Field, Message, PeerGone, Stream

FLUSH: Final = wire.pack(b"H")
SYNC: Final = wire.pack(b"S")
NO_DATA: Final = wire.pack(b"n")
OURS: Final = b"redshift_ours"
# What a parameter may be declared as: unknown, and the types that Redshift shares with PostgreSQL.
PARAMETER_TYPES: Final = frozenset(
    {0, 16, 20, 21, 23, 25, 700, 701, 705, 1042, 1043, 1082, 1083, 1114, 1184, 1266, 1700}
)
SILENT_IN_SIMPLE: Final = frozenset({b"1", b"2", b"3", b"n", b"t"})


class Dropped(Exception):  # a fault was asked for
    """This connection is to end without another word."""


@dataclass(slots=True)
class Prepared:
    """A statement as the client prepared it."""

    sql: str
    plan: Plan
    types: tuple[int, ...]
    fields: list[Field] | None = None

    @property
    def local(self) -> bool:
        """PostgreSQL does not know it until it is carried out, or never."""
        return self.plan.program is not None or self.plan.waits_for_execution


@dataclass(slots=True)
class Portal:
    prepared: Prepared
    bind: bytes


@dataclass(slots=True)
class Session:
    """A client that has been let in."""

    client: Stream
    house: House
    desk: Desk
    skipping: bool = False
    simple: bool = False
    prepared: dict[bytes, Prepared] = field(default_factory=dict)
    portals: dict[bytes, Portal] = field(default_factory=dict)

    @property
    def backend(self) -> Backend:
        return self.desk.backend

    def serve(self) -> None:
        """Answer until the client says goodbye or either side is gone."""
        while (message := self._next()) is not None:
            self.house.faults.wait_thawed()
            if message.kind == b"X":
                return
            self._handle(message)

    def _next(self) -> Message | None:
        if not self.client.has_unread and not self._wait_for_client():
            return None
        return self.client.read_message()

    def _wait_for_client(self) -> bool:
        """Wait for the client's next message, passing on what PostgreSQL says meanwhile; False if it said farewell."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.client.sock, selectors.EVENT_READ)
            selector.register(self.backend.stream.sock, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self.client.sock in ready:
                    return True
                message = self.backend.read()  # raises PeerGone when the backend was ended
                if message.kind == b"E":
                    self._send_error(wire.fields_of(message.body))
                    self.client.flush()

    def _handle(self, message: Message) -> None:
        if message.kind == b"S":
            self._sync()
        elif self.skipping:
            return
        elif message.kind == b"Q":
            self._simple_query(message.body[:-1].decode())
        else:
            handler = HANDLERS.get(message.kind)
            if handler is None:
                raise PeerGone(f"a message of kind {message.kind!r} is not understood")
            self._guarded(lambda: handler(self, message.body))

    def _guarded(self, step: Callable[[], None]) -> None:
        """Take one step of the extended protocol; after an error, everything up to Sync is passed over."""
        before = self.backend.status
        try:
            step()
        except Refusal as refusal:
            self._send_error(self._failed(fields_of_refusal(refusal), before=before))
            self.skipping = True
        except BackendError as error:
            self._send_error(in_front(error.fields, self.desk.pid))
            self.skipping = True

    def _failed(self, fields: dict[str, str], *, before: bytes) -> dict[str, str]:
        """Let the transaction fail with our own error, or say that it has failed already."""
        if self.backend.status == b"I" or (before, self.backend.status) == (b"T", b"E"):
            return fields  # a COPY that broke off has let it fail by itself
        try:
            self.backend.run("SELECT pg_catalog.redshift_raise('XX000', 'refused', '')")
        except BackendError as error:
            if error.fields["C"] == "25P02":
                return error.fields
        return fields

    def _send_error(self, fields: dict[str, str]) -> None:
        self.client.queue(wire.report(b"E", fields))

    def _answer(self, kind: bytes, body: bytes = b"") -> None:
        if not (self.simple and kind in SILENT_IN_SIMPLE):
            self.client.queue(wire.pack(kind, body))

    # -- the steps of the extended protocol ------------------------------------------------

    def parse(self, body: bytes) -> None:
        name, sql, types = wire.types_of_parse(body)
        self._prepare(name, sql, types)

    def _prepare(self, name: bytes, sql: str, types: tuple[int, ...]) -> None:
        plan = plan_of(sql, self.house.names)
        self.house.write_new_names()
        if name and name in self.prepared:
            raise Refusal("42P05", f'prepared statement "{name.decode()}" already exists')
        if foreign := set(types) - PARAMETER_TYPES:
            raise not_supported(f"a bind parameter of the type with number {min(foreign)} is not supported")
        prepared = Prepared(sql, plan, types)
        if plan.program is not None and types:
            raise not_supported("bind parameters are not supported in this statement")
        if not prepared.local:
            self._ask(wire.parse(name, self._text_of(plan), types), b"1")
        self.prepared[name] = prepared
        self._answer(b"1")

    def _text_of(self, plan: Plan) -> str:
        last = self.desk.last_copy
        return plan.with_values({"PG_LAST_COPY_COUNT": last.count, "PG_LAST_COPY_ID": last.id})

    def describe(self, body: bytes) -> None:
        kind, name = body[:1], body[1:-1]
        prepared = self._statement(name) if kind == b"S" else self._portal(name).prepared
        if prepared.local:
            if kind == b"S":
                count = len(prepared.types)
                self._answer(b"t", struct.pack(f"!h{count}I", count, *prepared.types))
            self._answer(b"n")
            return
        for message in self._asked(wire.pack(b"D", body), b"Tn"):
            if message.kind == b"T":
                prepared.fields = wire.row_fields(message.body)
                told = [self.house.types.in_front(f, self.house.names) for f in prepared.fields]
                self.client.queue(wire.row_description(told))
            else:
                self._answer(message.kind, message.body)

    def bind(self, body: bytes) -> None:
        end = body.index(b"\0")
        stop = body.index(b"\0", end + 1)
        portal, name = body[:end], body[end + 1 : stop]
        prepared = self._statement(name)
        self.portals[portal] = Portal(prepared, body[stop + 1 :])
        if not prepared.local:
            if self.backend.status == b"T" and prepared.plan.reads:
                self._enter(prepared.plan)
            if prepared.plan.late:
                self._ask(wire.pack(b"C", b"S" + name + b"\0"), b"3")
                self._ask(wire.parse(name, self._text_of(prepared.plan), prepared.types), b"1")
            self._ask(wire.pack(b"B", body), b"2")
        self._answer(b"2")

    def execute(self, body: bytes) -> None:
        name = body[: body.index(b"\0")]
        portal = self._portal(name)
        fault = self.house.faults.due(portal.prepared.sql, When.BEFORE)
        if fault is not None:
            self._suffer(fault)
        plan = portal.prepared.plan
        if plan.program is not None:
            self._carry_out(plan)
        elif plan.waits_for_execution:
            self._write(portal)
        else:
            self._pass_results(portal.prepared, self._asked(wire.pack(b"E", body), b"CsI"))
        fault = self.house.faults.due(portal.prepared.sql, When.AFTER)
        if fault is not None:
            self._settle()
            self._suffer(fault)

    def close(self, body: bytes) -> None:
        kind, name = body[:1], body[1:-1]
        if kind == b"S":
            self.prepared.pop(name, None)
        else:
            self.portals.pop(name, None)
        self._ask(wire.pack(b"C", body), b"3")
        self._answer(b"3")

    def flush(self, _: bytes) -> None:
        self.client.flush()

    def _sync(self) -> None:
        self._settle()
        self.skipping = False
        self.portals.clear()
        self.client.queue(wire.pack(b"Z", self.backend.status))
        self.house.faults.wait_thawed()
        self.client.flush()

    def _settle(self) -> None:
        """Let PostgreSQL end what the messages so far began; in no block, that commits it."""
        self.backend.stream.send(SYNC)
        for message in self.backend.until(b"Z"):
            if message.kind == b"E":
                self._send_error(in_front(wire.fields_of(message.body), self.desk.pid))
                for _ in self.backend.until(b"Z"):
                    pass

    def _simple_query(self, sql: str) -> None:
        self.simple = True

        def steps() -> None:
            self._prepare(b"", sql, ())
            if not self.prepared[b""].plan.sql and self.prepared[b""].plan.program is None:
                self.client.queue(wire.pack(b"I"))
                return
            self.bind(b"\0\0" + struct.pack("!hhh", 0, 0, 0))
            self.describe(b"P\0")
            self.execute(b"\0" + struct.pack("!i", 0))

        self._guarded(steps)
        self._sync()
        self.simple = False

    # -- what they are made of -------------------------------------------------------------

    def _statement(self, name: bytes) -> Prepared:
        if name not in self.prepared:
            raise Refusal("26000", f'prepared statement "{name.decode()}" does not exist')
        return self.prepared[name]

    def _portal(self, name: bytes) -> Portal:
        if name not in self.portals:
            raise Refusal("34000", f'portal "{name.decode()}" does not exist')
        return self.portals[name]

    def _asked(self, message: bytes, answer: bytes) -> Iterator[Message]:
        """Send one message; give its answers up to the last.

        Raises:
            BackendError: PostgreSQL refused it.
        """
        self.backend.stream.send(message, FLUSH)
        for reply in self.backend.until(answer):
            if reply.kind == b"E":
                raise BackendError(wire.fields_of(reply.body))
            yield reply

    def _ask(self, message: bytes, answer: bytes) -> None:
        for _ in self._asked(message, answer):
            pass

    def _enter(self, plan: Plan) -> None:
        """Take the snapshot and the write locks."""
        self._own(enter_sql(plan.reads, plan.writes))

    def _own(self, sql: str) -> str:
        """Carry out a statement of our own within the same transaction, and return the value that it reads."""
        nothing = struct.pack("!hhh", 0, 0, 0)
        for kind in (b"P", b"S"):  # what a refused one left; closing what is not there is no error
            self._ask(wire.pack(b"C", kind + OURS + b"\0"), b"3")
        self._ask(wire.parse(OURS, sql), b"1")
        self._ask(wire.pack(b"B", OURS + b"\0" + OURS + b"\0" + nothing), b"2")
        told = self._asked(wire.pack(b"E", OURS + b"\0" + struct.pack("!i", 0)), b"C")
        values = [value for message in told if message.kind == b"D" for value in wire.row_values(message.body)]
        return (values[0] or b"").decode()

    def _write(self, portal: Portal) -> None:
        plan = portal.prepared.plan
        self._enter(plan)
        if plan.of_one_match and self._own(ONE_MATCH_SQL).lower() in ON:
            plan = plan.strictly()
        self._ask(wire.parse(b"", self._text_of(plan), portal.prepared.types), b"1")
        self._ask(wire.pack(b"B", b"\0\0" + portal.bind), b"2")
        self._pass_results(portal.prepared, self._asked(wire.pack(b"E", b"\0" + struct.pack("!i", 0)), b"CI"))

    def _pass_results(self, prepared: Prepared, messages: Iterator[Message]) -> None:
        varbytes = self._places_of_varbyte(prepared)
        for message in messages:
            if message.kind == b"D" and (varbytes or prepared.plan.ends_with_nul):
                self.client.queue(_row_in_front(message.body, varbytes, nul=prepared.plan.ends_with_nul))
            elif message.kind == b"C":
                tag = prepared.plan.tag
                self._answer(b"C", tag.encode() + b"\0" if tag else tag_in_front(message.body, prepared.plan))
            elif message.kind in b"DIsN":
                self._answer(message.kind, message.body)

    def _places_of_varbyte(self, prepared: Prepared) -> frozenset[int]:
        fields = prepared.fields or []
        return frozenset(i for i, f in enumerate(fields) if f.type == self.house.types.varbyte)

    def _carry_out(self, plan: Plan) -> None:
        assert plan.program is not None
        in_block = self.backend.status != b"I"
        self.desk.in_block = in_block
        if plan.outside_block and in_block:
            raise Refusal("25001", f"{plan.outside_block} cannot run inside a transaction block")
        wrapped = not in_block and not plan.alone
        if wrapped:
            self.backend.run("BEGIN")
        try:
            tag = plan.program(self.desk)
            if wrapped and self.backend.status != b"I":
                self.backend.run("COMMIT")
        finally:
            if wrapped and self.backend.status != b"I":
                self.backend.run("ROLLBACK")
        self._send_notices()
        self._answer(b"C", wire.text(tag))

    def _send_notices(self) -> None:
        for sentence in self.desk.notices:
            self.client.queue(wire.report(b"N", {"S": "INFO", "C": "00000", "M": sentence}))
        self.desk.notices.clear()

    def _suffer(self, fault: Fault) -> None:
        match fault.deed:
            case Deed.DROP:
                raise Dropped
            case Deed.DELAY:
                threading.Event().wait(fault.seconds)
            case Deed.HOLD:
                fault.released.wait()
            case Deed.FAIL:
                raise Refusal(fault.code, fault.message, fault.detail)


def _row_in_front(body: bytes, varbytes: frozenset[int], *, nul: bool) -> bytes:
    values = [varbyte_in_front(v) if i in varbytes else v for i, v in enumerate(wire.row_values(body))]
    return wire.row([v + b"\0" if nul and v is not None else v for v in values])


HANDLERS: Final[dict[bytes, Callable[[Session, bytes], None]]] = {
    b"P": Session.parse,
    b"D": Session.describe,
    b"B": Session.bind,
    b"E": Session.execute,
    b"C": Session.close,
    b"H": Session.flush,
}
