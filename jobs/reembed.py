"""Make all vectors of a lake anew with another embedder: what a change of models starts.

python jobs/reembed.py URI --embedder NAME [--batch-size TEXTS] [--dry-run]

Run it again after a kill: what is embedded already is not embedded again.
"""

import argparse
import json
import os

import ailake
from ailake.maintenance import ReembedJob


def main() -> None:
    """Run the job, and print what it did as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri", nargs="?", default=os.environ.get("AILAKE_URI"))
    parser.add_argument("--embedder", required=True, help="as for ailake.connect")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if not options.uri:
        parser.error("give the lake's URI, or set AILAKE_URI")
    with ailake.connect(options.uri, create=False) as lake:
        job = ReembedJob(lake, embedder=options.embedder, batch_size=options.batch_size)
        report = job.run(dry_run=options.dry_run)
    done = {"rows": report.rows, "embedded": report.embedded, "embedder": report.embedder_after}
    print(json.dumps({"job": "reembed", **done}))


if __name__ == "__main__":
    main()
