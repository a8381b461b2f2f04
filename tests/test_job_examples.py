"""The examples in jobs/ for cron, systemd, Kubernetes, Airflow and the scheduler: read and run."""

import configparser
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import kubernetes_validate
import pytest
import yaml
from croniter import croniter
from ran import runs

import ailake
from ailake.cli import main
from ailake.core.schedule import schedule_from_toml
from ailake.maintenance.registry import parameters
from ailake.maintenance.schedule import Scheduler, upcoming

JOBS = Path(__file__).parents[1] / "jobs"
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
INSTALLED = "/opt/ailake/bin/ailake"


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder with an ``ailake`` in it, as an installation has one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "ailake"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ailake "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Runs commands on a lake as they stand; returns the jobs that then were recorded."""
    lake = tmp_path / "lake"
    monkeypatch.setenv("AILAKE_URI", str(lake))
    with ailake.connect(lake, embedder="hashing:8") as opened:
        opened.memory("a").remember("tea")

    def run_all(*commands: str) -> list[str]:
        for command in commands:
            monkeypatch.setattr(sys, "argv", shlex.split(command))
            assert sys.argv[0] == "ailake"
            with pytest.raises(SystemExit) as end:
                main()
            assert not end.value.code
            json.loads(capsys.readouterr().out)
        with ailake.connect(lake) as opened:
            return [run.job for run in runs(opened)]

    return run_all


def first(crontab: str) -> datetime:
    """Return when a crontab's five fields come next, by a library that reads crontabs."""
    assert croniter.is_valid(crontab)
    found: datetime = croniter(crontab, NOW).get_next(datetime)
    return found


def test_the_crontab(run: Callable[..., list[str]]) -> None:
    lines = (JOBS / "crontab").read_text().splitlines()
    settings = [line for line in lines if "=" in line and not line.startswith("#")]
    assert settings == ["AILAKE_URI=/var/lib/ailake", "CRON_TZ=UTC"]
    entries = [line for line in lines if line and line not in settings and line[0] != "#"]
    commands = []
    for entry in entries:
        *fields, command = entry.split(None, 5)
        assert first(" ".join(fields)) > NOW
        assert "%" not in command  # cron reads it as the end of the line.
        commands.append(command)
    assert run(*commands) == ["decay", "maintain"]


@pytest.mark.slow
def test_a_line_of_the_crontab_in_a_shell(tmp_path: Path, bin_folder: Path) -> None:
    with ailake.connect(tmp_path / "lake", embedder="hashing:8"):
        pass
    command = (JOBS / "crontab").read_text().splitlines()[-1].split(None, 5)[-1]
    env = {"AILAKE_URI": str(tmp_path / "lake"), "PATH": f"{bin_folder}:/usr/bin:/bin"}
    env |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    done = subprocess.run(["/bin/sh", "-c", command], env=env, check=True, capture_output=True)
    assert json.loads(done.stdout)["dry_run"] is False


def units(name: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((JOBS / "systemd" / name).read_text())
    return unit


def test_the_systemd_units(run: Callable[..., list[str]]) -> None:
    service = units("ailake-maintain.service")["Service"]
    assert service["Type"] == "oneshot"
    assert service["ReadWritePaths"] == service["Environment"].removeprefix("AILAKE_URI=")
    timer = units("ailake-maintain.timer")
    assert timer["Timer"]["OnCalendar"].endswith(" UTC")
    assert timer["Install"]["WantedBy"] == "timers.target"
    daemon = units("ailake-schedule.service")["Service"]
    assert daemon["ExecStart"] == f"{INSTALLED} schedule run --file /etc/ailake/schedule.toml"
    assert run(service["ExecStart"].replace(INSTALLED, "ailake")) == ["maintain"]


def test_systemd_finds_nothing_wrong(tmp_path: Path, bin_folder: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    files = []
    for unit in sorted((JOBS / "systemd").iterdir()):
        file = tmp_path / unit.name
        file.write_text(unit.read_text().replace(INSTALLED, str(bin_folder / "ailake")))
        files.append(str(file))
    assert len(files) == 3
    done = subprocess.run(
        [analyze, "verify", "--man=no", *files], capture_output=True, text=True, check=False
    )
    # It says what it ignores, and ends well all the same.
    assert (done.returncode, [line for line in done.stderr.splitlines() if "ailake" in line]) == (
        0,
        [],
    )


def test_the_kubernetes_cron_job(run: Callable[..., list[str]]) -> None:
    (manifest,) = yaml.safe_load_all((JOBS / "kubernetes" / "cronjob.yaml").read_text())
    kubernetes_validate.validate(manifest, "1.30", strict=True)
    spec = manifest["spec"]
    assert first(spec["schedule"]).hour == 3
    assert (spec["timeZone"], spec["concurrencyPolicy"]) == ("Etc/UTC", "Forbid")
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    uri = {one["name"]: one["value"] for one in container["env"]}["AILAKE_URI"]
    assert {"name": pod["volumes"][0]["name"], "mountPath": uri} in container["volumeMounts"]
    assert run(shlex.join(container["command"])) == ["maintain"]


class Dag:
    """Stands for Airflow's DAG where that is not installed: keeps what it is given."""

    def __init__(self, dag_id: str, **options: Any) -> None:
        self.dag_id, self.options = dag_id, options

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def read_dag(patch: pytest.MonkeyPatch) -> tuple[Dag, list[dict[str, Any]]]:
    tasks: list[dict[str, Any]] = []

    def operator(**options: Any) -> dict[str, Any]:
        tasks.append(options)
        return options

    modules: dict[str, dict[str, Any]] = {
        "airflow.sdk": {"DAG": Dag, "chain": lambda *given: given},
        "airflow.providers.standard.operators.bash": {"BashOperator": operator},
    }
    for name, values in modules.items():
        module = ModuleType(name)
        vars(module).update(values)
        patch.setitem(sys.modules, name, module)
    found: dict[str, Any] = {}
    file = JOBS / "airflow" / "ailake_maintain.py"
    exec(compile(file.read_text(), str(file), "exec"), found)  # noqa: S102
    return found["dag"], tasks


def test_the_airflow_dag(run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    dag, tasks = read_dag(monkeypatch)
    assert first(dag.options["schedule"]).hour == 3
    assert (dag.options["catchup"], dag.options["max_active_runs"]) == (False, 1)
    assert dag.options["start_date"].tzinfo is UTC
    # Without it the command would see nothing of the worker's environment.
    assert all(task["append_env"] for task in tasks)
    names = [task["task_id"] for task in tasks]
    assert run(*(task["bash_command"] for task in tasks)) == names
    assert names == ["decay", "prune", "compact", "index"]


REAL = """
import runpy, sys
dag = runpy.run_path(sys.argv[1])["dag"]
assert dag.schedule == "0 3 * * *", dag.schedule
print([task.task_id for task in dag.topological_sort()])
"""


@pytest.mark.slow
def test_airflow_reads_the_dag(tmp_path: Path) -> None:
    if find_spec("airflow") is None:
        pytest.skip("needs apache-airflow, a hundred packages")
    command = [sys.executable, "-W", "ignore", "-c", REAL]
    done = subprocess.run(
        [*command, str(JOBS / "airflow" / "ailake_maintain.py")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"AIRFLOW_HOME": str(tmp_path)},
    )
    assert done.stdout.splitlines()[-1:] == ["['decay', 'prune', 'compact', 'index']"], done.stderr


def test_the_schedule(lake: ailake.Lake) -> None:
    text = (JOBS / "schedule.toml").read_text()
    entries = schedule_from_toml(text, jobs=parameters())
    triggers = Scheduler(lake, entries)._triggers
    assert [triggers[entry.job].jitter for entry in entries] == [300, None]
    for entry, found in zip(entries, upcoming(entries, now=NOW), strict=True):
        assert found.at[0] == first(entry.cron)


@pytest.mark.parametrize("script", sorted(JOBS.rglob("*.py")), ids=lambda path: path.name)
def test_scripts_are_short(script: Path) -> None:
    assert len(script.read_text().splitlines()) <= 40
