"""A server of the S3 protocol on 127.0.0.1, in a process of its own that ends with this one."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

KEYS = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
BUCKET = "lakes"

# It takes a port that is free and says which; one that another had found free for it might be
# somebody else's by then.
SERVER = """
import sys
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Run a server with one empty bucket; yield the storage options that lead there."""
    boto3 = pytest.importorskip("boto3", reason="needs moto[server]")
    pipe, command = subprocess.PIPE, [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
            client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **KEYS)
            client.create_bucket(Bucket=BUCKET)
            client.close()
            yield {**KEYS, "endpoint": endpoint, "allow_http": "true", "region": "us-east-1"}
        finally:
            server.terminate()
