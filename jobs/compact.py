"""Merge small fragments, and remove old versions: what a scheduler runs once a week.

python jobs/compact.py URI [--keep-versions DAYS] [--dry-run]
"""

import argparse
import json
import os
from datetime import timedelta

import ailake
from ailake.maintenance import CompactionJob, CompactionPolicy


def main() -> None:
    """Run the job, and print what it did as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri", nargs="?", default=os.environ.get("AILAKE_URI"))
    parser.add_argument("--keep-versions", type=float, default=7.0, help="days")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if not options.uri:
        parser.error("give the lake's URI, or set AILAKE_URI")
    policy = CompactionPolicy(keep_versions=timedelta(days=options.keep_versions))
    with ailake.connect(options.uri, create=False) as lake:
        report = CompactionJob(lake, policy=policy).run(dry_run=options.dry_run)
    fragments = {one.table: [one.fragments_before, one.fragments_after] for one in report.tables}
    versions = sum(one.versions_removed for one in report.tables)
    print(json.dumps({"job": "compact", "fragments": fragments, "versions_removed": versions}))


if __name__ == "__main__":
    main()
