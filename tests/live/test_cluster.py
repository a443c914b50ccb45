"""That there is a cluster, and which one."""

from tests.standin.clients import Client


def test_cluster_tells_its_version(client: Client) -> None:
    version = client.value("select version()")

    print(version)  # noqa: T201  # the answers of the other cases are that version's
    assert "Redshift" in version
