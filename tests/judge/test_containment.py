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

# Nothing is taken back by what these add.
HARMLESS = [
    ("Ana has a dog", "Ana has a small dog"),
    ("Ana has a house", "Ana has a small house"),
    ("Ana has a car", "Ana has a red car"),
    ("Ana lives in Oslo", "Ana lives in Oslo with Bo"),
    ("Ana lives in Oslo", "Ana lives in Oslo. Bo lives in Rome."),
    ("Ana likes tea", "Ana likes tea and lives in Oslo"),
    ("Ana likes tea", "Ana likes tea and Bo likes coffee"),
    ("I like tea", "I live in Oslo, I like tea"),
    ("我们喜欢绿茶", "我们都喜欢绿茶"),
    ("安娜喜欢绿茶", "安娜喜欢绿茶。小波住在上海。"),
    ("安娜喜欢绿茶", "安娜喜欢绿茶，他在银行工作"),
    ("Ana is singing", "Ana is beautifully singing"),
    ("A man is running", "An old man is running"),
    ("A man is running", "A man is running in the park"),
    ("Ana has a cat", "Ana has a cat and a dog"),
    ("安娜高", "安娜很高"),
    ("A man is walking", "A man is walking down the street"),
    ("I am allergic to peanuts", "Let me begin with one thing. I am allergic to peanuts."),
]

# The second takes the first back, or tells of another person, thing or place.
TAKEN_BACK = [
    ("My mother is ill", "My mother in law is ill"),
    ("My mother is ill", "My step mother is ill"),
    ("My mother is ill", "My grand mother is ill"),
    ("My son is ill", "My god son is ill"),
    ("My sister is ill", "My sister in Rome is ill"),
    ("My boss is nice", "My old boss is nice"),
    ("My boss is nice", "My new boss is nice"),
    ("My boss is nice", "My late boss is nice"),
    ("My boss is nice", "My second boss is nice"),
    ("My boss is nice", "My future boss is nice"),
    ("My boss is nice", "My would-be boss is nice"),
    ("Ana's boss is nice", "Ana's new boss is nice"),
    ("My boss is running", "My old boss is running"),
    ("The boss is running", "The new boss is running"),
    ("My car is red", "My other car is red"),
    ("Ana is meeting her boyfriend", "Ana is meeting her new boyfriend"),
    ("安娜认识小波", "安娜认识小波，急"),
    ("张喜欢绿茶", "张超喜欢绿茶"),
    ("安娜是门人", "安娜是也门人"),
    ("安娜住在成", "安娜住在成都"),
    ("李住在上海", "李都住在上海"),
    ("香港是行政区", "香港是特别行政区"),
    ("安娜迟到钟", "安娜迟到十分钟"),
    ("安娜喜欢绿茶", "安娜喜欢绿茶，这是假的"),
    ("安娜喜欢绿茶", "安娜喜欢绿茶，骗你的"),
    ("安娜喜欢绿茶", "安娜喜欢绿茶，开玩笑的"),
    ("安娜喜欢绿茶", "安娜喜欢绿茶，我猜"),
    ("安娜喜欢绿茶", "安娜喜欢绿茶，才怪"),
    ("安娜喜欢绿茶", "安娜喜欢绿茶。骗你的。"),
    ("安娜喜欢绿茶", "安娜喜欢绿茶。这是谣言。"),
    ("安娜住在上海", "安娜住在上海，在游戏里"),
    ("安娜住在上海", "在梦里，安娜住在上海"),
    ("安娜喜欢绿茶", "听说安娜喜欢绿茶"),
    ("Ana is rich", "Ana is rich, which is a lie"),
    ("Ana is rich", "Ana is rich, wrong"),
    ("Ana is rich", "Ana is rich, I guess"),
    ("Ana is rich", "Ana is rich, in her dreams"),
    ("Ana is rich", "Ana is rich in her dreams"),
    ("Ana is rich", "Ana is rich. That is a lie."),
    ("Ana is rich", "Ana is rich. Just kidding."),
    ("Ana is rich", "Ana is rich. Wrong."),
    ("Ana is rich", "Ana is rich. It was so."),
    ("Ana is rich", "Maybe Ana is rich and Bo is poor"),
    ("Ana died", "Ana died in the game"),
    ("Ana has a dog", "Ana has a dog in the game"),
    ("Ana is killing Bo", "Ana is killing Bo in the game"),
    ("Ana is killing Bo", "Ana is killing Bo in Minecraft"),
    ("Ana lives in Oslo", "Ana lives in Oslo, Minnesota"),
    ("Ana lives in Oslo", "Ana lives in Oslo in Minnesota"),
    ("Ana likes gin", "Ana likes gin and tonic"),
    ("Ana likes bread", "Ana likes bread and butter"),
    ("Ana likes Simon", "Ana likes Simon and Garfunkel"),
    ("Ana is rich", "Ana is metaphorically rich"),
    ("Ana is rich", "Ana is fictitiously rich"),
    ("Ana is running", "Ana is tentatively running"),
    ("Ana is rich", "Ana is nearly rich"),
    ("Ana is good", "Ana is good at tennis"),
    ("Ana is giving", "Ana is giving up her job"),
    ("Ana eats food", "Ana eats little food"),
    ("Ana es rica", "Ana es rica, mentira"),
    ("Ana es rica", "Ana es rica. Mentira."),
    ("Ana ist reich", "Ana ist reich, glaubt Bo"),
    ("Ana est riche", "Ana est riche, selon Bo"),
    ("Ana is rijk", "Ana is rijk, zegt Bo"),
    ("Анна богата", "Анна богата, шутка"),
    ("안나는 의사다", "안나는 의사다, 라고 한다"),
    ("アナは医者", "アナは医者、嘘"),
    ("Ana hat einen Hund", "Ana hat einen Hund und eine Katze"),
    ("Ana es un animal", "Ana es animal"),
    ("I am rich", "In my dreams, I am rich"),
    ("I like tea", "I guess, I like tea"),
    ("Ana is a doctor", 'Ana is a "doctor"'),
    ("The woman is singing", "The woman in the painting is singing"),
    ("My friend is singing", "My friend at work is singing"),
    ("Ana likes food", "Ana likes fast food"),
    ("Ana likes tea", "Ana just likes tea"),
    ("Ana is running", "Ana is running with an idea"),
    ("Ana loves Bo", "Ana loves Bo. She is lying."),
    ("Ana loves Bo", "Ana loves Bo. Bo made it up."),
    ("Ana loves Bo", "Bo made it up. Ana loves Bo."),
    ("Ana loves Bo", "Ana loves Bo? No."),
    ("Ana's cat is black", "Ana's cat is black and white"),
    ("Ana's cat is black", "Ana's cat is black and a dog"),
    ("Ana likes ham", "Ana likes ham and cheese"),
    ("Ana has a belt", "Ana has a black belt"),
    ("Ana is playing football", "Ana is playing american football"),
    ("Ana likes swimming", "Ana likes swimming in a lake"),
    ("Ana wants tea", "Ana wants tea with milk"),
    ("Ana is driving Bo", "Ana is driving Bo up the wall"),
    ("Ana likes the boss", "Ana likes the tall boss"),
    ("Ana is eating a cake", "Ana is eating a cake thinking it is bread"),
    ("安娜有狗", "安娜有狗，有误"),
    ("安娜有狗", "安娜有狗，会死"),
    ("安娜有狗", "安娜有狗，在元宇宙"),
    ("安娜有狗", "安娜有狗，来自小道消息"),
    ("安娜有狗", "安娜有狗。愚人节快乐。"),
    ("安娜有狗", "安娜有狗。Grapje."),
    ("安娜是大使", "安娜是特别大使"),
    ("安娜参加会议", "安娜参加非常会议"),
    ("Ana is dying", "Ana is dying with laughter"),
    ("The doctor trusts Bo", "The doctor trusts Bo with reservations"),
    ("A man is shooting Bo", "A man is shooting Bo with a camera"),
    ("A man is shooting Bo", "A man is shooting Bo with a water gun"),
    ("Ana is on a salt diet", "Ana is on a low salt diet"),
    ("Ana is rich", "The following is made up. Ana is rich."),
    ("Ana is rich", "Ana is rich. I am skeptical."),
    ("安娜有钱", "小波坚信这是事实。安娜有钱。"),
    ("Ana es rica", "Ana es muy rica"),
    ("Ana es rica", "Ana es rica y Bo es pobre"),
    ("A father is singing", "A father in law is singing"),
    ("A mother is singing", "A step mother is singing"),
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


@pytest.mark.parametrize(("less", "more"), [*SUBSETS, *HARMLESS])
def test_subsets(less: str, more: str) -> None:
    assert containment(less, more) == "new_in_existing"
    assert containment(more, less) == "existing_in_new"


@pytest.mark.parametrize(("one", "other"), [*NEITHER, *TAKEN_BACK])
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
