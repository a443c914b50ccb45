"""Short questions to AWS, each of them bounded, and what its refusals mean; and the keys that COPY is given."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError, PartialCredentialsError

from syncd.errors import LakeUnfit, WarehouseDown, WarehouseUnfit
from syncd.redshift.copy_statement import key_clause
from watermarks.errors import HintedError

T = TypeVar("T")

CLIENT_CONFIG: Final = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 3, "mode": "standard"})
"""45 seconds, and what lies between two attempts."""
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
_CREDENTIALS_HINT: Final = "Give this process credentials of AWS: a role of its machine or container, or AWS_PROFILE."
_COPY_KEYS_HINT: Final = "Set `warehouse.iam_role`, or give this process credentials of AWS."
_REGION_HINT: Final = "Name the region: `warehouse.iam.region`, or AWS_REGION."
_FIRST_SERVER_ERROR_STATUS: Final = 500


class LakeCredentials:
    """The credentials of this process, by which COPY reads the lake where no role is configured.

    They may be lent for some minutes only: so they are asked for at each COPY, and renewed by AWS's library.
    """

    def __init__(self) -> None:
        self._credentials: Any = None

    def copy_clause(self) -> str:
        """The words of COPY that hold them.

        Raises:
            LakeUnfit: there are none.
        """
        try:
            self._credentials = self._credentials or boto3.session.Session().get_credentials()
            if self._credentials is None:
                raise NoCredentialsError
            keys = self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise LakeUnfit(f"COPY has no way to read the lake: {error}", hint=_COPY_KEYS_HINT) from error
        return key_clause(keys.access_key, keys.secret_key, keys.token)


def make_client(service: str, region: str | None) -> Any:  # noqa: ANN401  # boto3 makes its types at run time
    """A client of one service of AWS.

    Raises:
        WarehouseUnfit: nobody says in which region.
    """
    try:
        return boto3.client(service, region_name=region, config=CLIENT_CONFIG)  # type: ignore[call-overload]  # a name as text
    except (BotoCoreError, ValueError) as error:
        raise WarehouseUnfit(f"AWS cannot be asked for a login: {error}", hint=_configuration_hint(error)) from error


def call_aws(purpose: str, request: Callable[[], T], *, permission: str) -> T:
    """The answer to one question; `right` is the policy's action that it needs.

    Raises:
        WarehouseDown: AWS does not answer, or not now.
        WarehouseUnfit: it refuses, or there is no such thing.
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
            return WarehouseDown(f"{purpose}: AWS does not answer for now: {code}: {message}")
        hint = (
            f"Allow {permission} to whom this process is at AWS." if "Denied" in code or "Unauthorized" in code else ""
        )
        return WarehouseUnfit(f"{purpose}: AWS refuses: {code}: {message}", hint=hint, code=code)
    if hint := _configuration_hint(error):
        return WarehouseUnfit(f"{purpose}: {error}", hint=hint)
    return WarehouseDown(f"{purpose}: AWS does not answer: {error}", hint="Is there a way to AWS from this machine?")


def _configuration_hint(error: Exception) -> str:
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return _CREDENTIALS_HINT
    return _REGION_HINT if isinstance(error, NoRegionError) else ""
