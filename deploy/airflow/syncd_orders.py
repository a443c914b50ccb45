"""Airflow: wait until a table is complete up to the end of the interval, then work on it.

The daemon runs by itself and writes markers (`daemon: {markers: true}`). The second DAG runs
`syncd` from Airflow instead.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.amazon.aws.operators.redshift_data import RedshiftDataOperator
from airflow.providers.amazon.aws.sensors.s3 import S3KeySensor
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG

MARKERS = "syncd/markers/shop/shop.orders"

with DAG(
    dag_id="orders_by_day",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
):
    complete = S3KeySensor(
        task_id="orders_complete",
        bucket_name="acme-lake",
        # The marker of the hour that ends the day: everything committed before it is in the warehouse.
        bucket_key=MARKERS + "/{{ data_interval_end.in_timezone('UTC').strftime('%Y-%m-%dT%H') }}.json",
        mode="reschedule",
        poke_interval=60,
        timeout=6 * 3600,
    )
    report = RedshiftDataOperator(
        task_id="report",
        database="dev",
        sql="CALL reports.orders_of_day('{{ ds }}')",
    )
    complete >> report

with DAG(
    dag_id="orders_by_airflow",
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
):
    # Exit codes 4 source, 5 lake, 6 warehouse and 11 another owner are worth a retry; 2, 7, 8 and 12 need a person.
    KubernetesPodOperator(
        task_id="sync",
        image="syncd:0.1.0",
        arguments=["run", "--table", "shop.orders", "--json", "--config", "/etc/syncd/syncd.yaml"],
        retries=3,
        retry_delay=timedelta(minutes=1),
    )
