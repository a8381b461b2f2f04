"""The pre-insert judge on labelled pairs: what it takes for the same memory, and how fast.

Reads ``pairs.tsv`` (source, language, label, two texts) in the folder ``--data``. The first text is
remembered, the second is the new one; the retention gate is off, as every text is to be compared.
The rules were written with an eye on half of the pairs, by a hash of both texts: ``tuned`` and
``held out`` are the halves. Against it stands the cosine of the embedder at several thresholds.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

import ailake
from ailake.embed.resolve import resolve_embedder

RULES = ailake.JudgeRules(retention=None)
SAME = ("skip", "merge", "modify")
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
REPEATS = 20

# Other labels say less: a "different" pair of msr often adds one detail, which is a modify, and
# the question sets label intents.
SETS = {
    "statements": {
        "sick": {"entailment": True, "neutral": False, "contradiction": False},
        "pawsx": {"equivalent": True, "different": False},
        "cdconv": {"contradiction": False},
    },
    "news (msr)": {"msr": {"equivalent": True, "different": False}},
    "questions": {
        name: {"equivalent": True, "different": False} for name in ("lcqmc", "bq", "atec")
    },
}
HALVES = ("both", "tuned", "held out")


@dataclass(frozen=True)
class Pair:
    source: str
    label: str
    existing: str
    new: str

    @property
    def half(self) -> str:
        digest = blake2b(f"{self.existing}\t{self.new}".encode(), digest_size=8).digest()
        return "held out" if digest[0] % 2 else "tuned"


def read(folder: Path) -> list[Pair]:
    lines = (folder / "pairs.tsv").read_text("utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return [Pair(source, label, one, other) for source, _, label, one, other in rows]


def judged(pair: Pair) -> ailake.Verdict:
    scope = ailake.Scope("benchmark")
    old = ailake.Candidate(ailake.MemoryItem("old", pair.existing, scope), 0.5, "embedding")
    return ailake.judge(ailake.MemoryItem("new", pair.new, scope), [old], RULES)


def grounds(verdict: ailake.Verdict) -> str:
    return verdict.reason if verdict.decision == "create" else verdict.decision


def confusion(pairs: Sequence[Pair], verdicts: Sequence[ailake.Verdict]) -> None:
    """Print what was decided for each set and label."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for pair, verdict in zip(pairs, verdicts, strict=True):
        counts.setdefault((pair.source, pair.label), Counter())[grounds(verdict)] += 1
    for (source, label), decided in sorted(counts.items()):
        same = sum(decided[name] for name in SAME)
        share = round(same / decided.total(), 4)
        print_line("decisions", source=source, label=label, same=same, share=share, **decided)


def scores(
    pairs: Sequence[Pair], same: NDArray[np.bool_], *, name: str, half: str
) -> dict[str, object]:
    """Return recall, precision and wrong merges of one group of sets."""
    wanted, taken = [], []
    for pair, answer in zip(pairs, same, strict=True):
        expected = SETS[name].get(pair.source, {}).get(pair.label)
        if expected is not None and half in {"both", pair.half}:
            wanted.append(expected)
            taken.append(bool(answer))
    right = sum(w and t for w, t in zip(wanted, taken, strict=True))
    wrong = sum(taken) - right
    return {
        "same": sum(wanted),
        "other": len(wanted) - sum(wanted),
        "found": right,
        "recall": round(right / max(sum(wanted), 1), 4),
        "precision": round(right / max(sum(taken), 1), 4),
        "wrong": wrong,
        "wrong_share": round(wrong / max(len(wanted) - sum(wanted), 1), 5),
    }


def contradictions(pairs: Sequence[Pair], same: NDArray[np.bool_]) -> dict[str, int]:
    labelled = np.array([pair.label == "contradiction" for pair in pairs])
    return {"contradictions": int(labelled.sum()), "merged": int((labelled & same).sum())}


def cosines(pairs: Sequence[Pair], embedder: str) -> NDArray[np.float32]:
    model = resolve_embedder(embedder)
    one, other = (
        model.embed_documents([getattr(pair, side) for pair in pairs])
        for side in ("existing", "new")
    )
    similar: NDArray[np.float32] = (one * other).sum(axis=1)
    return similar


def throughput(pairs: Sequence[Pair]) -> Iterator[dict[str, object]]:
    """Yield pairs a second of this process on one core, texts met for the first time and again."""
    sample = pairs[:: max(len(pairs) // 1_000, 1)]
    fresh = [Pair(p.source, p.label, f"{p.existing} ", f"{p.new} ") for p in sample]
    yield _speed("features made", fresh, 1)
    yield _speed("features kept", fresh, REPEATS)
    scope = ailake.Scope("benchmark")
    items = [ailake.MemoryItem(f"c{i}", pair.existing, scope) for i, pair in enumerate(fresh)]
    recalled = [ailake.Candidate(item, 0.5, "embedding") for item in items]
    new = [ailake.MemoryItem("new", pair.new, scope) for pair in fresh[:100]]
    started = process_time()
    for place, item in enumerate(new):
        ailake.judge(item, recalled[place * 10 : place * 10 + 100] or recalled[:100], RULES)
    seen = sum(len(recalled[place * 10 : place * 10 + 100]) for place in range(len(new)))
    yield {"what": "100 candidates each", "pairs_per_s": round(seen / (process_time() - started))}


def _speed(what: str, pairs: Sequence[Pair], repeats: int) -> dict[str, object]:
    started = process_time()
    for _ in range(repeats):
        for pair in pairs:
            judged(pair)
    return {"what": what, "pairs_per_s": round(repeats * len(pairs) / (process_time() - started))}


def print_line(figure: str, **line: object) -> None:
    print(json.dumps({"figure": figure, **line}, ensure_ascii=False), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with pairs.tsv")
    parser.add_argument("--embedder", default="local")
    options = parser.parse_args()
    pairs = read(options.data)
    verdicts = [judged(pair) for pair in pairs]
    same = np.array([verdict.decision in SAME for verdict in verdicts])
    confusion(pairs, verdicts)
    for name in SETS:
        for half in HALVES:
            print_line("judge", sets=name, half=half, **scores(pairs, same, name=name, half=half))
    print_line("contradictions", by="judge", **contradictions(pairs, same))
    for line in throughput(pairs):
        print_line("throughput", **line)
    similar = cosines(pairs, options.embedder)
    for threshold in THRESHOLDS:
        above = similar >= threshold
        for name in SETS:
            line = scores(pairs, above, name=name, half="both")
            print_line("cosine", threshold=threshold, sets=name, **line)
        print_line("contradictions", by=f"cosine {threshold}", **contradictions(pairs, above))


if __name__ == "__main__":
    main()
