"""Entities: what counts as the same name, and ids that are hashes of it."""

from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ailake.core.entities import (
    ENTITY_TYPES,
    EntityRef,
    digest,
    entity_of,
    normalise_name,
    other,
)
from ailake.errors import InvalidInputError


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        ("Ana", "ana"),
        ("  Ana \t Maria\n", "ana maria"),
        ("Ana Maria?!", "ana maria"),
        ("Ana Maria . ;", "ana maria"),
        ("Ｏｓｌｏ", "oslo"),
        ("Straße", "strasse"),
        ("ﬁsh", "fish"),
        ("奥斯陆！", "奥斯陆"),
        ("奥斯陆。", "奥斯陆"),
        ("ANA，：；？．", "ana"),
        ("St. John's", "st. john's"),
        ("?!", ""),
    ],
)
def test_normalised_names(name: str, normalised: str) -> None:
    assert normalise_name(name) == normalised


@given(st.text(max_size=20))
def test_a_normalised_name_stays(name: str) -> None:
    once = normalise_name(name)
    assert normalise_name(once) == once
    assert normalise_name(name.upper().lower()) in {normalise_name(name.upper()), once}


def test_equal_names_are_one_entity_and_prefixes_never() -> None:
    ana = EntityRef("person", "Ana")
    assert ana == EntityRef("person", " ANA.")
    assert hash(ana) == hash(EntityRef("person", "ana"))
    assert ana.id == EntityRef("person", "ana!").id
    assert len({ana.id, EntityRef("person", "Anabel").id, EntityRef("place", "Ana").id}) == 3
    assert EntityRef("person", "ANA").name == "ANA"
    assert entity_of("Ana", name="x") == EntityRef("concept", "ana") != ana


def test_the_id_is_the_published_hash() -> None:
    """BLAKE2b-128 of (normalised name, type), each after its length, 8 bytes little-endian."""
    fields = [b"ana", b"person"]
    content = b"".join(len(f).to_bytes(8, "little") + f for f in fields)
    assert EntityRef("person", "Ana").id == blake2b(content, digest_size=16).hexdigest()


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_no_two_field_splits_collide(one: list[str], two: list[str]) -> None:
    assert (digest(*one) == digest(*two)) == (one == two)


def test_labels_of_ones_own() -> None:
    vehicle = EntityRef(other("Vehicle"), "Tram 12")
    assert vehicle == EntityRef("other(vehicle)", "tram 12")
    assert vehicle != EntityRef("other(animal)", "tram 12")
    for label in ["person", "Person", "ＰＥＲＳＯＮ", " person.", "", "?"]:
        with pytest.raises(InvalidInputError, match="entity type label: got"):
            other(label)
        with pytest.raises(InvalidInputError, match="entity type label: got"):
            EntityRef(f"other({label})", "x")


BAD: list[tuple[Any, Any, str]] = [
    ("animal", "x", r"entity type: got 'animal', wanted one of .*other\(<label>\)"),
    ("Person", "x", "entity type: got"),
    (None, "x", "entity type: got None"),
    ("person", "", "entity name: got ''"),
    ("person", " ?!", "entity name: got ' .!'"),
    ("person", 5, "entity name: got 5"),
    ("person", "\ud800", "entity name: got"),
    ("person", "x" * 1_025, "at most 1,024"),
]


@pytest.mark.parametrize(("entity_type", "name", "message"), BAD)
def test_a_bad_entity(entity_type: Any, name: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        EntityRef(entity_type, name)


def test_the_types_are_those_of_the_graph() -> None:
    assert len(ENTITY_TYPES) == 13
    assert all(EntityRef(name, "x").type == name for name in ENTITY_TYPES)
