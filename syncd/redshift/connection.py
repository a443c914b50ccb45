"""Connections to a warehouse: login (configured, from Secrets Manager, from IAM), line and session settings."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import redshift_connector
from redshift_connector.error import Error

from syncd.concurrency.response_monitor import WatchResponse, ignore_response
from syncd.errors import ConfigError, WarehouseDown, WarehouseUnfit
from syncd.ports.request_stats import CallObserver, ignore_call
from syncd.redshift.driver import WATCHDOG, DriverSocket, RedshiftDriver, open_socket
from syncd.redshift.error_table import (
    PROTOCOL_ERRORS,
    SessionAddress,
    connection_lost,
    map_server_error,
    server_error_fields,
)
from syncd.redshift.quoting import text_literal
from syncd.redshift.session import WarehouseSession, statement_meter
from syncd.settings import IamLogin, Secret, WarehouseSettings
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from syncd.ssh.tunnel import SshTunnel


LOGIN_LIFETIME_MINUTES: Final = 15
"""The shortest lifetime that AWS offers; the login is used once, when the session opens."""
_FORMAT_HINT: Final = 'Store it as JSON: {"username": "...", "password": "..."}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    user: str
    password: Secret


def get_login(settings: WarehouseSettings) -> Login:
    """Return the login for one connection. AWS is asked each time, because logins are renewed there.

    Raises:
        WarehouseDown: AWS does not answer.
        WarehouseUnfit: AWS refuses, or the secret, cluster or workgroup does not exist.
        ConfigError: no login is configured.
    """
    if settings.iam is not None:
        return _get_iam_login(settings, settings.iam)
    if settings.secret is not None:
        return _read_secret_login(settings, settings.secret)
    if settings.password is None:
        raise ConfigError(
            f"warehouse {settings.name}: there is no password",
            hint="Write redshift://user:${REDSHIFT_PASSWORD}@host/database, or set `iam` or `secret`.",
        )
    return Login(user=settings.user, password=settings.password)


def _get_iam_login(settings: WarehouseSettings, iam: IamLogin) -> Login:
    """Return a short-lived login for a cluster or a workgroup of Redshift Serverless.

    The driver's own `iam=True` is not used: it waits without a limit, caches logins for
    the whole process, and needs more permissions.
    """
    from syncd.redshift.aws import call_aws, make_client  # noqa: PLC0415  # boto3 takes long to load

    if iam.workgroup is not None:
        serverless = make_client("redshift-serverless", iam.region)
        answer = call_aws(
            f"a login for workgroup {iam.workgroup}",
            lambda: serverless.get_credentials(
                workgroupName=iam.workgroup, dbName=settings.database, durationSeconds=60 * LOGIN_LIFETIME_MINUTES
            ),
            permission="redshift-serverless:GetCredentials",
        )
        return Login(user=answer["dbUser"], password=Secret(answer["dbPassword"]))
    redshift = make_client("redshift", iam.region)
    answer = call_aws(
        f"a login for user {settings.user} of cluster {iam.cluster}",
        lambda: redshift.get_cluster_credentials(
            ClusterIdentifier=iam.cluster,
            DbUser=settings.user,
            DbName=settings.database,
            DurationSeconds=60 * LOGIN_LIFETIME_MINUTES,
            AutoCreate=False,
        ),
        permission="redshift:GetClusterCredentials",
    )
    return Login(user=answer["DbUser"], password=Secret(answer["DbPassword"]))


def _read_secret_login(settings: WarehouseSettings, name: str) -> Login:
    """Return the login in a secret; a secret without a user takes the user of the configuration."""
    from syncd.redshift.aws import call_aws, make_client  # noqa: PLC0415  # as above

    # A plain name is looked up in the default region of AWS.
    manager = make_client("secretsmanager", name.split(":")[3] if name.startswith("arn:") else None)
    answer = call_aws(
        f"the secret {name}",
        lambda: manager.get_secret_value(SecretId=name),
        permission="secretsmanager:GetSecretValue",
    )
    try:
        content = json.loads(answer["SecretString"])
        user, password = content.get("username") or settings.user, content["password"]
    except (KeyError, ValueError, AttributeError, TypeError):
        # The cause would show the content of the secret.
        raise WarehouseUnfit(f"the secret {name} holds no login", hint=_FORMAT_HINT) from None
    if not user or not isinstance(password, str):
        raise WarehouseUnfit(f"the secret {name} holds no login", hint=_FORMAT_HINT)
    return Login(user=user, password=Secret(password))


CA_BUNDLE_PATH: Final = Path(redshift_connector.__file__).parent / "files" / "redshift-ca-bundle.crt"
"""Amazon's authorities, as shipped with the driver: a small container has none."""
GREETING_TIMEOUT_SECONDS: Final = 30.0
"""A paused serverless warehouse takes time to accept its first session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarehouseConnectionFactory:
    """Factory of sessions with one warehouse, valid while its tunnel is open."""

    settings: WarehouseSettings
    tunnel: "SshTunnel | None" = None
    meter: CallObserver = ignore_call
    monitor: WatchResponse = ignore_response

    def open(self, name: str) -> WarehouseSession:
        """Open a session.

        Raises:
            WarehouseDown, WarehouseUnfit, ConfigError: as `connect`; an error of the bastion comes first.
        """
        near_end = None if self.tunnel is None else self.tunnel.local_address()
        try:
            with self.monitor(f"Redshift at {self.settings.host}:{self.settings.port}"):
                return connect(self.settings, session_name=name, tunnel_address=near_end, meter=self.meter)
        except WarehouseDown as error:
            # The driver sees a bastion's refusal only as a lost connection.
            if self.tunnel is not None and (bastion_error := self.tunnel.last_error) is not None:
                raise bastion_error from error
            raise


@contextmanager
def connection_to(
    settings: WarehouseSettings, *, meter: CallObserver = ignore_call, monitor: WatchResponse = ignore_response
) -> Iterator[WarehouseConnectionFactory]:
    """Open the tunnel of a warehouse, if it has one, and yield its connection factory.

    Raises:
        WarehouseDown, WarehouseUnfit: the bastion does not answer, or refuses the login.
    """
    if settings.tunnel is None:
        yield WarehouseConnectionFactory(settings=settings, meter=meter, monitor=monitor)
        return
    # The SSH library takes longer to load than a run that finds nothing.
    from syncd.ssh.tunnel import SshTunnel  # noqa: PLC0415  # see above

    server = (settings.host, settings.port)
    with SshTunnel(settings.tunnel, server=server, down_error=WarehouseDown, unfit_error=WarehouseUnfit) as tunnel:
        yield WarehouseConnectionFactory(settings=settings, tunnel=tunnel, meter=meter, monitor=monitor)


def connect(
    settings: WarehouseSettings,
    *,
    session_name: str,
    tunnel_address: tuple[str, int] | None = None,
    meter: CallObserver = ignore_call,
) -> WarehouseSession:
    """Open a session; the warehouse shows `session_name` for it.

    `tunnel_address` is the near end of a tunnel; the certificate is still checked for the configured host.

    Raises:
        WarehouseDown: no answer, or the warehouse accepts no session for now.
        WarehouseUnfit: the warehouse refuses this user, or its certificate is not trusted.
        ConfigError: the file of the certificate authority holds no certificate.
    """
    login = get_login(settings)
    address = SessionAddress(host=settings.host, port=settings.port, database=settings.database, user=login.user)
    wire = DriverSocket(open_socket(settings, address, tunnel_address=tunnel_address, ca_bundle=CA_BUNDLE_PATH))
    try:
        driver = _start_driver(wire, address, password=login.password.value, name=f"syncd {session_name}")
        session = WarehouseSession(
            driver, wire, address=address, silence=settings.silence, meter=statement_meter(meter, settings.name)
        )
        # Otherwise Redshift silently takes any one of several matching rows.
        session.run("SET error_on_nondeterministic_update TO true")
        if settings.query_group is not None:
            session.run(f"SET query_group TO {text_literal(settings.query_group)}")
    except BaseException:
        wire.close()
        raise
    return session


def _start_driver(wire: DriverSocket, address: SessionAddress, *, password: str, name: str) -> RedshiftDriver:
    with WATCHDOG.limit(GREETING_TIMEOUT_SECONDS, wire.end_connection) as wait:
        try:
            return RedshiftDriver(wire, user=address.user, password=password, database=address.database, name=name)
        except (Error, OSError, *PROTOCOL_ERRORS) as error:
            raise _greeting_error(error, address, late=wait.timed_out) from error


def _greeting_error(error: Exception, address: SessionAddress, *, late: bool) -> HintedError:
    if (fields := server_error_fields(error)) is not None:
        return map_server_error(fields, address)
    if late:
        return connection_lost(TimeoutError(), address, during="during login")
    if isinstance(error, OSError):
        return connection_lost(error, address, during="during login")
    return WarehouseDown(
        f"{address} does not answer as Redshift does: {error}", hint="Are host and port right in `warehouse.url`?"
    )
