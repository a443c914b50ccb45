"""The sandbox's S3 as its clients see it, and the service that runs it."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncd.errors import LakeDown
from syncd.host.directories import make_writable
from syncd.sandbox.process import LOOPBACK
from watermarks.errors import HintedError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

EXTERNAL_S3_VARIABLE: Final = "SYNCD_SANDBOX_S3"
BUCKET: Final = "lake"
REGION: Final = "us-east-1"
PROBE_TIMEOUT_SECONDS: Final = 3.0
HTTP_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """An S3 endpoint with its keys; without a key, boto3's default chain decides."""

    endpoint: str
    bucket: str = BUCKET
    region: str = REGION
    access_key: str | None = None
    secret_key: str | None = None

    @property
    def url(self) -> str:
        """URL of the lake, as in `syncd.yaml`."""
        return f"s3://{self.bucket}"

    @property
    def environ(self) -> dict[str, str]:
        """Environment variables with which another program's default chain reaches the endpoint."""
        variables = {"AWS_ENDPOINT_URL_S3": self.endpoint, "AWS_DEFAULT_REGION": self.region}
        if self.access_key and self.secret_key:
            variables |= {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}
        return variables

    def make_client(self, *, attempts: int = 5, timeout_seconds: float = 60.0) -> "S3Client":
        """Make a client; it tries a request so many times, and an answer may take so many seconds."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(
                connect_timeout=timeout_seconds,
                read_timeout=timeout_seconds,
                retries={"mode": "standard", "total_max_attempts": attempts},
                s3={"addressing_style": "path"},
            ),
        )

    def probe(self) -> str | None:
        """Return the bucket, made if it is missing, or None while the endpoint does not answer."""
        from botocore.exceptions import BotoCoreError, ClientError

        client = self.make_client(attempts=1, timeout_seconds=PROBE_TIMEOUT_SECONDS)
        try:
            try:
                client.head_bucket(Bucket=self.bucket)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] != HTTP_NOT_FOUND:
                    return None
                client.create_bucket(Bucket=self.bucket)
        except (BotoCoreError, ClientError):
            return None
        finally:
            client.close()
        return f"bucket {self.bucket}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnS3:
    """Moto's server in a process of its own, with its objects in a directory."""

    home: Path
    port: int | None = None
    name: str = "s3"
    is_external: bool = False
    start_error: type[HintedError] = LakeDown

    def prepare(self) -> None:
        make_writable(self.home, hint="Make the directory writable, or choose another one with --dir.")

    def command(self, port: int) -> Sequence[str]:
        return [sys.executable, "-m", "syncd.sandbox.s3_server", "--port", str(port), "--dir", str(self.home)]

    @property
    def environ(self) -> Mapping[str, str]:
        return {}

    def probe(self, port: int) -> str | None:
        return self.address(port).probe()

    def url(self, port: int) -> str:
        return self.address(port).endpoint

    def address(self, port: int) -> S3Address:
        # Moto accepts any key.
        return S3Address(endpoint=f"http://{LOOPBACK}:{port}", access_key="sandbox", secret_key="sandbox")  # noqa: S106  # no secret


def external_address(endpoint: str, environ: Mapping[str, str]) -> S3Address:
    """Return the endpoint of `SYNCD_SANDBOX_S3`, with the bucket of `SYNCD_SANDBOX_BUCKET` if that is set."""
    return S3Address(
        endpoint=endpoint,
        bucket=environ.get("SYNCD_SANDBOX_BUCKET") or BUCKET,
        region=environ.get("AWS_DEFAULT_REGION") or REGION,
        access_key=environ.get("AWS_ACCESS_KEY_ID"),
        secret_key=environ.get("AWS_SECRET_ACCESS_KEY"),
    )
