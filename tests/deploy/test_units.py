"""What stands in `deploy/` is what it says: each file is parsed, or run, and held against the code."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncd.config.check import read_settings
from syncd.daemon.routes import PUBLIC_PATHS
from syncd.error_classes import ExitCode
from syncd.host.jar_download import ARTIFACTS
from syncd.lake.object_keys import hour_marker_key
from syncd.settings import DaemonSettings, Settings
from tests.builders import NOON, ORDERS
from tests.deploy.commands import require_command

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SECRETS = {
    "MYSQL_PASSWORD": "m",
    "REDSHIFT_PASSWORD": "r",
    "SYNCD_TOKEN": "t",
    "SLACK_URL": "https://hooks.example.com/x",
}
UNIT = (DEPLOY / "systemd" / "syncd.service").read_text()
DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text()


def settings() -> Settings:
    return read_settings(DEPLOY / "syncd.yaml", SECRETS)


def manifests(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))
    return found


def of_kind(kind: str, name: str = "syncd.yaml") -> dict[str, Any]:
    return next(one for one in manifests(name) if one["kind"] == kind)


def container(name: str, kind: str) -> dict[str, Any]:
    (found,) = of_kind(kind, name)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def test_the_example_is_a_configuration_without_mistakes() -> None:
    found = settings()

    assert [one.name for one in found.streams] == ["shop.orders", "shop.events", "shop.countries"]
    assert all(one.schedule.fresh_within for one in found.streams)


# systemd


def directives(section: str) -> dict[str, list[str]]:
    text = UNIT.split(f"[{section}]\n")[1].split("\n[")[0]
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_starts_a_command_that_there_is_and_waits_for_it() -> None:
    service = directives("Service")
    program, *words = service["ExecStart"][0].split()

    assert program == "/opt/syncd/bin/syncd"
    require_command(words)
    assert service["Type"] == ["notify"]
    assert seconds(service["TimeoutStopSec"][0]) > DaemonSettings().stop_timeout.total_seconds()
    assert service["RestartPreventExitStatus"] == [str(int(ExitCode.USAGE))]
    assert seconds(service["WatchdogSec"][0]) == 60
    for name, value in (one.split(":", 1) for one in service["LoadCredential"]):
        assert value.endswith(f"/{name}")


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(s|min)", text).groups()  # type: ignore[union-attr]  # else the test fails
    return float(number) * {"s": 1, "min": 60}[unit]


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there on this machine: what systemd knows of it can be checked anywhere."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here: apt-get install systemd")
    path = tmp_path / "syncd.service"
    path.write_text(UNIT.replace("/opt/syncd/bin/syncd", sys.executable))
    return path


def test_systemd_takes_the_unit_without_a_word(unit: Path) -> None:
    words = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "SYSTEMD_LOG_LEVEL": "notice"}
    )

    about_ours = [line for line in done.stderr.splitlines() if "syncd.service" in line]
    assert about_ours == []
    assert done.returncode == 0, done.stderr


def test_systemd_finds_little_that_the_service_may_do_beyond_its_work(unit: Path) -> None:
    words = ["systemd-analyze", "security", "--no-pager", "--offline=yes", "--threshold=25", str(unit)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    if "unrecognized option" in done.stderr:
        pytest.skip("systemd-analyze cannot judge a file before version 250")
    assert done.returncode == 0, done.stdout.splitlines()[-1:] + done.stderr.splitlines()


# Docker


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]


def test_the_image_is_built_from_named_bases_and_fetches_nothing_by_address() -> None:
    bases = [words.split()[0] for word, words in instructions() if word == "FROM"]

    assert all(re.fullmatch(r"[a-z0-9./-]+:[A-Za-z0-9._-]+", base) and not base.endswith(":latest") for base in bases)
    assert len(set(bases)) == 1
    assert "ADD" not in {word for word, _ in instructions()}
    assert not re.search(r"\b(curl|wget)\b|https?://(?!127\.0\.0\.1)", DOCKERFILE)


def test_the_image_runs_as_nobody_in_particular_with_everything_it_needs_in_it() -> None:
    last = instructions()[max(place for place, (word, _) in enumerate(instructions()) if word == "FROM") :]
    told = dict(last)

    uid = told["USER"].partition(":")[0]
    assert uid.isdecimal()
    assert int(uid) > 1000
    fetched = re.search(r"syncd jars fetch ([a-z -]+?)[\s\\]+&&", DOCKERFILE)
    assert fetched
    assert set(fetched[1].split()) == {one.module for one in ARTIFACTS if one.purpose.startswith("reading")}
    cache = re.search(r"SYNCD_CACHE=(\S+) /opt/syncd/bin/syncd jars", DOCKERFILE)
    assert cache
    assert f"SYNCD_CACHE={cache[1]}" in told["ENV"]
    assert json.loads(told["ENTRYPOINT"]) == ["syncd"]
    require_command(json.loads(told["CMD"]))
    assert "no-install-recommends openjdk-17-jre-headless" in told["RUN"]


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().split()
    copied = [
        one for word, words in instructions() if word == "COPY" and "--from" not in words for one in words.split()[:-1]
    ]

    for name in (one.removeprefix("./") for one in copied):
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored


def test_compose_runs_it_on_a_root_that_cannot_be_written_to() -> None:
    (service,) = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())["services"].values()

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["user"] == "10001:10001"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert seconds(service["stop_grace_period"]) > DaemonSettings().stop_timeout.total_seconds()
    folder = DEPLOY / "docker"
    assert (folder / service["build"]["context"]).resolve() == ROOT
    assert (folder / service["volumes"][0].split(":")[0]).resolve() == DEPLOY / "syncd.yaml"


# Kubernetes


@pytest.mark.parametrize(("name", "kind"), [("syncd.yaml", "Deployment"), ("once.yaml", "Job")])
def test_a_pod_may_do_nothing_but_its_work(name: str, kind: str) -> None:
    pod = of_kind(kind, name)["spec"]["template"]["spec"]
    one = container(name, kind)

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert f"USER {pod['securityContext']['runAsUser']}:" in DOCKERFILE
    mounted = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in one["volumeMounts"]} == mounted
    assert not one["image"].endswith(":latest")
    assert pod["serviceAccountName"] == of_kind("ServiceAccount")["metadata"]["name"]
    require_command(one["args"])


def test_the_pod_has_the_time_that_the_daemon_takes_to_stop() -> None:
    pod = of_kind("Deployment")["spec"]["template"]["spec"]

    assert timedelta(seconds=pod["terminationGracePeriodSeconds"]) > settings().daemon.stop_timeout


def test_probes_ask_the_port_that_the_example_opens_to_others() -> None:
    one = container("syncd.yaml", "Deployment")
    address = settings().daemon.http

    assert address is not None
    assert address.host == "0.0.0.0"
    assert one["ports"] == [{"name": "http", "containerPort": address.port}]
    asked = {one[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert asked == PUBLIC_PATHS
    assert f"127.0.0.1:{address.port}/healthz" in DOCKERFILE
    assert f"EXPOSE {address.port}" in DOCKERFILE


def test_every_secret_of_the_example_is_in_the_environment_of_the_pod() -> None:
    named = set(re.findall(r"\$\{(\w+)\}", re.sub(r"#.*", "", (DEPLOY / "syncd.yaml").read_text())))

    assert named == set(of_kind("Secret")["stringData"]) == set(SECRETS)
    assert {"secretRef": {"name": "syncd"}} in container("syncd.yaml", "Deployment")["envFrom"]


def test_a_job_is_not_tried_again_where_only_a_person_can_help() -> None:
    job = of_kind("Job", "once.yaml")["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]

    hopeless = {ExitCode.BUG, ExitCode.USAGE, ExitCode.DOUBT, ExitCode.DRIFT, ExitCode.STATE}
    assert set(rule["onExitCodes"]["values"]) == {int(code) for code in hopeless}
    assert job["template"]["spec"]["restartPolicy"] == "Never"


# Rights


@pytest.mark.parametrize("name", ["daemon.json", "copy.json", "copy-trust.json"])
def test_a_policy_is_one_of_iam_and_allows_nothing_by_a_star(name: str) -> None:
    policy = json.loads((DEPLOY / "iam" / name).read_text())

    assert set(policy) == {"Version", "Statement"}
    assert policy["Version"] == "2012-10-17"
    for statement in policy["Statement"]:
        assert set(statement) <= {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}
        assert statement["Effect"] == "Allow"
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert all(re.fullmatch(r"(s3|sts):[A-Za-z]+", action) for action in actions)


# Airflow


def test_the_dag_compiles_and_waits_for_a_marker_that_will_be_there() -> None:
    text = (DEPLOY / "airflow" / "syncd_orders.py").read_text()
    tree = ast.parse(text)

    lists = [node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "arguments"]
    (arguments,) = (ast.literal_eval(node.value) for node in lists)
    require_command(arguments)
    prefix = re.search(r'MARKERS = "(.+)"', text)
    form = re.search(r"strftime\('([^']+)'\)", text)
    assert prefix
    assert form
    lake = settings().lake
    assert f"{prefix[1]}/{NOON.strftime(form[1])}.json" == f"{lake.prefix}/{hour_marker_key(ORDERS, NOON)}"
    assert f'bucket_name="{lake.bucket}"' in text
