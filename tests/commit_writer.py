"""Commits to a table again and again, and says after each one which version it made.

python commit_writer.py TABLE SEED: a line on standard input asks for the next few commits.
"""

import random
import sys
from datetime import timedelta
from time import sleep

import lance
import pyarrow as pa


def main() -> None:
    path, seed = sys.argv[1], int(sys.argv[2])
    draw = random.Random(seed)  # noqa: S311 (a repeatable order)
    dataset = lance.dataset(path)
    for _ in sys.stdin:
        for _ in range(draw.choice([1, 1, 2, 4])):
            dataset = lance.write_dataset(pa.table({"n": [1]}), path, mode="append")
            if draw.random() < 0.1:
                dataset.cleanup_old_versions(timedelta(0), delete_unverified=False)
        sleep(draw.choice([0.0, 0.0, 0.01, 0.03]))
        sys.stdout.write(f"{dataset.version}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
