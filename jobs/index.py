"""Build the indexes of vectors that large scopes need: what a scheduler runs once a week.

python jobs/index.py URI [--rebuild] [--dry-run]
"""

import argparse
import json
import os

import ailake
from ailake.maintenance import IndexJob


def main() -> None:
    """Run the job, and print what it did as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri", nargs="?", default=os.environ.get("AILAKE_URI"))
    parser.add_argument("--rebuild", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if not options.uri:
        parser.error("give the lake's URI, or set AILAKE_URI")
    with ailake.connect(options.uri, create=False) as lake:
        report = IndexJob(lake, rebuild=options.rebuild).run(dry_run=options.dry_run)
    done = {table.table: table.action for table in report.tables}
    print(json.dumps({"job": "index", "tables": done}))


if __name__ == "__main__":
    main()
