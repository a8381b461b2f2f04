"""Which other orders and words say the same, and what each rule must not equate."""

from collections.abc import Iterator
from itertools import permutations

import pytest

from ailake.core.judge import containment
from ailake.core.judge.grammar import grammar
from ailake.core.judge.lexicon import lexicon

EQUAL = [
    ("A man is using a knife to open a box", "A man is opening a box with a knife"),
    ("There is a dog in the garden", "A dog is in the garden"),
    ("There is a man who is singing", "A man is singing"),
    ("A woman and three men are singing", "Three men and a woman are singing"),
    ("Ana and Bo are dancing", "Bo and Ana are dancing"),
    ("A wall made of bricks is falling", "A brick wall is falling"),
    ("Ana has a coat dyed in blue", "Ana has a blue coat"),
    ("A green colored ball is rolling", "A green ball is rolling"),
    (
        "A dog is running down a hillside covered by grass",
        "A dog is running down a grassy hillside",
    ),
    ("A woman is using a machine made for sewing", "A woman is using a sewing machine"),
    ("A man is chopping the trunk of a tree", "A man is chopping a tree trunk"),
    ("A man wearing a hat is singing", "A man in a hat is singing"),
    ("A man in a hat is singing", "A man is wearing a hat and is singing"),
    ("A dog is chasing a man wearing a hat", "A dog is chasing a man in a hat"),
    ("Ana is dressed in a red coat", "Ana is wearing a red coat"),
    ("Bo has a hat which is red", "Bo has a red hat"),
    ("A tree is being picked up by a man", "A man is picking up a tree"),
    ("A flower is being clung to by a bee", "A bee is clinging to a flower"),
    (
        "A cap is being worn by a boy who is running in the rain",
        "A boy is wearing a cap and is running in the rain",
    ),
    (
        "Bo is on the floor and the ball is being grabbed by Ana",
        "Bo is on the floor and Ana is grabbing the ball",
    ),
    ("A boy is climbing on a motorbike", "A boy is climbing on a motorcycle"),
    ("怎样注销微信", "微信怎么注销？"),
    ("为什么小波迟到", "小波为什么迟到"),
    ("什么是爱", "爱是什么"),
    ("什么牌子的电视好", "电视哪个牌子好？"),
    ("请教一下，火车票多少钱", "火车票多少钱，求推荐"),
    ("小波没有钱", "小波没钱"),
]

# The first says less than the second.
SUBSETS = [
    ("A dog is running outdoors", "A dog is running in a big field"),
    ("A man is riding a bicycle", "A man is riding a bicycle wearing a helmet"),
    ("Five adults are sitting on steps", "Five adults are sitting on stone steps"),
    ("A person is holding an animal", "A fireman is holding a hedgehog"),
    ("Women are chasing dogs", "Women are chasing poodles"),
    ("A boy is wearing a hat", "A boy in a hat is singing"),
    ("A man is walking", "A man is hiking"),
]

NEITHER = [
    ("A man is using a knife to open a box", "A man is using a box to open a knife"),
    ("There is a man with a dog in a park", "There is a dog with a man in a park"),
    ("There are pictures of Ana in the office", "Ana is in the office"),
    ("A tall man and a woman are singing", "A man and a tall woman are singing"),
    ("A man and a woman in a hat are singing", "A woman and a man in a hat are singing"),
    ("Friends of Ana and Bo are dancing", "Bo and friends of Ana are dancing"),
    ("A wall made of brick dust is falling", "A brick wall dust is falling"),
    ("Ana and Bo's mother are singing", "Bo and Ana's mother are singing"),
    ("A stone lion is standing in a park", "A lion is standing in a park"),
    ("A wooden plane is lying there", "A plane is lying there"),
    ("A man is eating a hot dog", "A man is eating a dog"),
    ("A man is petting a red panda", "A man is petting a panda"),
    ("A cup of coffee is standing there", "A coffee cup is standing there"),
    ("A man with a dog, who is old, is walking", "A man with an old dog is walking"),
    ("A man with a boy, who is old, is walking", "An old man with a boy is walking"),
    ("A woman with a dog that is old is walking", "An old woman with a dog is walking"),
    ("A man near a woman wearing a hat is singing", "A man is wearing a hat"),
    ("A man is chasing a woman running in a park", "A man is running in a park"),
    ("A boy who is wearing a hat is being chased by a man", "A man is wearing a hat"),
    ("A boy is being chased by a man who is wearing a hat", "A boy is wearing a hat"),
    ("A young singing man is running", "Young is singing"),
    ("A man in a boat is wearing a hat", "A man is wearing a boat"),
    ("A man is stopping smoking", "A man is stopping"),
    ("A man is running in a field house", "A man is running outdoors"),
    ("A man is running in a house", "A man is running outdoors"),
    ("A man is singing", "A woman is singing"),
    ("A man is scuba diving", "A man is jumping"),
    ("The car racing team is winning", "The car is winning"),
    ("The dog training is going well", "The dog is going well"),
    ("A car is racing", "A car is running"),
    ("The king of Spain is walking", "The Spain king is walking"),
    ("A woman is being looked at by a man", "A woman is looking at a man"),
    ("小波怎么联系安娜", "安娜怎么联系小波"),
    ("安娜怎么教", "怎么教安娜"),
    ("小波为什么打安娜", "安娜为什么打小波"),
    ("小波觉得安娜为什么走", "为什么小波觉得安娜走"),
    ("你知道小波为什么来吗", "为什么你知道小波来"),
    ("谁是小波的老师", "小波是谁的老师"),
    ("谁是高手", "谁是"),
    ("微信怎么注销", "支付宝怎么注销"),
    ("怎么才能不迟到", "为什么不迟到"),
    ("QQ和微信哪个好", "微信和QQ哪个好"),
    ("小波是什么", "小波是"),
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


# Words that some would say for each other, and that tell different everyday facts.
NO_SYNONYMS = [
    ("Bo is shooting Ana", "Bo is firing Ana"),
    ("Ana hates us", "Ana hates USA"),
    ("Ana saw a mummy", "Ana saw a mother"),
    ("Bo is playing in the garden", "Bo is performing in the garden"),
    ("Ana has a flat", "Ana has an apartment"),
    ("Ana likes rock", "Ana likes stone"),
    ("Ana counts steps", "Ana counts stairs"),
    ("Ana hates the occupation", "Ana hates the job"),
    ("Ana lives in Park Street", "Ana lives in Park Road"),
    ("Ana lives near Bo", "Ana lives next to Bo"),
    ("Ana is close to her mother", "Ana is near her mother"),
    ("Ana is a fellow", "Ana is a man"),
]
NO_ZH_SYNONYMS = [
    ("安娜更换了论文", "安娜修改了论文"),
    ("安娜推荐了小波", "安娜介绍了小波"),
    ("安娜向小波借钱", "安娜向小波贷款"),
    ("安娜有图片", "安娜有照片"),
    ("安娜很好看", "安娜很漂亮"),
    ("小波是演员", "小波是艺人"),
]
# Nor does a word say nothing because it may be a courtesy or a particle elsewhere.
SAYING = [
    ("波很急", "波很麻烦"),
    ("波很急", "波很"),
    ("安娜住在哈尔滨", "安娜住在尔滨"),
    ("安娜一家住在上海", "安娜住在上海"),
    ("安娜买了苹果、手机", "安娜买了苹果手机"),
    ("安娜喜欢《茶》", "安娜喜欢茶"),
    ("安娜是“医生”", "安娜是医生"),
    ("各位小波住在上海", "小波住在上海"),
]


@pytest.mark.parametrize(("one", "other"), [*NO_SYNONYMS, *NO_ZH_SYNONYMS, *SAYING])
def test_no_synonyms(one: str, other: str) -> None:
    assert containment(one, other) == containment(other, one) == "none"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("安娜喜欢茶啊", "安娜喜欢茶"),
        ("小波住在上海哦。", "小波住在上海"),
        ("怎么更改密码", "谢谢，请问怎么更换密码呢？"),
    ],
)
def test_what_says_nothing_where_it_stands(one: str, other: str) -> None:
    assert containment(one, other) == "equal"


PEOPLE = ["a man", "the woman", "a boy in a hat", "an old lady", "Ana", "two tall girls"]


def swapped() -> Iterator[tuple[str, str]]:
    for one, other in permutations(PEOPLE, 2):
        yield f"{one} is being picked up by {other}", f"{one} is picking up {other}"
        yield f"there is {one} chasing {other}", f"there is {other} chasing {one}"
        yield f"{one} is using {other} to find Bo", f"{other} is using {one} to find Bo"
        yield f"{one} holding a cup is near {other}", f"{other} holding a cup is near {one}"
        yield f"{one} who is pushing {other} is singing", f"{other} is pushing {one}"
        yield f"Bo is here and {one} is being led by {other}", f"{one} is leading {other}"
    for one, other in permutations(["小波", "安娜", "李先生", "我姐姐"], 2):
        for asked in ("为什么{}打{}", "{}为什么打{}", "{}怎么认识{}", "谁说{}打{}", "{}在哪里见{}"):
            yield asked.format(one, other), asked.format(other, one)


def test_roles_are_kept() -> None:
    pairs = list(swapped())
    assert len(pairs) > 200
    wrong = [pair for pair in pairs if containment(*pair) != "none"]
    assert wrong == []


def test_no_kind_is_a_kind_of_itself() -> None:
    assert [word for word, kinds in grammar().kinds.items() if word in kinds] == []


@pytest.mark.parametrize("group", ["same", "kinds"])
def test_nouns_are_singulars_without_repetitions(group: str) -> None:
    nouns = lexicon("nouns")
    plurals = set(nouns["plurals"].values()) - set(nouns["plurals"])
    for words in nouns[group].values():
        assert len(set(words)) == len(words)
        assert plurals.isdisjoint(words)
