"""A server of the S3 protocol on 127.0.0.1, in a process of its own."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

KEYS = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
BUCKET = "lakes"


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Run a server with one empty bucket; yield the storage options that lead there."""
    boto3 = pytest.importorskip("boto3", reason="needs moto[server]")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    null = subprocess.DEVNULL
    server = subprocess.Popen(command, stdout=null, stderr=null)
    try:
        wait_for(port)
        endpoint = f"http://127.0.0.1:{port}"
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **KEYS)
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield {**KEYS, "endpoint": endpoint, "allow_http": "true", "region": "us-east-1"}
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
