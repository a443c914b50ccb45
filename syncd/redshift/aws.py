"""Short questions to AWS, each of them bounded, and what its refusals mean; and the keys that COPY is given."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError, PartialCredentialsError

from syncd.errors import LakeUnfit, WarehouseDown, WarehouseUnfit
from syncd.redshift.copy_statement import key_words
from watermarks.errors import HintedError

T = TypeVar("T")

BOUNDED: Final = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 3, "mode": "standard"})
"""45 seconds, and what lies between two attempts."""
_PASSES: Final = frozenset(
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
_CREDENTIALS: Final = "Give this process credentials of AWS: a role of its machine or container, or AWS_PROFILE."
_KEYS: Final = "Set `warehouse.iam_role`, or give this process credentials of AWS."
_REGION: Final = "Name the region: `warehouse.iam.region`, or AWS_REGION."
_FIRST_OF_SERVER: Final = 500


class LakeKeys:
    """The credentials of this process, by which COPY reads the lake where no role is configured.

    They may be lent for some minutes only: so they are asked for at each COPY, and renewed by AWS's library.
    """

    def __init__(self) -> None:
        self._credentials: Any = None

    def words(self) -> str:
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
            raise LakeUnfit(f"COPY has no way to read the lake: {error}", hint=_KEYS) from error
        return key_words(keys.access_key, keys.secret_key, keys.token)


def client(service: str, region: str | None) -> Any:  # noqa: ANN401  # boto3 makes its types at run time
    """A client of one service of AWS.

    Raises:
        WarehouseUnfit: nobody says in which region.
    """
    try:
        return boto3.client(service, region_name=region, config=BOUNDED)  # type: ignore[call-overload]  # a name as text
    except (BotoCoreError, ValueError) as error:
        raise WarehouseUnfit(f"AWS cannot be asked for a login: {error}", hint=_hint_of(error)) from error


def ask(what: str, question: Callable[[], T], *, right: str) -> T:
    """The answer to one question; `right` is the policy's action that it needs.

    Raises:
        WarehouseDown: AWS does not answer, or not now.
        WarehouseUnfit: it refuses, or there is no such thing.
    """
    try:
        return question()
    except (ClientError, BotoCoreError) as error:
        raise _told(what, error, right) from error


def _told(what: str, error: ClientError | BotoCoreError, right: str) -> HintedError:
    if isinstance(error, ClientError):
        code = error.response["Error"]["Code"]
        message = error.response["Error"].get("Message", "")
        if code in _PASSES or error.response["ResponseMetadata"]["HTTPStatusCode"] >= _FIRST_OF_SERVER:
            return WarehouseDown(f"{what}: AWS does not answer for now: {code}: {message}")
        hint = f"Allow {right} to whom this process is at AWS." if "Denied" in code or "Unauthorized" in code else ""
        return WarehouseUnfit(f"{what}: AWS refuses: {code}: {message}", hint=hint, code=code)
    if hint := _hint_of(error):
        return WarehouseUnfit(f"{what}: {error}", hint=hint)
    return WarehouseDown(f"{what}: AWS does not answer: {error}", hint="Is there a way to AWS from this machine?")


def _hint_of(error: Exception) -> str:
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return _CREDENTIALS
    return _REGION if isinstance(error, NoRegionError) else ""
