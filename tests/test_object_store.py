"""The same lake on an object store, over a real server of the S3 protocol on 127.0.0.1."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

import ailake
from ailake.maintenance import MemoryDecayJob

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    boto3 = pytest.importorskip("boto3", reason="needs moto[server]")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    null = subprocess.DEVNULL
    server = subprocess.Popen(command, stdout=null, stderr=null)
    try:
        wait_for(port)
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        endpoint = f"http://127.0.0.1:{port}"
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
        client.create_bucket(Bucket="lakes")
        client.close()
        yield {**keys, "endpoint": endpoint, "allow_http": "true", "region": "us-east-1"}
    finally:
        server.terminate()
        server.wait()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the S3 server did not start")


def test_a_lake_on_an_object_store(options: dict[str, str]) -> None:
    uri = "s3://lakes/a/lake"
    with pytest.raises(ailake.NotFoundError, match="no lake at"):
        ailake.connect(uri, storage_options=options, create=False)
    with ailake.connect(uri, embedder="hashing:256", storage_options=options) as lake:
        memory = lake.memory(agent_id="a")
        made = memory.remember("Ana likes tea", event_time=NOW - timedelta(days=7), now=NOW)
        assert memory.remember("ana likes tea.", now=NOW).decision is ailake.Decision.SKIP
        memory.remember_many([{"text": f"n{n}"} for n in range(20)], now=NOW)
        assert memory.recall("tea", limit=1, now=NOW)[0].id == made.id
        report = MemoryDecayJob(lake).run(NOW + timedelta(days=7))
        assert (report.rows, report.fragments_written) == (21, 2)
        assert report.version_after == report.version_before + 1
        again = MemoryDecayJob(lake).run(NOW + timedelta(days=7))
        assert again.version_after == report.version_after
        memory.forget(where={"chunk_text": "n3"})
        lake.tag("t1")
    with ailake.connect(uri, storage_options=options) as lake:
        memory = lake.memory(agent_id="a")
        record = memory.get(made.id)
        assert record.recency_weight == pytest.approx(0.5, abs=1e-3)
        assert record.access_count == 1
        assert memory.count(now=NOW) == 20
        assert lake.verify(now=NOW) == ()
        assert lake.stats().tables[1].rows == 20
        assert lake.at("t1").memory(agent_id="a").count(now=NOW) == 20
        assert "secret" not in repr(lake) + repr(memory)


def test_a_missing_bucket_is_an_error(options: dict[str, str]) -> None:
    with pytest.raises((OSError, RuntimeError, ValueError)):
        ailake.connect("s3://nowhere/lake", embedder="hashing:256", storage_options=options)
