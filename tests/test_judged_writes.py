"""What the judge decides is what is stored: merged, put in another's place, or kept for a while."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import pack
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ailake
from ailake import Decision, State
from ailake.core.decisions import verdict_id
from ailake.core.judge.rules import RULES_VERSION
from ailake.core.log import encode, replay
from ailake.core.remembering import NewMemory
from ailake.storage import draining
from ailake.storage import log as logs
from ailake.storage.table import Table

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SMALL, WHOLE = "Ana has a dog", "Ana has a small brown dog"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[ailake.Lake]:
    """A lake with the default rules, whose log nobody drains in the background."""
    with ailake.connect(tmp_path / "lake", embedder="hashing:64") as opened:
        opened.store.drainer.stop()
        yield opened


@pytest.fixture
def memory(lake: ailake.Lake, monkeypatch: pytest.MonkeyPatch) -> ailake.Memory:
    monkeypatch.setattr(draining, "VISIBLE_AFTER", float("inf"))
    return lake.memory("a")


def states(memory: ailake.Memory) -> dict[str, State]:
    everything = {"state": {"in": [state.value for state in State]}}
    return {one.id: one.state for one in memory.list(everything, limit=1_000, now=NOW)}


def test_the_fuller_text_stands_in_the_place_of_the_old(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    old = memory.remember(SMALL, importance=0.9, id="old", now=NOW, expires_at=NOW + 9 * DAY)
    lake.flush()
    memory.touch(["old"], now=NOW + DAY)
    version = lake.table("episodic").version
    new = memory.remember(WHOLE, importance=0.2, id="new", now=NOW + 2 * DAY)
    assert (new.decision, new.reason, new.existing_id) == ("modify", "fact_superset", old.id)
    assert lake.table("episodic").version == version + 1
    shown = memory.get("new", now=NOW)
    assert (shown.text, shown.importance_score, shown.access_count) == (WHOLE, 0.9, 1)
    assert (shown.created_at, shown.expires_at) == (NOW, None)
    assert shown.last_accessed_at == NOW + 2 * DAY
    memory.touch(["new"], now=NOW + 3 * DAY)
    assert memory.get("new", now=NOW).access_count == 2
    assert [one.id for one in memory.history("new")] == ["old", "new"]
    assert states(memory) == {"old": State.MERGED, "new": State.ACTIVE}
    again = memory.remember(WHOLE, id="new", now=NOW + 4 * DAY)
    assert (again, again.repeated) == (new, True)
    assert lake.ledger().verify() == ()


def test_what_is_contained_is_folded_into_the_old(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember(WHOLE, importance=0.2, id="old", now=NOW, expires_at=NOW + DAY)
    memory.touch(["old"], now=NOW)
    event = NOW + timedelta(hours=6)
    new = memory.remember(SMALL, importance=0.7, id="new", now=NOW + DAY / 2, event_time=event)
    assert (new.decision, new.reason, new.existing_id) == ("merge", "fact_subset", "old")
    shown = memory.get("old", now=NOW)
    assert (shown.importance_score, shown.access_count, shown.created_at) == (0.7, 1, NOW)
    assert (shown.event_time, shown.last_accessed_at, shown.expires_at) == (event, event, None)
    assert memory.get("new", now=NOW).merged_into == "old"
    assert [hit.id for hit in memory.recall("a dog", now=NOW + 2 * DAY)] == ["old"]
    assert lake.verify(now=NOW) == ()


def test_a_merge_is_undone_in_both_directions(memory: ailake.Memory) -> None:
    memory.remember(SMALL, id="old", now=NOW)
    memory.remember(WHOLE, id="new", now=NOW)
    memory.remember("There is a dog that Ana has. Ana has a dog", id="other", now=NOW)
    memory.restore("old", now=NOW + DAY)
    assert states(memory)["old"] is State.ACTIVE
    undone = memory.decisions({"decided_by": "restore"})
    assert [(one.memory_id, one.existing_id, one.about) for one in undone] == [
        ("old", "new", verdict_id("new"))
    ]
    memory.remember_many([{"text": "Bo has a red car"}, {"text": "Bo has a car", "id": "in"}])
    memory.restore("in")
    assert memory.decisions({"decided_by": "restore"})[0].about == verdict_id("in")


def test_what_is_not_worth_keeping_stays_for_a_week(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    thanks = memory.remember("Thanks a lot!", now=NOW)
    soon = memory.remember("Thank you!", now=NOW, expires_at=NOW + DAY)
    assert (thanks.decision, thanks.reason) == ("defer", "t0_low_value")
    expiries = [NOW + 7 * DAY, NOW + DAY]
    for _ in range(2):
        found = [memory.get(one.id, now=NOW) for one in (thanks, soon)]
        assert [one.expires_at for one in found] == expiries
        assert {one.state for one in found} == {State.DEFERRED}
        assert not memory.recall("thanks", now=NOW)
        lake.flush()
    assert [one.rules_version for one in memory.decisions()] == [RULES_VERSION, RULES_VERSION]


def test_what_was_recalled_is_not_remembered_again(memory: ailake.Memory) -> None:
    memory.remember("Ana is allergic to peanuts", now=NOW)
    prompt = memory.recall("What can't Ana eat?", now=NOW, touch=False).as_prompt()
    told = f"Here is what I know.\n{prompt}\nAnything else?"
    back = memory.add_messages([{"role": "assistant", "content": told}], now=NOW)
    logged = memory.remember("2026-01-31 12:00:00,123 ERROR worker failed: timeout", now=NOW)
    traced = memory.remember('Traceback (most recent call last):\n  File "a.py", line 3', now=NOW)
    asked = memory.remember("You are a helpful assistant. Answer briefly.", role="system", now=NOW)
    assert {one.decision for one in (*back, logged, traced, asked)} == {Decision.DEFER}
    assert memory.get(back[0].id, now=NOW).source == "recalled"
    assert memory.count(now=NOW) == 1


@pytest.mark.parametrize(
    "other", [{"speaker": "Bo"}, {"role": "assistant"}, {"source": "group_chat"}]
)
def test_nothing_is_merged_across_authors(memory: ailake.Memory, other: dict[str, Any]) -> None:
    memory.remember(WHOLE, now=NOW)
    made = memory.remember(SMALL, now=NOW, **other)
    assert (made.decision, memory.decisions({"memory_id": made.id})[0].candidates) == ("create", ())


def test_a_batch_sees_itself_in_order(lake: ailake.Lake, memory: ailake.Memory) -> None:
    texts = [SMALL, WHOLE, SMALL, "Ana has a dog.", "Bo lives in Oslo", WHOLE]
    items = [{"text": text, "id": str(place)} for place, text in enumerate(texts)]
    made = memory.remember_many(items, now=NOW)
    assert [(one.decision, one.existing_id) for one in made] == [
        ("create", ""), ("modify", "0"), ("merge", "1"), ("merge", "1"), ("create", ""),
        ("skip", "1"),
    ]  # fmt: skip
    assert [memory.get(str(place), now=NOW).merged_into for place in range(4)] == [
        "1",
        "",
        "1",
        "1",
    ]
    assert lake.verify(now=NOW) == ()
    decided = [one.decision for one in memory.decisions()]
    assert sorted(decided) == ["create", "create", "merge", "merge", "modify", "skip"]


def test_vectors_that_are_brought_are_judged_the_same(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    texts = [SMALL, WHOLE, "Thanks!", "Bo lives in Oslo", SMALL]
    vectors = lake.embedder.embed_documents(texts)
    items = [{"text": text, "vector": v} for text, v in zip(texts, vectors, strict=True)]
    brought = lake.memory("b").remember_many(items, now=NOW)
    made = memory.remember_many([{"text": text} for text in texts], now=NOW)
    assert [one.decision for one in brought] == [one.decision for one in made]
    assert [one.decision for one in made] == ["create", "modify", "defer", "create", "merge"]


def test_unjudged_is_only_stored(memory: ailake.Memory) -> None:
    made = [memory.remember(text, judge=False, now=NOW) for text in (SMALL, WHOLE, "Thanks!")]
    assert {(one.decision, one.reason) for one in made} == {("create", "unjudged")}
    assert memory.count(now=NOW) == 3
    assert memory.decisions() == []


def test_on_disk_the_same_is_decided(memory: ailake.Memory, on_disk: None) -> None:  # noqa: ARG001
    memory.remember_many([{"text": WHOLE, "id": "old"}, {"text": "Bo lives in Oslo"}], now=NOW)
    assert memory.remember(SMALL, now=NOW).existing_id == "old"


def test_own_rules(tmp_path: Path) -> None:
    rules = ailake.JudgeRules(retention=None, containment=lambda *_: "none", version="mine-1")
    with ailake.connect(tmp_path / "mine", embedder="hashing:64", judge_rules=rules) as lake:
        memory = lake.memory("a")
        made = [memory.remember(text, now=NOW) for text in ("Thanks!", SMALL, WHOLE)]
        assert {one.decision for one in made} == {Decision.CREATE}
        assert {one.rules_version for one in memory.decisions()} == {"mine-1"}
    with pytest.raises(ailake.InvalidInputError, match="judge_rules: got 'strict'"):
        ailake.connect(tmp_path / "mine", judge_rules="strict")  # type: ignore[arg-type]


def test_a_kill_before_the_drain_loses_no_verdict(
    lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path
) -> None:
    memory.remember("Bo lives in Oslo", id="m1", now=NOW)
    made = memory.remember("Bo lives in Oslo with his brother", id="m2", now=NOW)
    thanks = memory.remember("Thanks!", now=NOW)
    shutil.copytree(lake.uri, tmp_path / "killed")
    with ailake.connect(tmp_path / "killed", embedder="hashing:64") as opened:
        found = opened.memory("a").decisions()
        assert {one.memory_id for one in found} == {"m1", made.id, thanks.id}
        assert found == memory.decisions()


def test_a_drain_that_dies_before_the_rows_records_no_verdict_twice(
    lake: ailake.Lake, memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("Bo lives in Oslo", now=NOW)
    append = Table.append

    def failing(self: Table, *args: Any, **options: Any) -> int:
        if self.name == "episodic":
            raise OSError("no space left")
        return append(self, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "append", failing)
        with pytest.raises(OSError, match="no space"):
            lake.flush()
    assert lake.store.tables["decisions"].snapshot().count_rows() == 1
    lake.flush()
    assert lake.store.tables["decisions"].snapshot().count_rows() == 1
    assert memory.count(now=NOW) == 1


def test_a_direct_write_that_dies_before_the_rows_can_be_repeated(
    memory: ailake.Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [{"text": f"Bo has been to city {n}", "id": f"m{n}"} for n in range(40)]
    with monkeypatch.context() as patched:
        patched.setattr(Table, "sync", _fail_for_episodic(Table.sync))
        patched.setattr(Table, "append", _fail_for_episodic(Table.append))
        with pytest.raises(OSError, match="no space"):
            memory.remember_many(items, now=NOW)
    memory.remember_many(items, now=NOW)
    assert len(memory.decisions()) == 40


def _fail_for_episodic(method: Any) -> Any:
    def failing(self: Table, *args: Any, **options: Any) -> Any:
        if self.name == "episodic":
            raise OSError("no space left")
        return method(self, *args, **options)

    return failing


def test_skips_are_recorded_with_their_refresh(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("Bo lives in Oslo", id="m1", now=NOW)
    lake.flush()
    memory.remember("Bo lives in Oslo.", now=NOW)
    assert lake.store.tables["decisions"].snapshot().count_rows() == 1
    lake.flush()
    skipped = memory.decisions({"decision": "skip"})
    assert [(one.memory_id, one.existing_id) for one in skipped] == [("m1", "m1")]
    assert lake.table("accesses").count_rows() == 1


def test_a_log_of_an_older_release_is_drained(lake: ailake.Lake, memory: ailake.Memory) -> None:
    made = memory.remember("Bo lives in Oslo", now=NOW)
    (path,) = logs.segments(Path(lake.uri))
    (logged,) = replay(path.read_bytes()).memories
    assert logged.memory.verdict is not None
    assert replay(encode([logged])).memories[0].memory.verdict == logged.memory.verdict
    path.write_bytes(_of_version_1(logged.memory, path.read_bytes()))
    lake.flush()
    assert memory.get(made.id, now=NOW).text == "Bo lives in Oslo"
    assert memory.decisions() == []


def _of_version_1(memory: NewMemory, record: bytes) -> bytes:
    texts, _, vectors = record[8:].partition(b"\0")
    (document,) = json.loads(texts)
    del document["verdict"]
    assert document["id"] == memory.id
    payload = json.dumps([{**document, "v": 1}], separators=(",", ":")).encode() + b"\0" + vectors
    return pack("<II", len(payload), crc32(payload)) + payload


WORDS = st.lists(
    st.sampled_from([SMALL, WHOLE, "Bo lives in Oslo", "Bo lives in Oslo.", "Thanks!", "Bo sings"]),
    max_size=12,
)


@settings(max_examples=8)
@given(batches=st.lists(WORDS, max_size=3))
def test_no_two_live_memories_say_the_same(
    batches: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    with ailake.connect(folder / "lake", embedder="hashing:64") as lake:
        memory = lake.memory("a")
        made = [
            one
            for texts in batches
            for one in memory.remember_many([{"text": text} for text in texts], now=NOW)
        ]
        assert lake.verify(now=NOW) == ()
        assert len(memory.decisions({"decided_by": "rules"})) == len(made)
        kept = {memory.get(one.id, now=NOW).id for one in made}
        assert set(states(memory)) == kept
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_real_conversation(shared: Path, lake: ailake.Lake, memory: ailake.Memory) -> None:
    sample = json.loads((shared / "locomo" / "locomo.json").read_text(encoding="utf-8"))[0]
    turns = [
        {"text": turn["text"], "speaker": turn["speaker"]}
        for session in sample["conversation"].values()
        if isinstance(session, list)
        for turn in session
        if turn["text"].strip()
    ][:300]
    made = [one for n in range(0, 300, 60) for one in memory.remember_many(turns[n : n + 60])]
    assert lake.verify() == ()
    explained = {one.memory_id for one in memory.decisions(limit=1_000)}
    assert {one.id for one in made} == explained
    assert sum(one.decision is Decision.DEFER for one in made) < 0.05 * len(made)


@pytest.mark.parametrize("first", ["less", "more"])
def test_what_lives_on_keeps_kind_and_metadata_and_is_as_new_as_the_last(
    lake: ailake.Lake, memory: ailake.Memory, first: str
) -> None:
    """Whichever of the two came first, and when they come together."""
    said = {"less": "Bo has a car", "more": "Bo has a red car"}
    other = {"less": "more", "more": "less"}[first]
    told: dict[str, Any] = {"kind": "fact", "metadata": {"topic": "cars", "by": "first"}}
    memory.remember(said[first], now=NOW - 400 * DAY, **told)
    memory.remember(said[other], metadata={"by": "last"}, now=NOW)
    pair: list[dict[str, Any]] = [
        {"text": said[first].replace("Bo", "Cy"), **told},
        {"text": said[other]},
    ]
    pair[1]["text"] = said[other].replace("Bo", "Cy")
    memory.remember_many(pair, now=NOW)
    for _ in range(2):
        for name in ("Bo", "Cy"):
            (kept,) = memory.list({"kind": "fact", "chunk_text": {"contains": name}}, now=NOW)
            assert kept.text == said["more"].replace("Bo", name)
            assert kept.metadata["topic"] == "cars"
            # What was merged into it may go, as old as it is.
            assert kept.id not in memory.forget(older_than=300 * DAY, dry_run=True, now=NOW).ids
        lake.flush()


def test_what_was_deferred_can_be_kept(tmp_path: Path) -> None:
    with ailake.connect(tmp_path, embedder="hashing:16") as lake:
        memory = lake.memory("a")
        asked = memory.remember("Is Ana allergic to peanuts?", now=NOW)
        thanks = memory.remember("Thanks a lot!", now=NOW)
        assert (asked.decision, thanks.decision) == ("defer", "defer")
        memory.restore(asked.id, now=NOW)
        changed = memory.update(thanks.id, text="Ana moved to Oslo for good", now=NOW)
        late = NOW + 30 * DAY
        assert {one.id for one in memory.list(now=late)} == {asked.id, changed.id}
        assert memory.decisions({"decided_by": "restore"})[0].about
        with pytest.raises(ailake.InvalidInputError, match="wanted a merged or deferred one"):
            memory.restore(asked.id, now=NOW)


def test_a_lake_has_one_key_of_equal_texts(tmp_path: Path) -> None:
    rules = ailake.JudgeRules(dedupe_key=str.strip, version="mine")
    with pytest.raises(ailake.InvalidInputError, match=r"replace it for ailake\.judge alone"):
        ailake.connect(tmp_path / "lake", embedder="hashing:16", judge_rules=rules)
    assert not (tmp_path / "lake").exists()


def test_what_programs_say_in_a_chat_is_deferred(memory: ailake.Memory) -> None:
    call = {"function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    said: list[dict[str, Any]] = [
        {"role": "system", "content": "Ana is allergic to peanuts"},
        {"role": "user", "content": "I moved to Oslo"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "There is rain in Oslo"},
    ]
    made = memory.add_messages(said, now=NOW)
    assert [one.decision for one in made] == ["defer", "create", "defer", "defer"]
    noted = memory.remember("Bo is allergic to eggs", source="tool", now=NOW)
    assert noted.decision == "create"


def test_a_long_text_ends_and_leaves_the_log_free(memory: ailake.Memory) -> None:
    for text in ("嗯" * 60 + "我妈妈是老师", "bye " * 60 + "my mother is a teacher"):
        assert memory.remember(text, now=NOW).decision == "create"
    long = memory.remember(f"Ana's number is {'7' * 5_000}", now=NOW)
    assert long.decision == "create"
