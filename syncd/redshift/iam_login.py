"""A login that IAM lends for some minutes: for a cluster, or for a workgroup of Redshift Serverless."""

from typing import Final

from syncd.redshift.aws import call_aws, make_client
from syncd.redshift.login import Login
from syncd.settings import IamLogin, Secret, WarehouseSettings

LOGIN_LIFETIME_MINUTES: Final = 15
"""The shortest that AWS lends; it is needed only until the greeting."""


def get_iam_login(settings: WarehouseSettings, iam: IamLogin) -> Login:
    """User and password for one connection.

    Not by the driver's own `iam=True`: it waits without a bound, keeps what it got
    where all connections of the process find it, and asks for more rights.

    Raises:
        WarehouseDown: AWS does not answer.
        WarehouseUnfit: AWS refuses, or knows no such cluster or workgroup.
    """
    return _get_workgroup_login(settings, iam) if iam.workgroup is not None else _get_cluster_login(settings, iam)


def _get_cluster_login(settings: WarehouseSettings, iam: IamLogin) -> Login:
    redshift = make_client("redshift", iam.region)
    found = call_aws(
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
    return Login(user=found["DbUser"], password=Secret(found["DbPassword"]))


def _get_workgroup_login(settings: WarehouseSettings, iam: IamLogin) -> Login:
    serverless = make_client("redshift-serverless", iam.region)
    found = call_aws(
        f"a login for workgroup {iam.workgroup}",
        lambda: serverless.get_credentials(
            workgroupName=iam.workgroup, dbName=settings.database, durationSeconds=60 * LOGIN_LIFETIME_MINUTES
        ),
        permission="redshift-serverless:GetCredentials",
    )
    return Login(user=found["dbUser"], password=Secret(found["dbPassword"]))
