"""No verb reaches a memory of another scope, whatever scopes, filters and metadata look like."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept import KEEP

import ailake
from ailake import InvalidInputError, NotFoundError, Scope, State

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
TAG = "filled"
DIM = 16
ALL = 10_000

# Each looks like another to a prefix test, a LIKE, a trim, a fold of case or of Unicode, an
# unquoted literal, or a key joined with a separator.
SCOPES = [
    *(Scope(agent) for agent in ("/a", "/ab", "/a/", "a", "A", "ab", "a b", "a ", "a%", "a_", "%")),
    *(Scope(agent) for agent in ("a'b", "a''b", "a\\'b", "a\\", 'a"b', "a`b", "a;--", "a\nb")),
    *(Scope(agent) for agent in ("' OR '1'='1", "a' OR true --", "agent_id", "null", "TRUE")),
    *(Scope(agent) for agent in ("\u00e9", "e\u0301", "我", "\U0001f9e0", "ＡＢ", "0", "0.0")),
    Scope("a", "b"), Scope("a", "", "b"), Scope("a", "b", "b"), Scope("ab", "b"),
    Scope("a", "b", "c"), Scope("a", "b", "C"), Scope("a", "b/c"), Scope("a", "%", "%"),
    Scope("a", "'b"), Scope("a", " "), Scope("b", "a"), Scope("a/b"), Scope("a|b"), Scope("a", "a"),
]  # fmt: skip
LOOKALIKES = ("agent_id", "user_id", "project_id", "scope", "state", "chunk_id", "a'b", "a.b")

scopes = st.sampled_from(SCOPES)


def id_of(scope: Scope, place: int | str) -> str:
    return f"{SCOPES.index(scope)}-{place}"


def other(scope: Scope) -> Scope:
    """Return whom the metadata of a scope's memories names."""
    return SCOPES[(SCOPES.index(scope) + 1) % len(SCOPES)]


def metadata_of(scope: Scope) -> dict[str, Any]:
    named = other(scope)
    parts = {"agent_id": named.agent_id, "user_id": named.user_id, "project_id": named.project_id}
    return {
        **parts, "scope": parts, "state": "merged", "chunk_id": id_of(named, 0),
        "a'b": named.agent_id, "a.b": named.user_id,
    }  # fmt: skip


def of_scope(lake: ailake.Lake, scope: Scope, *, session_id: str = "") -> ailake.Memory:
    return lake.memory(
        scope.agent_id,
        user_id=scope.user_id,
        project_id=scope.project_id,
        session_id=session_id,
    )


def write(memory: ailake.Memory) -> None:
    """Store the same texts in every scope: a plain one, one of a session, an expired, a changed."""
    scope = memory.scope
    shared: dict[str, Any] = {"metadata": metadata_of(scope)}
    memory.remember("Tea at five", id=id_of(scope, 0), now=NOW, **shared)
    session, soon = other(scope).agent_id, NOW + timedelta(minutes=1)
    items: list[dict[str, Any]] = [
        {"text": "Coffee at ten", "id": id_of(scope, 1), "session_id": session},
        {"text": "Milk at noon", "id": id_of(scope, "gone"), "expires_at": soon},
        {"text": "Water at six", "id": id_of(scope, "old")},
    ]
    memory.remember_many([{**item, **shared} for item in items], now=NOW)
    memory.update(id_of(scope, "old"), text="Water at seven", now=NOW)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ailake.Lake]:
    folder = tmp_path_factory.mktemp("walls")
    with ailake.connect(folder / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as lake:
        for scope in SCOPES:
            write(of_scope(lake, scope))
        lake.tag(TAG)
        yield lake
        # What the reads above did has changed no memory.
        assert {scope: live_ids(of_scope(lake, scope)) for scope in SCOPES} == {
            scope: live_ids(of_scope(lake.at(TAG), scope)) for scope in SCOPES
        }
        assert lake.scope_counts() == dict.fromkeys(sorted(SCOPES), 5)
        assert lake.verify(now=LATER) == ()


def live_ids(memory: ailake.Memory) -> set[str]:
    return {record.id for record in memory.list(limit=ALL, now=LATER)}


type_of_reader = st.sampled_from(["memory", "read", "past"])


def reader(lake: ailake.Lake, scope: Scope, kind: str) -> Any:
    if kind == "memory":
        return of_scope(lake, scope)
    if kind == "past":
        return of_scope(lake.at(TAG), scope)
    return lake.read([scope])


parts = st.sampled_from(
    sorted({part for s in SCOPES for part in (s.agent_id, s.user_id, s.project_id)})
)
leaves = st.one_of(
    st.builds(
        lambda name, operator, value: {f"metadata.{name}": {operator: value}},
        st.sampled_from([*LOOKALIKES, "scope.agent_id", "scope.user_id"]),
        st.sampled_from(["eq", "ne", "gte", "contains"]),
        parts,
    ),
    st.builds(
        lambda name, operator, value: {name: {operator: value}},
        st.sampled_from(["agent_id", "user_id", "project_id", "session_id", "chunk_text", "kind"]),
        st.sampled_from(["eq", "ne", "lt", "contains"]),
        parts,
    ),
    st.builds(lambda values: {"agent_id": {"in": values}}, st.lists(parts, max_size=3)),
    st.builds(lambda scope: {"chunk_id": {"in": [id_of(scope, 0), id_of(scope, 1)]}}, scopes),
)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda where: {"NOT": where}, inner),
        st.builds(lambda name, wheres: {name: wheres}, st.sampled_from(["AND", "OR"]), lists),
    )


wheres = st.recursive(leaves, grown, max_leaves=4)


def assert_behind_the_wall(found: Sequence[Any], own: Sequence[Scope]) -> set[str]:
    """Every row says that it is of these scopes, and its id and metadata agree."""
    for record in found:
        assert record.scope in own
        assert record.metadata == metadata_of(record.scope)
        # A changed memory's new row has an id that nobody chose.
        assert record.id not in IDS or record.id.startswith(id_of(record.scope, ""))
    ids = [record.id for record in found]
    assert len(ids) == len(set(ids))
    return set(ids)


IDS = {id_of(scope, place) for scope in SCOPES for place in (0, 1, "gone", "old")}


def expected_texts(own: Sequence[Scope]) -> list[str]:
    return sorted(["Tea at five", "Coffee at ten", "Water at seven"] * len(own))


@settings(max_examples=50)
@given(scope=scopes, kind=type_of_reader, where=wheres)
def test_a_filter_and_its_opposite_share_out_the_scopes_own_rows(
    filled: ailake.Lake, scope: Scope, kind: str, where: Mapping[str, Any]
) -> None:
    memory = reader(filled, scope, kind)
    opposite = {"NOT": where}
    one, two = (memory.list(w, limit=ALL, now=LATER) for w in (where, opposite))
    ones, twos = (assert_behind_the_wall(found, [scope]) for found in (one, two))
    assert not ones & twos
    assert sorted(record.text for record in [*one, *two]) == expected_texts([scope])
    assert memory.count(where, now=LATER) == len(one)
    hits = memory.recall("Tea at five", where=where, limit=50, touch=False, now=LATER)
    assert assert_behind_the_wall(hits, [scope]) == ones


@settings(max_examples=50)
@given(
    scope=scopes,
    kind=type_of_reader,
    query=st.sampled_from(["Tea at five", "agent_id = 'a'", "' OR '1'='1", np.eye(1, DIM)[0]]),
    session=st.one_of(st.none(), parts),
    options=st.fixed_dictionaries(
        {},
        optional={
            "exact": st.booleans(),
            "scoring": st.sampled_from([None, ailake.ScoringPolicy.SEED]),
            "max_distance": st.sampled_from([None, 2.0]),
            "touch": st.booleans(),
            "limit": st.sampled_from([3, 50, ALL]),
        },
    ),
)
def test_recall_with_every_option(
    filled: ailake.Lake, scope: Scope, *, kind: str, query: Any, session: str | None, options: Any
) -> None:
    hits = reader(filled, scope, kind).recall(query, session_id=session, now=LATER, **options)
    assert_behind_the_wall(hits, [scope])
    own = {"": ["Tea at five", "Water at seven"]}
    own[other(scope).agent_id] = ["Coffee at ten"]
    wanted = expected_texts([scope]) if session is None else sorted(own.get(session, []))
    assert sorted(hit.text for hit in hits) == wanted


@settings(max_examples=20)
@given(own=st.lists(scopes, min_size=1, max_size=5, unique=True), where=wheres)
def test_several_scopes_at_once(
    filled: ailake.Lake, own: list[Scope], where: Mapping[str, Any]
) -> None:
    memory = filled.read(own)
    everything = memory.list(limit=ALL, now=LATER)
    assert_behind_the_wall(everything, own)
    assert sorted(record.text for record in everything) == expected_texts(own)
    assert memory.count(now=LATER) == len(everything)
    hits = memory.recall("Tea at five", limit=ALL, now=LATER)
    assert {hit.id for hit in hits} == {record.id for record in everything}
    some = assert_behind_the_wall(memory.list(where, limit=ALL, now=LATER), own)
    each = [filled.read([scope]).list(where, limit=ALL, now=LATER) for scope in own]
    assert some == {record.id for record in itertools.chain(*each)}


@settings(max_examples=20)
@given(scope=scopes, state=st.sampled_from(list(State)), where=wheres)
def test_a_filter_on_state(
    filled: ailake.Lake, scope: Scope, state: State, where: Mapping[str, Any]
) -> None:
    memory = of_scope(filled, scope)
    asked: list[dict[str, object]] = [
        {"state": state},
        {"OR": [{"state": state}, where]},
        {"state": {"nin": [state]}},
    ]
    for shown in asked:
        found = assert_behind_the_wall(memory.list(shown, limit=ALL, now=LATER), [scope])
        assert memory.count(shown, now=LATER) == len(found)
    merged = {record.id for record in memory.list({"state": State.MERGED}, now=LATER)}
    assert merged == {id_of(scope, "old")}


@settings(max_examples=30)
@given(own=scopes, foreign=scopes, kind=type_of_reader, place=st.sampled_from([0, 1, "old"]))
def test_a_foreign_id_is_no_id(
    filled: ailake.Lake, own: Scope, foreign: Scope, *, kind: str, place: int | str
) -> None:
    asked = id_of(foreign, place)
    memory = reader(filled, own, kind)
    if own == foreign:
        assert_behind_the_wall([memory.get(asked, now=LATER)], [own])
        chain = memory.history(asked)
        assert_behind_the_wall(chain, [own])
        assert len(chain) == (2 if place == "old" else 1)
        return
    for call in (memory.get, memory.history):
        with pytest.raises(NotFoundError):
            call(asked)
    assert not memory.list({"chunk_id": asked}, now=LATER)


@settings(max_examples=20)
@given(own=scopes, foreign=scopes, where=wheres)
def test_no_write_reaches_a_foreign_memory(
    filled: ailake.Lake, own: Scope, foreign: Scope, where: Mapping[str, Any]
) -> None:
    memory = of_scope(filled, own)
    report = memory.forget(where=where, dry_run=True, now=LATER)
    everything = {"state": {"in": list(State)}}
    assert set(report.ids) <= {r.id for r in memory.list(everything, limit=ALL, now=LATER)}
    if own == foreign:
        return
    asked = id_of(foreign, 0)
    for dry_run in (True, False):
        report = memory.forget([asked], dry_run=dry_run, now=LATER)
        assert (report.ids, report.missing) == ((), (asked,))
    with pytest.raises(NotFoundError):
        memory.update(asked, importance=1.0, now=LATER)
    with pytest.raises(NotFoundError):
        memory.restore(id_of(foreign, "old"), now=LATER)
    with pytest.raises(InvalidInputError, match="taken"):
        memory.remember("Tea at nine", id=asked, now=LATER)
    assert of_scope(filled, foreign).get(asked, now=LATER).text == "Tea at five"


@settings(max_examples=10)
@given(own=scopes, foreign=scopes)
def test_a_touch_of_a_foreign_id_does_not_tell_that_it_exists(
    filled: ailake.Lake, own: Scope, foreign: Scope
) -> None:
    memory = of_scope(filled, own)
    asked = id_of(foreign, 0) if own != foreign else "nobody's"
    with pytest.raises(NotFoundError):
        memory.touch([id_of(own, 1), asked], now=LATER)


confusions = st.sampled_from(
    ["{} ", " {}", "{}%", "{}_", "{}'", "'{}'", "{}\\", "{}/", "/{}", "{}\u200b", "{}--", "%{}%"]
)


@settings(max_examples=30)
@given(scope=scopes, shape=confusions, kind=type_of_reader)
def test_an_almost_equal_scope_is_empty(
    filled: ailake.Lake, scope: Scope, shape: str, kind: str
) -> None:
    almost = [
        Scope(shape.format(scope.agent_id), scope.user_id, scope.project_id),
        Scope(scope.agent_id, shape.format(scope.user_id), scope.project_id),
        Scope(scope.agent_id, scope.user_id, shape.format(scope.project_id)),
        Scope(scope.agent_id.swapcase(), scope.user_id, scope.project_id),
    ]
    for empty in set(almost) - set(SCOPES):
        memory = reader(filled, empty, kind)
        assert memory.count(now=LATER) == 0
        assert not memory.list(now=LATER)
        assert not memory.recall("Tea at five", touch=False, now=LATER)
        with pytest.raises(NotFoundError):
            memory.get(id_of(scope, 0), now=LATER)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@settings(max_examples=12)
@given(
    pair=st.lists(
        st.builds(Scope, words.filter(lambda word: bool(word.strip())), words, words),
        min_size=2,
        max_size=2,
        unique=True,
    ),
    texts=st.lists(words.filter(lambda word: bool(word.strip())), min_size=1, max_size=3),
)
def test_any_two_scopes(
    tmp_path_factory: pytest.TempPathFactory, pair: list[Scope], texts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    with ailake.connect(folder / "lake", embedder=f"hashing:{DIM}", judge_rules=KEEP) as lake:
        one, two = (of_scope(lake, scope) for scope in pair)
        for text in texts:
            one.remember(text, judge=False, metadata={"agent_id": pair[1].agent_id})
        assert (one.count(), two.count()) == (len(texts), 0)
        two.remember("only here")
        assert [record.text for record in two.list()] == ["only here"]
        assert sorted(hit.text for hit in one.recall(texts[0])) == sorted(texts)
        assert [hit.text for hit in two.recall(texts[0])] == ["only here"]
        assert two.forget(where={"importance_score": {"gte": 0}}).ids
        assert (one.count(), two.count()) == (len(texts), 0)
        assert lake.scopes() == [pair[0]]
