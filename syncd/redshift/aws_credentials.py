"""Short requests to AWS with time limits, their errors, and the credentials of COPY."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError, PartialCredentialsError

from syncd.errors import LakeUnfit, WarehouseDown, WarehouseUnfit
from syncd.redshift.scratch_tables import key_clause
from watermarks.errors import HintedError

T = TypeVar("T")

CLIENT_CONFIG: Final = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 3, "mode": "standard"})
"""At most 45 seconds, plus the pauses between attempts."""
_TRANSIENT_CODES: Final = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "InternalServiceError",
        "InternalServerException",
        "ServiceUnavailable",
        "RequestTimeout",
    }
)
_CREDENTIALS_HINT: Final = "Give this process AWS credentials: a role of its machine or container, or AWS_PROFILE."
_COPY_KEYS_HINT: Final = "Set `warehouse.iam_role`, or give this process AWS credentials."
_REGION_HINT: Final = "Set the region: `warehouse.iam.region`, or AWS_REGION."
_FIRST_SERVER_ERROR_STATUS: Final = 500


class LakeCredentials:
    """Credentials of this process, by which COPY reads the lake where no role is configured.

    They may be short-lived, so they are read at each COPY; the AWS library renews them.
    """

    def __init__(self) -> None:
        self._credentials: Any = None

    def copy_clause(self) -> str:
        """Return the clause of COPY that holds the credentials.

        Raises:
            LakeUnfit: this process has no AWS credentials.
        """
        try:
            self._credentials = self._credentials or boto3.session.Session().get_credentials()
            if self._credentials is None:
                raise NoCredentialsError
            keys = self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise LakeUnfit(f"no credentials for COPY to read the lake: {error}", hint=_COPY_KEYS_HINT) from error
        return key_clause(keys.access_key, keys.secret_key, keys.token)


def make_client(service: str, region: str | None) -> Any:  # noqa: ANN401  # boto3 makes its types at run time
    """Return a client of one AWS service.

    Raises:
        WarehouseUnfit: no region is configured.
    """
    try:
        return boto3.client(service, region_name=region, config=CLIENT_CONFIG)  # type: ignore[call-overload]  # a name as text
    except (BotoCoreError, ValueError) as error:
        raise WarehouseUnfit(f"cannot request a login from AWS: {error}", hint=_configuration_hint(error)) from error


def call_aws(purpose: str, request: Callable[[], T], *, permission: str) -> T:
    """Send one request and return the answer; `permission` is the policy action that it needs.

    Raises:
        WarehouseDown: AWS does not answer.
        WarehouseUnfit: AWS refuses, or the requested object does not exist.
    """
    try:
        return request()
    except (ClientError, BotoCoreError) as error:
        raise _map_error(purpose, error, permission) from error


def _map_error(purpose: str, error: ClientError | BotoCoreError, permission: str) -> HintedError:
    if isinstance(error, ClientError):
        code = error.response["Error"]["Code"]
        message = error.response["Error"].get("Message", "")
        if (
            code in _TRANSIENT_CODES
            or error.response["ResponseMetadata"]["HTTPStatusCode"] >= _FIRST_SERVER_ERROR_STATUS
        ):
            return WarehouseDown(f"{purpose}: AWS is not available: {code}: {message}")
        hint = (
            f"Allow {permission} to the AWS identity of this process."
            if "Denied" in code or "Unauthorized" in code
            else ""
        )
        return WarehouseUnfit(f"{purpose}: AWS refuses: {code}: {message}", hint=hint, code=code)
    if hint := _configuration_hint(error):
        return WarehouseUnfit(f"{purpose}: {error}", hint=hint)
    return WarehouseDown(
        f"{purpose}: AWS does not answer: {error}", hint="Check that AWS is reachable from this machine."
    )


def _configuration_hint(error: Exception) -> str:
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return _CREDENTIALS_HINT
    return _REGION_HINT if isinstance(error, NoRegionError) else ""
