"""Bring the recency weights of a lake up to date: what a scheduler runs once a day.

python jobs/decay.py URI [--half-life DAYS] [--dry-run]
"""

import argparse
import json
import os

import ailake
from ailake.maintenance import MemoryDecayJob


def main() -> None:
    """Run the job, and print its report as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri", nargs="?", default=os.environ.get("AILAKE_URI"))
    parser.add_argument("--half-life", type=float, help="days; default: the weekly curve")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if not options.uri:
        parser.error("give the lake's URI, or set AILAKE_URI")
    recency = ailake.RecencyConfig.WEEKLY_DECAY
    if options.half_life is not None:
        recency = ailake.RecencyConfig.from_half_life(options.half_life)
    with ailake.connect(options.uri, create=False) as lake:
        report = MemoryDecayJob(lake, recency=recency).run(dry_run=options.dry_run)
    print(json.dumps({"job": "decay", "rows": report.rows, "version": report.version_after}))


if __name__ == "__main__":
    main()
