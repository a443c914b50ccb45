"""Who we are at a warehouse: as configured, as a secret of AWS tells, or as IAM lends for some minutes."""

from dataclasses import dataclass

from syncd.errors import ConfigError
from syncd.settings import Secret, WarehouseSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A user and a password."""

    user: str
    password: Secret


def get_login(settings: WarehouseSettings) -> Login:
    """The login for one connection; what AWS is asked for is asked anew each time, as it is renewed there.

    Raises:
        WarehouseDown: AWS does not answer.
        WarehouseUnfit: AWS refuses, or knows no such secret, cluster or workgroup.
        ConfigError: nothing is configured.
    """
    if settings.iam is not None:
        from syncd.redshift.iam_login import get_iam_login  # noqa: PLC0415  # boto3 takes long to load

        return get_iam_login(settings, settings.iam)
    if settings.secret is not None:
        from syncd.redshift.secrets_manager import read_secret_login  # noqa: PLC0415  # as above

        return read_secret_login(settings, settings.secret)
    if settings.password is None:
        raise ConfigError(
            f"warehouse {settings.name}: there is no password",
            hint="Write redshift://user:${REDSHIFT_PASSWORD}@host/database, or set `iam` or `secret`.",
        )
    return Login(user=settings.user, password=settings.password)
