"""Remove what has expired, weighs too little or is too much: what a scheduler runs once a day.

python jobs/forget.py URI [--min-weight WEIGHT] [--keep COUNT] [--policy default|seed] [--dry-run]

The weight is recall's, or with the policy seed recency x importance, as of the last access.
"""

import argparse
import dataclasses
import json
import os

import ailake
from ailake.maintenance import ForgetJob


def main() -> None:
    """Run the job, and print how many went and why as one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri", nargs="?", default=os.environ.get("AILAKE_URI"))
    parser.add_argument("--min-weight", type=float, help="remove what weighs less")
    parser.add_argument("--keep", type=int, help="of each scope so many at most")
    parser.add_argument("--policy", choices=("default", "seed"), default="default")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if not options.uri:
        parser.error("give the lake's URI, or set AILAKE_URI")
    bounds = {"min_weight": options.min_weight, "keep": options.keep}
    with ailake.connect(options.uri, create=False) as lake:
        seed = ailake.ScoringPolicy.SEED if options.policy == "seed" else None
        job = ForgetJob(lake, **bounds, scoring=seed)
        report = job.run(dry_run=options.dry_run)
    print(json.dumps({"job": "forget", **dataclasses.asdict(report.counts)}))


if __name__ == "__main__":
    main()
