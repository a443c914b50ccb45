"""How a client comes in: startup packet, password, and the words Redshift greets with."""

import secrets
import struct

from syncd.sandbox.redshift import wire
from syncd.sandbox.redshift.backend import Backend, BackendError
from syncd.sandbox.redshift.session import Session
from syncd.sandbox.redshift.shared_state import House
from syncd.sandbox.redshift.statement_context import Desk
from syncd.sandbox.redshift.wire import Message, Stream


def greet(client: Stream, house: House) -> Session | None:
    """Lead a new client through startup and password; None if it only wanted to cancel, or was turned away."""
    settings = _startup(client, house)
    if settings is None:
        return None
    user, database = settings.get("user", ""), settings.get("database", "")
    client.send(wire.pack(b"R", struct.pack("!i", 3)))
    password = client.read_message()
    house.faults.wait_thawed()
    refused = _refused(house, user, database, password)
    if refused is None:
        try:
            backend = house.connect(user, settings.get("application_name", ""))
        except BackendError as error:
            refused = error.fields
        else:
            return _let_in(client, house, user, backend)
    client.send(wire.report(b"E", refused))
    return None


def _startup(client: Stream, house: House) -> dict[str, str] | None:
    while True:
        (length,) = struct.unpack("!i", client.read(4))
        body = client.read(length - 4)
        (code,) = struct.unpack_from("!i", body)
        house.faults.wait_thawed()
        if code == wire.CANCEL_REQUEST:
            house.cancel(body)
            return None
        if code == wire.PROTOCOL_3:
            words = wire.strings(body[4:-1])
            return dict(zip(words[::2], words[1::2], strict=True))
        client.send(b"N")  # no TLS here: the client must ask for ssl=False


def _refused(house: House, user: str, database: str, password: Message) -> dict[str, str] | None:
    given = password.body[:-1] if password.kind == b"p" else b""
    if user not in house.users or not secrets.compare_digest(given, house.users[user].encode()):
        return {"S": "FATAL", "C": "28000", "M": f'password authentication failed for user "{user}"'}
    if database != house.database:
        return {"S": "FATAL", "C": "3D000", "M": f'database "{database}" does not exist'}
    return None


def _let_in(client: Stream, house: House, user: str, backend: Backend) -> Session:
    (pid,) = struct.unpack_from("!i", backend.key)
    desk = Desk(
        backend=backend,
        names=house.names,
        user=user,
        database=house.database,
        pid=pid,
        lake=house.lake,
        log=house.log,
    )
    told = (
        ("server_version", "8.0.2"),
        ("server_encoding", "UNICODE"),
        ("client_encoding", "UNICODE"),
        ("DateStyle", "ISO, MDY"),
        ("integer_datetimes", "on"),
        ("is_superuser", "off"),
        ("session_authorization", user),
    )
    client.send(
        wire.pack(b"R", struct.pack("!i", 0)),
        *(wire.pack(b"S", wire.text(name) + wire.text(value)) for name, value in told),
        wire.pack(b"K", backend.key),
        wire.pack(b"Z", b"I"),
    )
    return Session(client, house, desk)
