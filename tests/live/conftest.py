"""The stand-in's cases against a real cluster or workgroup, for whoever owns one.

    SYNCD_LIVE_REDSHIFT=redshift://user:password@host:5439/database     (?ssl=false for a stand-in)
    SYNCD_LIVE_S3=s3://bucket/prefix        in the cluster's region; credentials from the default AWS chain
    SYNCD_LIVE_IAM_ROLE=arn:aws:iam::...    or `default`; what COPY reads the bucket with

Everything happens in a schema of its own, dropped at the end. A case marked `stricter` may come out otherwise
there: it is reported as xfailed or xpassed, and its line in docs/explanation/stand-in.md wants the answer.
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import boto3
import pytest
import redshift_connector
from redshift_connector.error import Error

from tests.standin.clients import Bucket, Client

HERE = Path(__file__).parent
MISSING = [name for name in ("SYNCD_LIVE_REDSHIFT", "SYNCD_LIVE_S3") if not os.environ.get(name)]
collect_ignore = [p.name for p in HERE.glob("test_*.py") if p.name != "test_cluster.py"] if MISSING else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("stricter"):
            item.add_marker(pytest.mark.xfail(strict=False, reason="stricter than Redshift, in doubt"))


@pytest.fixture(scope="session", autouse=True)
def given() -> None:
    if MISSING:
        pytest.skip(f"no real Redshift: {' and '.join(MISSING)} not set")


@pytest.fixture(scope="session")
def role() -> str:
    named = os.environ.get("SYNCD_LIVE_IAM_ROLE", "default")
    return "iam_role default" if named == "default" else f"iam_role '{named}'"


@pytest.fixture(scope="session")
def bucket() -> Bucket:
    parts = urlsplit(os.environ["SYNCD_LIVE_S3"])
    prefix = f"{parts.path.strip('/')}/live-{secrets.token_hex(4)}/".lstrip("/")
    return Bucket(boto3.client("s3"), parts.netloc, prefix)


@pytest.fixture(scope="session")
def schema() -> Iterator[str]:
    name = f"syncd_live_{secrets.token_hex(4)}"
    connection = opened()
    connection.autocommit = True
    connection.cursor().execute(f"create schema {name}")
    yield name
    connection.cursor().execute(f"drop schema {name} cascade")
    connection.close()


def opened(**options: Any) -> Any:  # the driver's own
    parts = urlsplit(os.environ["SYNCD_LIVE_REDSHIFT"])
    settings: dict[str, Any] = {
        "host": parts.hostname,
        "port": parts.port or 5439,
        "database": parts.path.strip("/"),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "ssl": "ssl=false" not in parts.query,
    }
    return redshift_connector.connect(**{**settings, **options})


class LiveClients:
    """As `Clients` of the stand-in; there is only one user here."""

    def __init__(self, schema: str, role: str) -> None:
        self._schema = schema
        self._role = role
        self._opened: list[Client] = []

    def __call__(self, *, autocommit: bool = True, **options: Any) -> Client:  # the driver's own
        if "user" in options:
            pytest.skip("this case wants a second user, and a live cluster is told of one")
        client = Client(opened(**options), self._role)
        client.connection.autocommit = True
        client.run(f"set search_path to {self._schema}, public")
        client.connection.autocommit = autocommit
        self._opened.append(client)
        return client

    def close(self) -> None:
        for client in self._opened:
            try:
                client.close()
            except (Error, OSError):
                continue


@pytest.fixture
def clients(schema: str, role: str) -> Iterator[LiveClients]:
    opener = LiveClients(schema, role)
    yield opener
    opener.close()


@pytest.fixture
def client(clients: LiveClients) -> Client:
    return clients()
