"""PurgeJob: nothing of what was purged is left in any file, and nothing else is gone."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kept import KEEP
from lancedb.index import IvfSq
from leftovers import files, holding, indexed_rows, spelled

import ailake
from ailake import ConflictError, InvalidInputError, Scope
from ailake.core.schema import TABLES, arrow_schema
from ailake.core.specs import Erasure
from ailake.maintenance import IndexJob, MemoryDecayJob, PurgeJob
from ailake.storage.holding import Source, held_versions

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)

# Of high entropy, and words that no stemmer shortens.
WORDS = {
    name: f"q{sha256(name.encode()).hexdigest()[:24]}7"
    for name in (
        "agent",
        "id",
        "text",
        "metadata",
        "voice",
        "session",
        "fact",
        "parted",
        "old",
        "literal",
    )
}
GONE = Scope(WORDS["agent"], "u")
STAYS = Scope("other", "u")
# By these the ledger's entries go on to name what they are about.
KEPT_BY_THE_LEDGER = {"agent", "id"}
# What is kept of a purged memory is ids and hashes.
KEPT_TABLES = {"ledger", "job_runs"}


def long_text(word: str) -> str:
    return " ".join(f"Sentence number {n} is about {word}." for n in range(40))


def fill(lake: ailake.Lake) -> None:
    """Leave traces of one scope wherever a lake can have some, beside another scope's."""
    gone, stays = (lake.memory(**asdict(scope)) for scope in (GONE, STAYS))
    gone.remember_many(
        [{"text": f"{WORDS['text']} {n}", "id": f"{WORDS['id']}{n}"} for n in range(3)],
        judge=False, now=NOW,
    )  # fmt: skip
    gone.remember_many(
        [{"text": long_text(WORDS["parted"]), "metadata": {"m": WORDS["metadata"]},
          "speaker": WORDS["voice"], "session_id": WORDS["session"]}], now=NOW,
    )  # fmt: skip
    stays.remember_many([{"text": f"tea {n}", "id": f"s{n}"} for n in range(300)], now=NOW)
    stays.remember_many([{"text": long_text("coffee"), "id": "long"}], now=NOW)
    gone.remember(f"before {WORDS['old']}", id="changed", now=NOW)
    gone.update("changed", text="after", now=NOW)
    for memory, word in ((gone, WORDS["fact"]), (stays, "Oslo")):
        facts = lake.facts(**asdict(memory.scope))
        source = next(one.id for one in memory.list(now=NOW))
        for place in (word, f"not {word}"):
            fact = ailake.FactTriple("Ana", "lives_in", place, NOW - DAY)
            facts.assert_([fact], source_memory_id=source, now=NOW)
        memory.recall("tea", limit=3, now=NOW)
    lake.flush()
    lake.table("episodic").create_index("embedding", config=IvfSq(num_partitions=2))
    for name in ("episodic", "passages"):
        lake.table(name).to_lance().optimize.optimize_indices()
    MemoryDecayJob(lake).run(NOW + DAY)
    lake.table("episodic").delete(f"chunk_text = '{WORDS['literal']}'")


def state(lake: ailake.Lake, scope: Scope) -> dict[str, Any]:
    """Return all rows of a scope, and what is found of them."""
    memory = lake.read([scope])
    rows = {
        name: lake.scan(name)
        .collect()
        .filter(**{one: getattr(scope, one) for one in spec.scope})
        .to_dicts()
        for name, spec in TABLES.items()
        if name not in {"ledger", "job_runs"}
    }
    found = {
        mode: [hit.id for hit in memory.recall("coffee tea 7", mode=mode, now=NOW)]
        for mode in ("text", "hybrid")
    }
    # Words weigh by how rare they are in the whole table, distances by nothing but themselves.
    near = [(hit.id, hit.score) for hit in memory.recall("tea", mode="vector", now=NOW)]
    return {"rows": rows, "found": found, "near": near}


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[ailake.Lake]:
    with ailake.connect(tmp_path / "lake", embedder="hashing:16") as lake:
        fill(lake)
        yield lake


@pytest.fixture
def needles(tmp_path: Path) -> dict[str, bytes]:
    spelt = {"indexed": spelled(WORDS["text"], tmp_path)}
    return {name: word.encode() for name, word in WORDS.items()} | spelt


@pytest.mark.slow
def test_nothing_is_left_of_a_scope(
    filled: ailake.Lake, needles: dict[str, bytes], tmp_path: Path
) -> None:
    root = filled.store.location.root
    assert root is not None
    table = root / "episodic.lance"
    (data,) = list((table / "data").glob("*.lance"))[:1]
    (table / "data" / "stray.lance").write_bytes(data.read_bytes())
    for place in ("_transactions/1-x.txn", "_versions/.tmp", "data/cut.lance#1"):
        (table / place).write_bytes(needles["text"])
    (root / "_ailake" / "log").mkdir(exist_ok=True)
    (root / "_ailake" / "log" / "x.damaged").write_bytes(needles["text"])
    filled.tag("held")
    before = holding(filled, needles, tmp_path)
    assert all(before.values()), before
    rows = filled.table("episodic").to_lance().to_table(["agent_id"], with_row_id=True)
    ours = {row["_rowid"] for row in rows.to_pylist() if row["agent_id"] == GONE.agent_id}
    assert ours <= indexed_rows(filled, "episodic", tmp_path)
    other = state(filled, STAYS)
    with pytest.raises(InvalidInputError, match="the tags 'held' hold some of it"):
        PurgeJob(filled, scope=GONE).run(NOW)
    planned = PurgeJob(filled, scope=GONE).run(NOW, dry_run=True)
    assert holding(filled, needles, tmp_path) == before
    report = PurgeJob(filled, scope=GONE, confirm_tags=["held"]).run(NOW)
    after = holding(filled, needles, tmp_path)
    for name, paths in after.items():
        kept = name in KEPT_BY_THE_LEDGER
        assert all(kept and path.startswith("ledger.lance/") for path in paths), (name, paths)
    assert ours.isdisjoint(indexed_rows(filled, "episodic", tmp_path))
    assert state(filled, STAYS) == other
    assert [one.rows for one in report.tables] == [one.rows for one in planned.tables]
    assert {one.table for one in report.tables if one.rows} == {
        "episodic", "passages", "accesses", "facts", "verifications", "assertions", "decisions",
    }  # fmt: skip
    assert report.tags == planned.tags == ("held",)
    assert report.damaged == ("x.damaged",)
    assert filled.tags() == []
    assert filled.verify(now=NOW) == ()
    assert filled.ledger().verify() == ()
    assert [str(one.event) for one in filled.ledger().entries(GONE)][-1] == "purge"
    assert GONE not in filled.scopes()
    names = {index.name for index in filled.stats().tables[-1].indexes}
    assert {"embedding_idx", "chunk_text_idx", "state_idx"} <= names


def cell(kind: pa.DataType, word: str) -> Any:
    """Return some value of a column's type, the word where it is a text."""
    if pa.types.is_string(kind):
        return word
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else 1
        return [cell(kind.value_type, word)] * size
    if pa.types.is_timestamp(kind):
        return NOW
    return b"0" * kind.byte_width if pa.types.is_binary(kind) else 0


# What rows say is read where the facts that a memory spoke of go back to what others said.
MEANT = {
    "kind": "assert", "origin": "asserted", "verdict": "supersede", "verifier": "latest_assertion",
    "subject_type": "", "object_type": "", "valid_to": None, "retired_at": None,
}  # fmt: skip


@pytest.mark.parametrize("by_ids", [False, True])
def test_every_table_of_the_registry_is_purged(
    lake: ailake.Lake, tmp_path: Path, *, by_ids: bool
) -> None:
    word, scope = WORDS["text"], Scope(WORDS["agent"])
    tables = {name: spec for name, spec in TABLES.items() if spec.purge is Erasure.DELETE}
    for name, spec in tables.items():
        schema = arrow_schema(name, dim=64, embedder_id=lake.embedder_id)
        row = {field.name: cell(field.type, word) for field in schema} | asdict(scope)
        row |= {column: one for column, one in MEANT.items() if column in row}
        row[spec.memory_column] = WORDS["id"]
        lake.store.tables[name].append(pa.Table.from_pylist([row], schema=schema))
    words = {name: WORDS[name].encode() for name in ("text", "id")}

    def held() -> set[str]:
        paths = set().union(*holding(lake, words, tmp_path).values())
        return {path.partition(".")[0] for path in paths} - KEPT_TABLES

    assert held() == set(tables)
    named = {"ids": [WORDS["id"]]} if by_ids else {"scope": scope}
    report = PurgeJob(lake, **named).run(NOW)
    assert {one.table: one.rows for one in report.tables} == dict.fromkeys(tables, 1)
    assert held() == set()
    kept = {name for name, spec in TABLES.items() if spec.purge is Erasure.KEEP}
    assert kept == KEPT_TABLES, "show that it holds no text, and name it there"


def test_a_memory_goes_with_what_was_merged_into_it(
    lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path
) -> None:
    first = memory.remember(WORDS["old"], now=NOW).id
    second = memory.update(first, text=WORDS["text"], now=NOW).id
    third = memory.update(second, text=long_text(WORDS["parted"]), now=NOW).id
    memory.remember_many([{"text": "tea", "id": "tea"}, {"text": "rum", "id": "rum"}], now=NOW)
    memory.recall(WORDS["parted"], now=NOW)
    needles = {name: WORDS[name].encode() for name in ("old", "text", "parted")}
    assert all(holding(lake, needles, tmp_path).values())
    planned = PurgeJob(lake, ids=third).run(NOW, dry_run=True)
    report = PurgeJob(lake, ids=third).run(NOW)
    assert report.ids == planned.ids == tuple(sorted([first, second, third]))
    assert not any(holding(lake, needles, tmp_path).values())
    assert [one.id for one in memory.list(now=NOW)] == ["tea", "rum"]
    assert [hit.id for hit in memory.recall("tea", limit=1, now=NOW)] == ["tea"]
    entries = lake.ledger().entries(memory.scope)
    assert {one.subject_id for one in entries if one.event == "purge"} == set(report.ids)
    assert [*lake.verify(now=NOW), *lake.ledger().verify()] == []


def test_an_id_that_lost_a_race_takes_its_survivor_along(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    memory.remember_many([{"text": "tea", "id": "won"}, {"text": "rum", "id": "rum"}], now=NOW)
    memory.remember_many([{"text": "tea", "id": "lost"}], judge=False, now=NOW)
    lost = lake.table("episodic").to_lance().to_table(filter="chunk_id = 'lost'")
    changed = {"state": "merged", "merged_into": "won", "reason": "exact_duplicate"}
    rows = [row | changed for row in lost.to_pylist()]
    lake.store.change(pa.Table.from_pylist(rows, schema=lost.schema))
    assert PurgeJob(lake, ids=["lost"]).run(NOW).ids == ("lost", "won")
    assert [one.id for one in memory.list(now=NOW)] == ["rum"]


def test_what_was_forgotten_earlier_is_erased(
    lake: ailake.Lake, memory: ailake.Memory, tmp_path: Path
) -> None:
    gone = memory.remember(WORDS["text"], now=NOW).id
    memory.remember("tea", now=NOW)
    lake.tag("held")
    memory.forget(gone, now=NOW)
    needle = {"text": WORDS["text"].encode()}
    assert holding(lake, needle, tmp_path)["text"]
    report = PurgeJob(lake, ids=[gone], confirm_tags="held").run(NOW)
    assert (report.rows, report.tags) == (0, ("held",))
    assert not holding(lake, needle, tmp_path)["text"]


def test_only_tags_that_may_hold_some_of_it_are_named(
    lake: ailake.Lake, memory: ailake.Memory
) -> None:
    memory.remember("tea", now=NOW)
    lake.tag("before")
    other = lake.memory("gone")
    other.remember("rum", now=NOW)
    lake.tag("with")
    other.forget(where={"chunk_text": "rum"}, now=NOW)
    lake.tag("after")
    job = PurgeJob(lake, scope=other.scope, confirm_tags=["with"])
    with pytest.raises(InvalidInputError, match="the tags 'after' hold some"):
        job.run(NOW)
    assert lake.tags() == ["after", "before", "with"]
    report = PurgeJob(lake, scope=other.scope, confirm_tags=True).run(NOW)
    assert report.tags == ("after", "with")
    assert lake.tags() == ["before"]
    assert lake.at("before").memory(agent_id="ana-bot", user_id="ana").count(now=NOW) == 1
    # What was made since holds nothing of it, and is in nobody's way.
    lake.tag("since")
    assert PurgeJob(lake, scope=other.scope).run(NOW).tags == ()


def test_a_tag_that_holds_facts_alone_is_named(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", now=NOW)
    lake.tag("before")
    facts = lake.facts("gone")
    facts.assert_([ailake.FactTriple("Bo", "likes", "rum", NOW)], now=NOW)
    lake.tag("with")
    job = PurgeJob(lake, scope=Scope("gone"), confirm_tags=True)
    assert job.run(NOW, dry_run=True).tags == ("with",)
    # The version, and that it was said.
    assert job.run(NOW).rows == 2
    assert lake.tags() == ["before"]
    assert facts.find() == []


def test_indexes_keep_their_parameters(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember_many([{"text": f"tea {n}", "id": str(n)} for n in range(300)], now=NOW)
    dataset = lake.table("episodic").to_lance()
    for column, kind in (("chunk_id", "BTREE"), ("kind", "NGRAM"), ("role", "BLOOMFILTER")):
        dataset.create_scalar_index(column, kind)
    options = {"m": 7, "ef_construction": 33, "num_partitions": 3}
    dataset.create_index("embedding", "IVF_HNSW_SQ", name="mine", metric="l2", **options)

    def described() -> dict[str, Any]:
        latest = lake.table("episodic").to_lance()
        return {one.name: (one.index_type, one.details) for one in latest.describe_indices()}

    def segments() -> set[str]:
        latest = lake.table("episodic").to_lance()
        return {one.uuid for index in latest.describe_indices() for one in index.segments}

    lake.flush()
    before, parts = described(), segments()
    PurgeJob(lake, ids=["7"]).run(NOW)
    assert described() == before
    assert parts.isdisjoint(segments())
    stats = lake.table("episodic").to_lance().stats.index_stats("mine")
    assert (stats["indices"][0]["num_partitions"], stats["num_indexed_rows"]) == (3, 299)


def test_a_measured_index_is_measured_anew(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember_many([{"text": f"tea {n}", "id": str(n)} for n in range(400)], now=NOW)
    policy = ailake.IndexPolicy(min_bytes=0, limit=50, sample=4)
    IndexJob(lake, policy=policy).run(NOW)
    PurgeJob(lake, ids=["7"]).run(NOW)
    (index,) = (one for one in lake.stats().tables[-1].indexes if one.recall is not None)
    assert (index.indexed_rows, index.unindexed_rows) == (399, 0)
    PurgeJob(lake, scope=memory.scope).run(NOW)
    assert "embedding_idx" not in {one.name for one in lake.stats().tables[-1].indexes}
    assert not list(memory.recall("tea", now=NOW))


def test_what_is_logged_is_purged(lake: ailake.Lake, tmp_path: Path) -> None:
    lake.memory("gone").remember(WORDS["text"], now=NOW)
    report = PurgeJob(lake, scope=Scope("gone")).run(NOW)
    assert report.tables[-1].rows == 1
    assert not holding(lake, {"text": WORDS["text"].encode()}, tmp_path)["text"]
    assert not [path for path in files(lake) if "/log/" in path]


def test_a_running_backup_is_waited_for(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember("tea", now=NOW)
    store = lake.store
    source = Source(store.location, store.tables, store.committing)
    with (
        held_versions(source, hold_id="1" * 32, now=NOW),
        pytest.raises(ConflictError, match="holds old versions; wait for it"),
    ):
        PurgeJob(lake, scope=memory.scope).run(NOW)
    assert PurgeJob(lake, scope=memory.scope).run(NOW).tables[-1].rows == 1


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        ({}, "wanted scope or ids"),
        ({"ids": []}, "one id or several"),
        ({"ids": 7}, "one id or several"),
        ({"ids": [""]}, "id: got ''"),
        ({"scope": "ana"}, "wanted a Scope"),
        ({"ids": ["a"], "confirm_tags": 7}, "wanted True, or names of tags"),
        ({"ids": ["a"], "confirm_tags": [7]}, "wanted True, or names of tags"),
    ],
)
def test_bad_terms(lake: ailake.Lake, named: dict[str, Any], wanted: str) -> None:
    with pytest.raises(InvalidInputError, match=wanted):
        PurgeJob(lake, **named)


def test_ids_and_a_scope_are_both_terms(lake: ailake.Lake, memory: ailake.Memory) -> None:
    memory.remember_many([{"text": "tea", "id": "t"}], now=NOW)
    assert PurgeJob(lake, scope=Scope("other"), ids="t").run(NOW).rows == 0
    # The memory, and what the judge decided.
    assert PurgeJob(lake, scope=memory.scope, ids="t").run(NOW).rows == 2
    with pytest.raises(InvalidInputError, match="naive"):
        PurgeJob(lake, ids="t").run(datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_purged_memory_leaves_what_others_said_of_its_facts(
    tmp_path: Path,
) -> None:
    """The same fact of another memory stays, and what had lost is believed again."""
    with ailake.connect(tmp_path, embedder="hashing:16", judge_rules=KEEP) as lake:
        memory, facts = lake.memory("a"), lake.facts("a")
        for name in ("one", "two", "three"):
            memory.remember(f"text {name}", id=name, now=NOW)
        since, later = NOW - 9 * DAY, NOW - 5 * DAY
        for source, home, begin in (
            ("three", "Oslo", since), ("one", "Oslo", since), ("two", "Rome", later),
        ):  # fmt: skip
            fact = ailake.FactTriple("Ana", "lives_in", home, begin, source_memory_id=source)
            facts.assert_([fact], now=NOW)
        PurgeJob(lake, ids=["two", "one"]).run(NOW)
        (left,) = facts.find("Ana", now=NOW)
        assert (left.object, left.valid_from, left.valid_to) == ("Oslo", since, None)
        assert left.source_memory_id == "three"
        assert lake.verify() == ()
