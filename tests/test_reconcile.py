"""Reconciliation: what a new fact means for those that are known."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ailake.core import reconcile_batch
from ailake.core.entities import EntityRef
from ailake.core.reconcile import FactDecision, FactTriple, SpoEntry, classify_fact
from ailake.core.reconcile_batch import classify_batch
from ailake.core.windows import Window, minus_all, union, windows_meet, windows_overlap
from ailake.errors import InvalidInputError


def year(number: int | None) -> datetime | None:
    return None if number is None else datetime(number, 1, 1, tzinfo=UTC)


def new(value: str, start: int, end: int | None = None) -> FactTriple:
    begins = year(start)
    assert begins
    return FactTriple("Ana", "works_at", value, begins, year(end))


def known(value: str, fact_id: str, start: int, end: int | None = None) -> SpoEntry:
    begins = year(start)
    assert begins
    return SpoEntry(value, fact_id, begins, year(end))


def window(start: int, end: int | None) -> Window:
    begins = year(start)
    assert begins
    return Window(begins, year(end))


NOOP, APPEND = FactDecision("noop"), FactDecision("append")  # type: ignore[arg-type]


def test_a_first_fact_is_appended() -> None:
    assert classify_fact(new("A", 2020), []) == APPEND


def test_the_same_object_is_a_noop_whatever_the_windows() -> None:
    assert classify_fact(new("A", 2020), [known("A", "f", 2020)]) == NOOP
    assert classify_fact(new("A", 2020, 2021), [known("A", "f", 2001, 2002)]) == NOOP


def test_a_noop_goes_before_an_overlap_that_stands_earlier() -> None:
    assert classify_fact(new("A", 2020), [known("B", "b", 2019), known("A", "a", 2001, 2002)]) == (
        NOOP
    )


def test_the_first_overlap_in_the_list_loses_not_the_oldest() -> None:
    prior = [
        known("X", "past", 2000, 2001),
        known("C", "late", 2021),
        known("B", "early", 2010),
    ]
    decision = classify_fact(new("A", 2020), prior)
    assert (decision.kind, decision.loser_fact_id) == ("supersede", "late")


def test_a_succession_is_appended() -> None:
    assert classify_fact(new("B", 2023), [known("A", "a", 2020, 2022)]) == APPEND


def test_windows_that_touch_do_not_overlap() -> None:
    assert classify_fact(new("B", 2022), [known("A", "a", 2020, 2022)]) == APPEND
    assert classify_fact(new("B", 2018, 2020), [known("A", "a", 2020)]) == APPEND
    assert not windows_overlap(window(2018, 2020), window(2020, None))
    assert windows_meet(window(2018, 2020), window(2020, None))
    assert not windows_meet(window(2018, 2020), window(2021, None))


@pytest.mark.parametrize("start", [2010, 2020, 2030])
def test_two_open_windows_always_overlap(start: int) -> None:
    assert classify_fact(new("B", start), [known("A", "a", 2020)]).kind == "supersede"


NAIVE = datetime(2020, 1, 1)  # noqa: DTZ001 (what is refused)
START = datetime(2020, 1, 1, tzinfo=UTC)
BAD: list[tuple[dict[str, Any], str]] = [
    ({"valid_to": START}, "valid_to: got '2020-01-01.*after valid_from"),
    ({"valid_to": START - timedelta(1)}, "after valid_from"),
    ({"valid_from": NAIVE}, "valid_from: got .*naive"),
    ({"valid_to": NAIVE}, "valid_to: got .*naive"),
    ({"valid_from": None}, "valid_from: got None"),
    ({"subject": ""}, "subject: .*got ''"),
    ({"object": None}, "object: got None, wanted a string or an EntityRef"),
    ({"predicate": ""}, "predicate: got ''"),
    ({"predicate": " works_at"}, "predicate: got ' works_at'"),
    ({"predicate": None}, "predicate: got None"),
    ({"source_memory_id": 5}, "source_memory_id: got 5"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_bad_fact_is_refused_by_name(bad: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"subject": "Ana", "predicate": "works_at", "object": "A"}
    with pytest.raises(InvalidInputError, match=message) as caught:
        FactTriple(**{**good, "valid_from": START, **bad})
    named = [repr(value) for value in {**good, **bad}.values()]
    assert str(caught.value).startswith(f"fact ({', '.join(named[:3])})")


def test_a_bad_known_fact_is_refused_by_id() -> None:
    with pytest.raises(InvalidInputError, match="fact 'f7': valid_to"):
        known("A", "f7", 2020, 2020)
    with pytest.raises(InvalidInputError, match=r"fact 'f7': valid_from: .*naive"):
        SpoEntry("A", "f7", NAIVE)
    with pytest.raises(InvalidInputError, match="fact_id: got ''"):
        known("A", "", 2020)


def test_instants_are_kept_in_utc() -> None:
    tokyo = datetime.fromisoformat("2020-01-01T09:00:00+09:00")
    fact = FactTriple(EntityRef("person", "Ana"), "born_in", "Oslo", tokyo)
    assert (fact.valid_from, fact.valid_from.tzinfo) == (START, UTC)


starts = st.integers(2000, 2012)
ends = st.one_of(st.none(), st.integers(1, 6))
windows = st.builds(lambda start, length: window(start, length and start + length), starts, ends)
years = st.integers(1999, 2020)


@given(windows, windows, years)
def test_overlap_and_union_are_what_they_are_of_instants(a: Window, b: Window, at: int) -> None:
    instant = datetime(at, 6, 1, tzinfo=UTC)
    if instant in a and instant in b:
        assert windows_overlap(a, b)
    assert windows_overlap(a, b) == any(
        datetime(y, 6, 1, tzinfo=UTC) in a and datetime(y, 6, 1, tzinfo=UTC) in b
        for y in range(1999, 2021)
    )
    if windows_meet(a, b):
        assert (instant in union([a, b])) == (instant in a or instant in b)


@given(windows, st.lists(windows, max_size=3), years)
def test_what_is_left_of_a_window(whole: Window, taken: list[Window], at: int) -> None:
    instant = datetime(at, 6, 1, tzinfo=UTC)
    left = minus_all(whole, taken)
    assert any(instant in part for part in left) == (
        instant in whole and not any(instant in other for other in taken)
    )
    assert all(part.end is None or part.start < part.end for part in left)


texts = st.sampled_from(["a", "b", "c", "奥斯陆"])
rows = st.lists(st.tuples(texts, texts, texts, windows), max_size=12)


def columns(facts: list[tuple[str, str, str, Window]], chunk: int) -> pa.Table:
    instants = pa.timestamp("us", "UTC")
    made = pa.table(
        {
            "subject": pa.array([f[0] for f in facts], pa.string()),
            "predicate": pa.array([f[1] for f in facts], pa.string()),
            "object": pa.array([f[2] for f in facts], pa.string()),
            "valid_from": pa.array([f[3].start for f in facts], instants),
            "valid_to": pa.array([f[3].end for f in facts], instants),
            "fact_id": pa.array([f"f{place}" for place in range(len(facts))], pa.string()),
        }
    )
    return pa.concat_tables([made[:chunk], made[chunk:]])


@given(rows, rows, st.integers(0, 12), st.sampled_from([0, 1, 3, 16]))
def test_the_batch_decides_as_the_function_does(
    facts: list[tuple[str, str, str, Window]],
    prior: list[tuple[str, str, str, Window]],
    chunk: int,
    deep: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconcile_batch, "_DEEP", deep)
        got = classify_batch(columns(facts, chunk), columns(prior, chunk)).to_pylist()
    wanted = []
    for subject, predicate, value, span in facts:
        entries = [
            SpoEntry(p[2], f"f{place}", p[3].start, p[3].end)
            for place, p in enumerate(prior)
            if p[:2] == (subject, predicate)
        ]
        fact = FactTriple(subject, predicate, value, span.start, span.end)
        decision = classify_fact(fact, entries)
        wanted.append({"kind": decision.kind, "loser_fact_id": decision.loser_fact_id})
    assert got == wanted


def test_a_batch_with_a_bad_row_is_refused_by_name() -> None:
    good = columns([("a", "b", "c", window(2000, 2001)), ("a", "b", "d", window(2000, None))], 1)
    late = good.set_column(4, "valid_to", good["valid_from"])
    with pytest.raises(InvalidInputError, match=r"new fact 0 \(a, b, c, f0\): valid_to: got '2000"):
        classify_batch(late, good)
    with pytest.raises(InvalidInputError, match=r"prior fact 0 \(a, b, c, f0\): valid_to"):
        classify_batch(good, late)
    empty = good.set_column(2, "object", pa.array(["c", None]))
    with pytest.raises(InvalidInputError, match="new fact 1: object: got None, wanted text"):
        classify_batch(empty, good)
    with pytest.raises(InvalidInputError, match="wanted a column 'fact_id'"):
        classify_batch(good, good.drop_columns("fact_id"))
    naive = good.set_column(3, "valid_from", good["valid_from"].cast(pa.timestamp("us")))
    with pytest.raises(InvalidInputError, match=r"valid_from: .*timestamps with a time zone"):
        classify_batch(naive, good)
    far = pa.array([year(2001), year(9999)], pa.timestamp("us", "UTC"))
    with pytest.raises(InvalidInputError, match=r"new fact 1: valid_to: got '9999-01-01.*1678 to"):
        classify_batch(good.set_column(4, "valid_to", far), good)
    for key in ((), "subject"):
        with pytest.raises(InvalidInputError, match=r"key: got .*, wanted names of columns"):
            classify_batch(good, good, key=key)


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()])
def test_texts_of_different_types_are_compared(text: pa.DataType) -> None:
    prior = columns([("Ana", "b", "c", window(2000, None))], 1)
    facts = columns([("Ana", "b", value, window(2001, None)) for value in ("c", "d")], 1)
    schema = pa.schema(
        [
            field.with_type(text) if n in {0, 1, 2, 5} else field
            for n, field in enumerate(facts.schema)
        ]
    )
    opened = facts.cast(schema).set_column(4, "valid_to", pa.nulls(2))
    for one, two in ((opened, prior), (facts, prior.cast(schema))):
        got = classify_batch(one, two)
        assert got["kind"].to_pylist() == ["noop", "supersede"]
        assert got["loser_fact_id"].to_pylist() == [None, "f0"]
    nothing = facts.schema.empty_table()
    assert classify_batch(nothing, pa.table(nothing.to_pydict())).num_rows == 0


@pytest.mark.parametrize("prior", [None, [{"object": "A"}], "A", [new("A", 2020)]])
def test_what_is_no_fact_is_not_classified(prior: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"prior: got .*, wanted a list of SpoEntry"):
        classify_fact(new("A", 2020), prior)
    with pytest.raises(InvalidInputError, match="new: got None, wanted a FactTriple"):
        classify_fact(None, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["object", "fact_id"])
@pytest.mark.parametrize("wrong", [None, "", 7])
def test_a_known_fact_has_an_object_and_an_id(name: str, wrong: Any) -> None:
    given: dict[str, Any] = {"object": "A", "fact_id": "f", "valid_from": year(2020), name: wrong}
    with pytest.raises(InvalidInputError, match=f"{name}: got"):
        SpoEntry(**given)


def test_decisions_compare_without_the_id() -> None:
    assert replace(APPEND, fact_id="f") == APPEND
