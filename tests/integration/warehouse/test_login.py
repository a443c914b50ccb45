"""Who we are at a warehouse: told by AWS, asked at a server that speaks its protocol."""

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
import pytest

from syncd.errors import ConfigError, WarehouseDown, WarehouseUnfit
from syncd.redshift.connection import connect
from syncd.redshift.login import get_login
from syncd.sandbox.process import LOOPBACK
from syncd.sandbox.redshift import RedshiftStandIn
from syncd.settings import IamLogin, WarehouseSettings
from tests.integration.warehouse.conftest import settings_of

pytestmark = pytest.mark.services


@pytest.fixture
def aws(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """AWS as this process finds it."""
    for name, value in {
        "AWS_ENDPOINT_URL": s3_url,
        "AWS_ACCESS_KEY_ID": "sandbox",
        "AWS_SECRET_ACCESS_KEY": "sandbox",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    return s3_url


@pytest.fixture
def settings(server: RedshiftStandIn) -> WarehouseSettings:
    return replace(settings_of(server), password=None)


def kept(name: str, secret: str) -> str:
    """The ARN of a secret that AWS keeps from now on."""
    return str(boto3.client("secretsmanager").create_secret(Name=name, SecretString=secret)["ARN"])


def test_secret_of_aws_lets_us_in_by_name_and_by_arn(
    aws: str, settings: WarehouseSettings, server: RedshiftStandIn
) -> None:
    arn = kept("both", json.dumps({"username": server.user, "password": server.password, "port": 5439}))

    for name in ("both", arn):
        session = connect(replace(settings, user="", secret=name), session_name="test")
        assert session.rows("select current_user") == [(server.user,)]
        session.close()


def test_secret_without_a_user_takes_the_one_of_the_configuration(aws: str, settings: WarehouseSettings) -> None:
    kept("only a password", json.dumps({"password": "p"}))

    assert get_login(replace(settings, secret="only a password")).user == settings.user


def test_secret_that_was_changed_is_asked_for_anew(aws: str, settings: WarehouseSettings) -> None:
    kept("turning", json.dumps({"password": "one"}))
    chosen = replace(settings, secret="turning")
    assert get_login(chosen).password.value == "one"

    boto3.client("secretsmanager").put_secret_value(SecretId="turning", SecretString=json.dumps({"password": "two"}))

    assert get_login(chosen).password.value == "two"


@pytest.mark.parametrize("secret", ["hunter2", '["hunter2"]', '{"pass": "hunter2"}', '{"password": 5}', "null"])
def test_secret_of_another_form_is_for_a_person_and_not_shown(
    aws: str, settings: WarehouseSettings, secret: str
) -> None:
    name = f"form of {len(secret)}"
    kept(name, secret)

    with pytest.raises(WarehouseUnfit, match="contains no login") as caught:
        get_login(replace(settings, secret=name))

    assert "hunter2" not in caught.value.message + caught.value.hint
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_secret_that_is_missing_is_for_a_person(aws: str, settings: WarehouseSettings) -> None:
    with pytest.raises(WarehouseUnfit, match="ResourceNotFound"):
        get_login(replace(settings, secret="nowhere"))


def test_cluster_lends_a_login_for_the_user_of_the_configuration(aws: str, settings: WarehouseSettings) -> None:
    boto3.client("redshift").create_cluster(
        ClusterIdentifier="lending", NodeType="ra3.xlplus", MasterUsername="root", MasterUserPassword="Passw0rdx"
    )

    login = get_login(replace(settings, iam=IamLogin(cluster="lending", region="us-east-1")))

    assert login.user == f"IAM:{settings.user}"
    assert len(login.password.value) == 32
    assert login.password.value not in repr(login)


def test_cluster_that_is_missing_is_for_a_person(aws: str, settings: WarehouseSettings) -> None:
    with pytest.raises(WarehouseUnfit, match="ClusterNotFound"):
        get_login(replace(settings, iam=IamLogin(cluster="nowhere", region="us-east-1")))


class Workgroups:
    """Redshift Serverless as far as it lends logins; moto has none."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.status = 200
        self.answer: dict[str, Any] = {"dbUser": "IAMR:loader", "dbPassword": "lent", "expiration": 1.0}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the name that the library calls
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append({"target": self.headers["X-Amz-Target"], **body})
                told = json.dumps(outer.answer).encode()
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            def log_message(self, *words: object) -> None: ...

        self.server = HTTPServer((LOOPBACK, 0), Handler)


@pytest.fixture
def workgroups(aws: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workgroups]:
    running = Workgroups()
    thread = threading.Thread(target=running.server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_REDSHIFT_SERVERLESS", f"http://{LOOPBACK}:{running.server.server_port}")
    yield running
    running.server.shutdown()
    running.server.server_close()
    thread.join(60)


SERVERLESS = IamLogin(workgroup="main", region="us-east-1")


def test_workgroup_lends_a_login_and_names_the_user(workgroups: Workgroups, settings: WarehouseSettings) -> None:
    login = get_login(replace(settings, user="", iam=SERVERLESS))

    assert (login.user, login.password.value) == ("IAMR:loader", "lent")
    (asked,) = workgroups.asked
    assert asked["target"].endswith(".GetCredentials")
    assert (asked["workgroupName"], asked["dbName"], asked["durationSeconds"]) == ("main", settings.database, 900)


def test_right_that_is_missing_at_aws_is_named(workgroups: Workgroups, settings: WarehouseSettings) -> None:
    workgroups.status, workgroups.answer = 400, {"__type": "AccessDeniedException", "message": "no"}

    with pytest.raises(WarehouseUnfit, match="AccessDenied") as caught:
        get_login(replace(settings, iam=SERVERLESS))

    assert "redshift-serverless:GetCredentials" in caught.value.hint


def test_trouble_of_aws_itself_is_waited_for(workgroups: Workgroups, settings: WarehouseSettings) -> None:
    workgroups.status, workgroups.answer = 500, {"__type": "InternalServerException", "message": "later"}

    with pytest.raises(WarehouseDown, match="AWS is not available"):
        get_login(replace(settings, iam=SERVERLESS))

    assert len(workgroups.asked) == 3


def test_nobody_at_aws_is_a_warehouse_that_is_down(
    aws: str, settings: WarehouseSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{LOOPBACK}:{port}")

    with pytest.raises(WarehouseDown, match="does not answer"):
        get_login(replace(settings, secret="any"))


def test_region_that_nobody_names_is_for_a_person(
    aws: str, settings: WarehouseSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")

    with pytest.raises(WarehouseUnfit) as caught:
        get_login(replace(settings, iam=IamLogin(workgroup="main")))

    assert "warehouse.iam.region" in caught.value.hint


def test_no_way_in_at_all_is_a_mistake_of_the_configuration(settings: WarehouseSettings) -> None:
    with pytest.raises(ConfigError, match="no password"):
        get_login(settings)
