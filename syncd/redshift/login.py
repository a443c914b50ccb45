"""Login to a warehouse: a configured password, a secret of Secrets Manager, or short-lived credentials from IAM."""

import json
from dataclasses import dataclass
from typing import Final

from syncd.errors import ConfigError, WarehouseUnfit
from syncd.settings import IamLogin, Secret, WarehouseSettings

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
    from syncd.redshift.aws_credentials import call_aws, make_client  # noqa: PLC0415  # boto3 takes long to load

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
    from syncd.redshift.aws_credentials import call_aws, make_client  # noqa: PLC0415  # as above

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
        raise WarehouseUnfit(f"the secret {name} contains no login", hint=_FORMAT_HINT) from None
    if not user or not isinstance(password, str):
        raise WarehouseUnfit(f"the secret {name} contains no login", hint=_FORMAT_HINT)
    return Login(user=user, password=Secret(password))
