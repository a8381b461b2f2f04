"""Batch jobs over a lake: ``Job(lake, **options).run(now=None, dry_run=False, progress=False)``."""

from ailake.maintenance.decay import DecayReport, MemoryDecayJob
from ailake.maintenance.indexing import IndexedTable, IndexJob, IndexReport

__all__ = ["DecayReport", "IndexJob", "IndexReport", "IndexedTable", "MemoryDecayJob"]
