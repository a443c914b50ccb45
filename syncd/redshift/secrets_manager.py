"""A login that AWS Secrets Manager keeps, in the form that it gives to secrets of Redshift."""

import json

from syncd.errors import WarehouseUnfit
from syncd.redshift.aws import call_aws, make_client
from syncd.redshift.login import Login
from syncd.settings import Secret, WarehouseSettings

_FORMAT_HINT = 'Keep it as JSON: {"username": "...", "password": "..."}'


def read_secret_login(settings: WarehouseSettings, name: str) -> Login:
    """User and password of a secret; without a user in it, the one of the configuration.

    Raises:
        WarehouseDown: AWS does not answer.
        WarehouseUnfit: AWS refuses, knows no such secret, or it has another form.
    """
    manager = make_client("secretsmanager", _region_from_arn(name))
    found = call_aws(
        f"the secret {name}",
        lambda: manager.get_secret_value(SecretId=name),
        permission="secretsmanager:GetSecretValue",
    )
    try:
        told = json.loads(found["SecretString"])
        user, password = told.get("username") or settings.user, told["password"]
    except (KeyError, ValueError, AttributeError, TypeError):
        # What it holds is a secret, so the reason is not told.
        raise WarehouseUnfit(f"the secret {name} holds no login", hint=_FORMAT_HINT) from None
    if not user or not isinstance(password, str):
        raise WarehouseUnfit(f"the secret {name} holds no login", hint=_FORMAT_HINT)
    return Login(user=user, password=Secret(password))


def _region_from_arn(name: str) -> str | None:
    """The region that an ARN names; a mere name is looked for in AWS's default one."""
    return name.split(":")[3] if name.startswith("arn:") else None
