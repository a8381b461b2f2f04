"""Decay, prune what has expired, compact and index: what a scheduler runs every night.

python jobs/maintain.py URI [--half-life DAYS] [--dry-run]
"""

import argparse
import json
import os

import ailake
from ailake.maintenance import MaintainJob


def main() -> None:
    """Run the pass, and print what it did as one JSON line."""
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
        report = MaintainJob(lake, recency=recency).run(dry_run=options.dry_run)
    done = {"rows": report.decay.rows, "removed": report.prune.counts.total}
    fragments = {one.table: one.fragments_after for one in report.compaction.tables}
    print(json.dumps({"job": "maintain", **done, "fragments": fragments}))


if __name__ == "__main__":
    main()
