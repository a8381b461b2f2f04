"""What judging costs a bulk write of real conversations, and what becomes of their turns.

    python benchmarks/judged_writes.py --data ../shared/data [--turns 10000] [--batch 1000]
                                       [--embedder local] [--repeats 3]

The turns of LoCoMo, then those of LongMemEval, each with its speaker or role, go into new lakes in
batches, with and without the judge in turn, a new process's first compiling of the rules aside.
cost: seconds of processor time per turn, and what judging adds, in shares of the unjudged.
decisions: how many turns were decided how, by decision and reason.
invariants: what `lake.verify()` finds, verdicts that are missing, and turns without one.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from timing import AGENT, NOW, report

import ailake
from ailake.embed.resolve import resolve_embedder

Turn = dict[str, Any]


def turns_of(folder: Path) -> Iterator[Turn]:
    """Yield the turns of both corpora, in their order."""
    for sample in json.loads((folder / "locomo" / "locomo.json").read_text("utf-8")):
        for session in sample["conversation"].values():
            for turn in session if isinstance(session, list) else ():
                yield {"text": turn["text"], "speaker": turn["speaker"]}
    for question in json.loads((folder / "longmemeval" / "oracle.json").read_text("utf-8")):
        for session in question["haystack_sessions"]:
            for turn in session:
                yield {"text": turn["content"], "role": turn["role"]}


def written(
    turns: list[Turn], options: argparse.Namespace, *, judge: bool
) -> tuple[float, Counter[str]]:
    """Write all turns into a new lake; return seconds per turn and what was decided."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ailake.connect(folder, embedder=options.embedder) as lake,
    ):
        memory = lake.memory(AGENT)
        lake.embedder.embed_documents(["loaded before the clock runs"])
        made: list[ailake.Remembered] = []
        started = process_time()
        for start in range(0, len(turns), options.batch):
            made += memory.remember_many(turns[start : start + options.batch], judge=judge, now=NOW)
        seconds = (process_time() - started) / len(turns)
        if judge:
            check(lake, made)
    return seconds, Counter(f"{one.decision}: {one.reason}" for one in made)


def check(lake: ailake.Lake, made: list[ailake.Remembered]) -> None:
    decided = lake.scan("decisions").collect()
    explained = set(decided["memory_id"].to_list())
    report(
        figure="invariants",
        broken=[problem.what for problem in lake.verify(now=NOW)],
        verdicts=len(decided),
        written=len(made),
        unexplained=sum(one.id not in explained for one in made),
        twice=len(decided) - decided["decision_id"].n_unique(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--embedder", default="local")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    # Longer texts are cut into passages, which costs the same with and without the judge.
    real = (turn for turn in turns_of(options.data) if 0 < len(turn["text"].strip()) <= 700)
    turns = list(islice(real, options.turns))
    resolve_embedder(options.embedder)
    written(turns[:50], options, judge=True)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    decided: Counter[str] = Counter()
    for _ in range(options.repeats):
        for judge, kept in seconds.items():
            cost, counts = written(turns, options, judge=judge)
            kept.append(cost)
            decided = counts if judge else decided
    plain, judged = median(seconds[False]), median(seconds[True])
    report(
        figure="cost",
        turns=len(turns),
        embedder=options.embedder,
        unjudged_us=round(plain * 1e6),
        judged_us=round(judged * 1e6),
        added=round(judged / plain - 1, 3),
    )
    for name, count in sorted(decided.items()):
        report(figure="decisions", decided=name, count=count, share=round(count / len(turns), 4))


if __name__ == "__main__":
    main()
