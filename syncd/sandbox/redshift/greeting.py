"""Login of a client: startup packet, password, and the parameters of Redshift's greeting."""

import secrets
import struct

from syncd.sandbox.redshift import wire
from syncd.sandbox.redshift.backend import BackendError, PostgresConnection
from syncd.sandbox.redshift.session import ClientSession
from syncd.sandbox.redshift.shared_state import StandInContext
from syncd.sandbox.redshift.sql.plan import StatementContext
from syncd.sandbox.redshift.wire import Message, MessageStream


def log_in(client: MessageStream, server: StandInContext) -> ClientSession | None:
    """Take a new client through startup and password; return None for a cancel request and after a refused login."""
    settings = _read_startup(client, server)
    if settings is None:
        return None
    user, database = settings.get("user", ""), settings.get("database", "")
    client.send(wire.pack(b"R", struct.pack("!i", 3)))
    password = client.read_message()
    server.faults.wait_thawed()
    refused = _login_error(server, user, database, password)
    if refused is None:
        try:
            backend = server.cluster.connect(user, database, application_name=settings.get("application_name", ""))
        except BackendError as error:
            refused = error.fields
        else:
            return _open_session(client, server, user, backend)
    client.send(wire.pack_report(b"E", refused))
    return None


def _read_startup(client: MessageStream, server: StandInContext) -> dict[str, str] | None:
    while True:
        (length,) = struct.unpack("!i", client.read(4))
        body = client.read(length - 4)
        (code,) = struct.unpack_from("!i", body)
        server.faults.wait_thawed()
        if code == wire.CANCEL_REQUEST:
            server.cancel(body)
            return None
        if code == wire.PROTOCOL_3:
            settings = wire.unpack_strings(body[4:-1])
            return dict(zip(settings[::2], settings[1::2], strict=True))
        client.send(b"N")  # the stand-in has no TLS: clients connect with ssl=False


def _login_error(server: StandInContext, user: str, database: str, password: Message) -> dict[str, str] | None:
    given = password.body[:-1] if password.kind == b"p" else b""
    if user not in server.users or not secrets.compare_digest(given, server.users[user].encode()):
        return {"S": "FATAL", "C": "28000", "M": f'password authentication failed for user "{user}"'}
    if database != server.database:
        return {"S": "FATAL", "C": "3D000", "M": f'database "{database}" does not exist'}
    return None


def _open_session(
    client: MessageStream, server: StandInContext, user: str, backend: PostgresConnection
) -> ClientSession:
    (pid,) = struct.unpack_from("!i", backend.cancel_key)
    context = StatementContext(
        backend=backend,
        names=server.names,
        user=user,
        database=server.database,
        pid=pid,
        lake=server.lake,
        log=server.log,
    )
    parameters = (
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
        *(wire.pack(b"S", wire.pack_text(name) + wire.pack_text(value)) for name, value in parameters),
        wire.pack(b"K", backend.cancel_key),
        wire.pack(b"Z", b"I"),
    )
    return ClientSession(client, server, context)
