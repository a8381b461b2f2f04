"""Which of two texts says all that the other says, and above all when neither does."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ailake
from ailake.core.judge import Containment, containment, same_negations

EQUAL = [
    ("Ana has a dog", "ana has a dog!"),
    ("A man is mowing the lawn", "The lawn is being mowed by a man"),
    ("A man is riding a horse on the beach", "A horse is being ridden by a man on the beach"),
    ("A man in a hat is riding a horse", "A horse is being ridden by a man in a hat"),
    ("A man is running quickly in a park", "A man is quickly running in a park"),
    ("A man is eating a slice of bread", "A man is eating bread"),
    ("A dog, which is white, is running", "A white dog is running"),
    ("A woman that is old is running", "An old woman is running"),
    ("哪家的米粉好吃", "哪家米粉好吃？"),
    ("A woman is riding a horse", "The horse is being ridden by a woman"),
    ("A man is slicing a tomato", "There is a man slicing a tomato"),
    ("A man is singing and playing a guitar", "A guy is playing a guitar and singing"),
    ("A boy is riding a bicycle", "The boy is riding a bike"),
    ("Ana has two cats", "Ana has 2 cats"),
    ("Ana's mother lives in Oslo", "Ana's mom lives in Oslo."),
    ("I'm a doctor. I have a dog.", "I have a dog; I am a doctor"),
    ("安娜喜欢花生", "安娜喜愛花生。"),
    ("安娜有一个弟弟", "安娜有弟弟"),
    ("怎么更换手机号", "请问如何修改手机号？"),
    ("安娜会用Python编程", "安娜会用 python 编程"),
]

# The first says less than the second.
SUBSETS = [
    ("A man is wearing a hat", "A horse is being ridden by a man in a hat on the beach"),
    (
        "A man is riding a horse on the beach",
        "A horse is being ridden by a man in a hat on the beach",
    ),
    ("The boy is riding a tricycle", "The boy is speedily riding a tricycle"),
    ("Ana has a dog", "Ana has a small brown dog"),
    ("A man is playing a guitar", "A man in a hat is playing a guitar on stage"),
    ("A man is playing a guitar", "A man is singing and playing a guitar"),
    ("A woman is dancing", "A man is playing the piano and a woman is dancing"),
    ("Some paper is being cut", "Paper is being cut with scissors"),
    ("A person is cutting a vegetable", "A woman is slicing a carrot with a knife"),
    ("Ana has an animal", "Ana has a puppy"),
    ("Ana lives in Oslo", "Ana lives in Oslo with Bo"),
    ("Ana likes tea", "Ana likes tea and coffee"),
    ("I like tea", "I have a dog and I like tea"),
    ("Ana lives in Oslo", "Ana lives in Oslo. Bo lives in Rome."),
    ("安娜喜欢花生", "安娜非常喜欢花生"),
    ("安娜住在上海", "安娜住在上海，在一家银行工作"),
    ("我喜欢跑步", "我住在上海，我喜欢跑步"),
]

NEITHER = [
    ("Ana likes Bo", "Bo likes Ana"),
    ("Ana is tall", "Ana's brother is tall"),
    ("Ana likes Bo", "Ana likes Bo's brother"),
    ("I drink Red Bull in the morning", "I drink iced Americano"),
    ("A man is being chased by a dog", "A man is chasing a dog"),
    (
        "The man in the hat is smoking a straw cigarette",
        "The man in the straw hat is smoking a cigarette",
    ),
    ("A big potato is knocking a green ball", "A big green ball is knocking a potato"),
    ("A woman is playing and a man is dancing", "A woman is dancing and a man is playing"),
    ("Ana likes tea, Bo likes coffee", "Ana likes coffee, Bo likes tea"),
    ("Ana is allergic to peanuts", "Ana is allergic to roasted peanuts"),
    ("Ana likes tea", "Ana likes green tea"),
    ("Ana likes dogs", "Ana likes animals"),
    ("Ana eats meat", "Ana eats meat only on Sundays"),
    ("Ana works at Google", "Ana wants to work at Google"),
    ("Ana moves to Oslo", "Ana moves to Oslo if Bo agrees"),
    ("Ana has a dog", "Ana has a toy dog"),
    ("Ana has a dog", "Ana has a dog or a cat"),
    ("A dog, which is white, is running", "A dog is running, which is white and brown"),
    ("Ana has a gun", "Ana has a fake gun"),
    ("Ana likes tea", "Ana said Bo likes tea"),
    ("Ana is running", "Ana is almost running"),
    ("A man is running", "A man in a story, as Bo said, is running"),
    ("Ana is running", "Ana is allegedly running"),
    ("All dogs are barking", "All brown dogs are barking"),
    ("Ana lives in Oslo", "Ana lived in Oslo"),
    ("Ana left?", "Ana left."),
    ("Ana likes cats", "Ana likes dogs"),
    ("no, more peanuts", "no more peanuts"),
    ("I enjoy cooking, my dog", "I enjoy cooking my dog"),
    ("安娜喜欢小波", "小波喜欢安娜"),
    ("安娜很高", "安娜的弟弟很高"),
    ("安娜喜欢茶", "安娜喜欢绿茶"),
    ("我去北京", "如果下雨，我去北京"),
    ("安娜在谷歌工作", "安娜想在谷歌工作"),
    ("安娜吃肉", "安娜只吃肉"),
    ("小波打了安娜", "小波被安娜打了"),
    ("你是学生吗", "你是学生"),
    ("我买的书贵", "我买书贵"),
    ("那个好吗", "哪个好吗"),
    ("小波是李先生", "小波是李丈夫"),
    ("我们同岁", "我们和岁"),
    ("アナはボーが好き", "ボーはアナが好き"),
    ("안나는 보를 좋아한다", "보는 안나를 좋아한다"),
    ("Ana liebt Bo", "Bo liebt Ana"),
    ("", "Ana"),
    ("...", "!!!"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal(one: str, other: str) -> None:
    assert containment(one, other) == containment(other, one) == "equal"


@pytest.mark.parametrize(("less", "more"), SUBSETS)
def test_subsets(less: str, more: str) -> None:
    assert containment(less, more) == "new_in_existing"
    assert containment(more, less) == "existing_in_new"


@pytest.mark.parametrize(("one", "other"), NEITHER)
def test_neither(one: str, other: str) -> None:
    assert containment(one, other) == containment(other, one) == "none"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana likes tea", "Ana does not like tea"),
        ("A man is running", "There is no man running"),
        ("Ana likes tea", "Ana hates tea"),
        ("Ana smokes", "Ana never smokes"),
        ("安娜喜欢茶", "安娜不喜欢茶"),
        ("安娜喜欢茶", "安娜讨厌茶"),
        ("安娜吃花生", "安娜不吃花生"),
    ],
)
def test_contained_but_for_a_negation(one: str, other: str) -> None:
    assert containment(one, other) != "none"
    assert not same_negations(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana likes tea, not coffee", "Ana likes coffee, not tea"),
        ("Ana does not like tea and Bo likes it", "Ana likes tea and Bo does not like it"),
        ("Ana is not running", "Ana is not running fast in a park"),
        ("Ana does not have a dog", "Ana does not have a brown dog"),
        ("安娜不吃肉，吃鱼", "安娜不吃鱼，吃肉"),
        ("安娜不喜欢茶", "安娜不太喜欢茶"),
    ],
)
def test_where_both_deny_nothing_may_be_added_or_moved(one: str, other: str) -> None:
    assert same_negations(one, other)
    assert containment(one, other) == containment(other, one) == "none"


MIRRORED = {
    Containment.NONE: Containment.NONE,
    Containment.EQUAL: Containment.EQUAL,
    Containment.NEW_IN_EXISTING: Containment.EXISTING_IN_NEW,
    Containment.EXISTING_IN_NEW: Containment.NEW_IN_EXISTING,
}
ENGLISH = "a the Ana Bo man dog brown is was being by eating eaten running likes tea and not no"
OTHERS = ", . ? in of who there 安娜 喜欢 不 很 的 茶 ， 。 2"
WORDS = [*ENGLISH.split(), *OTHERS.split()]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=30)


@given(TEXTS, TEXTS)
def test_the_answer_is_mirrored(one: str, other: str) -> None:
    assert containment(other, one) == MIRRORED[containment(one, other)]


@given(TEXTS)
def test_a_text_equals_itself_or_says_nothing(text: str) -> None:
    assert containment(text, text) in {"equal", "none"}


@given(
    st.lists(st.sampled_from(["ana", "bo", "cy", "sees", "tells"]), min_size=2, max_size=5),
    st.randoms(),
)
def test_other_orders_of_the_same_words_are_not_equal(words: list[str], random: Random) -> None:
    shuffled = list(words)
    random.shuffle(shuffled)
    expected = "equal" if shuffled == words else "none"
    assert containment(" ".join(words), " ".join(shuffled)) == expected


@pytest.mark.parametrize("text", ["the dog and " * 4_000, "Ana has a dog. " * 4_000, "a" * 1_001])
def test_of_long_texts_nothing_is_said(text: str) -> None:
    assert containment(text, text) == "none"
    assert containment("Ana has a dog", f"Ana has a dog. {text}") == "none"


def test_a_long_sentence_is_compared_soon() -> None:
    text = "the dog is running and " * 40
    assert containment(text, f"{text} the cat") in set(Containment)


def test_the_example_of_the_docs() -> None:
    scope = ailake.Scope("ana-bot")
    new = ailake.MemoryItem("n1", "Ana has a small brown dog", scope)
    old = ailake.MemoryItem("m7", "Ana has a dog", scope)
    verdict = ailake.judge(new, [ailake.Candidate(old, 0.83, "embedding")])
    assert (verdict.decision, verdict.reason) == ("modify", "fact_superset")


@pytest.mark.parametrize(
    ("one", "other"),
    [("table 13 1", "table 1 13"), ("Ana has 1 dog in 3 rooms", "Ana has 3 dogs in 1 room")],
)
def test_a_digit_is_a_number_and_no_article(one: str, other: str) -> None:
    assert containment(one, other) == containment(other, one) == "none"
