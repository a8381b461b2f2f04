"""Erase a scope or memories from every file of a lake, without asking: what a request starts.

python jobs/purge.py URI [--agent AGENT [--user USER] [--project PROJECT]] [--id ID]... [--dry-run]
"""

import argparse
import json
import os

import ailake
from ailake.maintenance import PurgeJob


def main() -> None:
    """Run the job, and print how many rows went as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri", nargs="?", default=os.environ.get("AILAKE_URI"))
    parser.add_argument("--agent", help="with --user and --project: the scope")
    parser.add_argument("--user", default="")
    parser.add_argument("--project", default="")
    parser.add_argument("--id", action="append", help="a memory; of that scope, where one is given")
    parser.add_argument("--confirm-tag", action="append", default=[], help="may be deleted")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if not options.uri:
        parser.error("give the lake's URI, or set AILAKE_URI")
    scope = options.agent and ailake.Scope(options.agent, options.user, options.project)
    with ailake.connect(options.uri, create=False) as lake:
        job = PurgeJob(lake, scope=scope, ids=options.id, confirm_tags=options.confirm_tag)
        report = job.run(dry_run=options.dry_run)
    rows = {table.table: table.rows for table in report.tables}
    print(json.dumps({"job": "purge", "rows": rows, "tags": report.tags}))


if __name__ == "__main__":
    main()
