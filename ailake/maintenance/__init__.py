"""Batch jobs over a lake: ``Job(lake, **options).run(now=None, dry_run=False, progress=False)``."""

from ailake.core.compaction import CompactionPolicy
from ailake.maintenance.compact import CompactedTable, CompactionJob, CompactionReport
from ailake.maintenance.decay import DecayReport, MemoryDecayJob
from ailake.maintenance.distributed import RayExecutor
from ailake.maintenance.forget import ForgetJob, PruneCounts, PruneReport, ScopePruned
from ailake.maintenance.indexing import IndexedTable, IndexJob, IndexReport
from ailake.maintenance.maintain import MaintainJob, MaintainReport
from ailake.maintenance.purge import PurgedTable, PurgeJob, PurgeReport
from ailake.maintenance.reembed import ReembedJob, ReembedReport
from ailake.maintenance.review import FailedPair, ReviewJob, ReviewReport
from ailake.maintenance.verify import FactVerifyJob, FactVerifyReport, FailedCase
from ailake.storage.executing import Executor

__all__ = [
    "CompactedTable",
    "CompactionJob",
    "CompactionPolicy",
    "CompactionReport",
    "DecayReport",
    "Executor",
    "FactVerifyJob",
    "FactVerifyReport",
    "FailedCase",
    "FailedPair",
    "ForgetJob",
    "IndexJob",
    "IndexReport",
    "IndexedTable",
    "MaintainJob",
    "MaintainReport",
    "MemoryDecayJob",
    "PruneCounts",
    "PruneReport",
    "PurgeJob",
    "PurgeReport",
    "PurgedTable",
    "RayExecutor",
    "ReembedJob",
    "ReembedReport",
    "ReviewJob",
    "ReviewReport",
    "ScopePruned",
]
