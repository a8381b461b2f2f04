"""Batch jobs over a lake: ``Job(lake, **options).run(now=None, dry_run=False, progress=False)``."""

from ailake.maintenance.decay import DecayReport, MemoryDecayJob

__all__ = ["DecayReport", "MemoryDecayJob"]
