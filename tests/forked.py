"""Code in a process of its own that is not an interpreter's start away.

A fork server has imported what the engine imports, but never the engine itself, whose threads do
not survive a fork: that takes two thirds of a start. What it has imported can't warn any more, so
a few tests still begin with a new interpreter.
"""

import faulthandler
import multiprocessing
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

# One list for all: the first who starts a process starts the server.
IMPORTED = ["numpy", "pandas", "pyarrow.dataset", "lance_namespace", "ailake.cli"]
# What they import begins no thread then: a lock that one holds at a fork stays held in the child.
THREADLESS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}


def context() -> ForkServerContext:
    """Return what processes are made of."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(IMPORTED)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in THREADLESS.items():
            patched.setenv(name, value)
        forkserver.ensure_running()
    return made


def run(
    code: str, *arguments: object, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run code as ``python -W error -c`` does, to its end or its death.

    Args:
        code: Python, or the name of a module that is run as ``python -m`` does.
        arguments: What it finds in ``sys.argv``.
        env: All of its environment; default: the server's.
    """
    argv = ["-c", *map(str, arguments)]
    with TemporaryDirectory() as folder:
        process = context().Process(target=_run, args=(code, argv, env, folder))
        process.start()
        process.join()
        assert process.exitcode is not None
        said = [Path(folder, name).read_text() for name in ("out", "err")]
        ended = process.exitcode
        process.close()
    return subprocess.CompletedProcess(argv, ended, *said)


def _run(code: str, argv: list[str], env: Mapping[str, str] | None, folder: str) -> None:
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT), number)
    if env is not None:
        os.environ.clear()
        os.environ.update(env)
    sys.argv = argv
    warnings.simplefilter("error")
    # Before the test gives up: with the stacks of its threads.
    faulthandler.dump_traceback_later(1_000, exit=True)
    if code.isidentifier():
        runpy.run_module(code, run_name="__main__", alter_sys=True)
    else:
        exec(code, {"__name__": "__main__"})  # noqa: S102 (a test's own)
