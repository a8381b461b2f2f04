"""What is said under the id of a forgotten memory stays, whenever the ledger tells of its end."""

from collections.abc import Callable

import pytest
from asserted import HOUR, NOW, works

import ailake

ANA = ailake.Scope("ana-bot")
LATER = NOW + HOUR


def remembered(lake: ailake.Lake) -> None:
    lake.memory(agent_id="ana-bot").remember(
        "Ben leads Atlas", id="m1", entities=["Atlas"], judge=False, now=LATER
    )


def judged(lake: ailake.Lake) -> None:
    lake.memory(agent_id="ana-bot").remember("Ben leads Atlas", id="m1", now=LATER)


def indexed(lake: ailake.Lake) -> None:
    lake.graph().index(ANA, "m1", ["Atlas"], now=LATER)


def extracted(lake: ailake.Lake) -> None:
    lake.memory(agent_id="ana-bot").remember("Atlas", id="m1", judge=False, now=LATER)
    rules = ailake.RulesExtractor({"Atlas": "concept"})
    lake.graph().extract(ANA, ["m1"], extractor=rules, now=LATER)


def asserted(lake: ailake.Lake) -> None:
    lake.memory(agent_id="ana-bot").remember("Ana is at B", id="m1", judge=False, now=LATER)
    lake.facts(agent_id="ana-bot").assert_([works("B", 2011)], source_memory_id="m1", now=LATER)


def said(lake: ailake.Lake) -> dict[str, int]:
    """Return how many rows each table has that name the id."""
    columns = {
        "mentions": "fact_id", "facts": "source_memory_id", "assertions": "source_memory_id",
        "decisions": "memory_id",
    }  # fmt: skip
    found = {
        name: lake.scan(name).collect()[column].to_list().count("m1")
        for name, column in columns.items()
    }
    return {name: count for name, count in found.items() if count}


@pytest.mark.parametrize(
    ("say", "wanted"),
    [
        (remembered, {"mentions": 1}),
        (judged, {"decisions": 1}),
        (indexed, {"mentions": 1}),
        (extracted, {"mentions": 1}),
        (asserted, {"facts": 1, "assertions": 1}),
    ],
)
def test_what_is_said_under_an_id_again_is_no_leftover_of_what_was_forgotten(
    lake: ailake.Lake, say: Callable[[ailake.Lake], None], wanted: dict[str, int]
) -> None:
    lake.store.drainer.stop()
    memory = lake.memory(agent_id="ana-bot")
    memory.remember("Ana is at A", id="m1", entities=["Old"], now=NOW)
    lake.flush()
    lake.facts(agent_id="ana-bot").assert_([works("A", 2010)], source_memory_id="m1", now=NOW)
    memory.forget("m1", now=NOW)
    say(lake)
    lake.flush()
    assert said(lake) == wanted
    assert lake.graph().neighbors(ANA, ["Old"]) == []
    assert lake.verify() == ()
    assert lake.ledger().verify() == ()
