"""Facts that contradict each other and wait for a verifier, for the tests that decide them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import ailake
from ailake import FactTriple
from ailake.core.usage import Usage
from ailake.core.verifying import FactAnswer, FactCase, FactVerdict
from ailake.maintenance import FactVerifyJob, FactVerifyReport

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=1)


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


def works(where: str, since: int, until: int | None = None) -> FactTriple:
    end = None if until is None else year(until)
    source = f"m-{where}" if where in {"Acme", "Beta"} else ""
    return FactTriple("Ana", "works_at", where, year(since), end, source_memory_id=source)


@dataclass
class Rule:
    """A verifier that answers by a rule, and notes what it was shown."""

    answer: Callable[[FactCase], str]
    id: str = "rule"
    seen: list[tuple[object, object]] = field(default_factory=list)

    def verify(self, case: FactCase) -> FactAnswer:
        self.seen.append((case.new.object, case.known.object))
        verdict = FactVerdict(self.answer(case))
        return FactAnswer(verdict, "as the rule says", model="m", usage=Usage(3, 2))


def always(verdict: str) -> Rule:
    return Rule(lambda _: verdict)


def queued(lake: ailake.Lake) -> ailake.Facts:
    """Return facts that wait for a verifier, and store the memories that some are taken from."""
    memory = lake.memory("ana-bot")
    for name in ("Acme", "Beta"):
        memory.remember(f"Ana works at {name}", id=f"m-{name}", now=NOW)
    return lake.facts("ana-bot", verifier="queued")


def believed(facts: ailake.Facts) -> list[tuple[object, int, int | None]]:
    rows = lake_rows(facts)
    return [(v["object"], v["valid_from"].year, v["valid_to"] and v["valid_to"].year) for v in rows]


def lake_rows(facts: ailake.Facts) -> list[dict[str, Any]]:
    rows = facts.store.tables["facts"].handle.to_arrow().to_pylist()
    live = [row for row in rows if row["retired_at"] is None]
    return sorted(live, key=lambda row: (row["object"], row["valid_from"]))


def decided(lake: ailake.Lake, *verdicts: str) -> list[dict[str, Any]]:
    rows = lake.table("verifications").to_arrow().to_pylist()
    return [row for row in rows if not verdicts or row["verdict"] in verdicts]


def run(lake: ailake.Lake, rule: Rule | None, **options: Any) -> FactVerifyReport:
    report = FactVerifyJob(lake, verifier=rule, **options).run(LATER)
    assert lake.verify(now=LATER) == ()
    return report
