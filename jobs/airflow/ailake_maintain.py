"""Airflow DAG: a lake's jobs every night, one after another.

Workers need the package, and AILAKE_URI in their environment.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, chain

with DAG(
    "ailake_maintain",
    description="Decay, prune what has expired, compact and index the memories of a lake",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
    tags=["ailake"],
) as dag:
    chain(
        *(
            BashOperator(task_id=job, bash_command=f"ailake {job} --json", append_env=True)
            for job in ("decay", "prune", "compact", "index")
        )
    )
