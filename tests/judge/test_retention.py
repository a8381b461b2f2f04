"""What is not worth keeping, and what must be kept however much it looks like that."""

import pytest

from ailake.core.judge import Candidate, MemoryItem, judge, low_value, retention
from ailake.core.prompts import CLOSING
from ailake.core.records import Scope


def item(text: str, source: str = "direct") -> MemoryItem:
    return MemoryItem("new", text, Scope("a"), source=source)


LOW = {
    "N1": [
        "Hi!",
        "hello there",
        "Thanks a lot!",
        "Thank you so much :)",
        "OK",
        "okay, got it.",
        "👍 great",
        "Good morning everyone",
        "yes",
        "you're welcome",
        "你好",
        "谢谢！",
        "好的，明白了。",
        "嗯嗯",
        "早上好",
        "謝謝你",
        "안녕하세요",
        "ありがとうございます",
        "merci",
        "haha ok bye",
        "How are you?",
    ],
    "N2": [
        "What time is it?",
        "Can you help me with this?",
        "Please summarize this article.",
        "Tell me a joke",
        "Write a poem about spring",
        "Where is the station? And when does it open?",
        "Hi! Could you translate this?",
        "现在几点了？",
        "帮我写一封邮件",
        "请翻译这句话",
        "你是学生吗",
        "怎么更换手机号？",
        "Explain quantum computing to me.",
    ],
    "N3": [
        "I'm tired",
        "I am so hungry right now",
        "brb",
        "so bored",
        "I'm on the bus",
        "going to lunch",
        "stuck in traffic again",
        "我好累",
        "饿了",
        "我在开会",
        "去洗澡了",
        "我去吃饭了",
        "有点困",
        "I'm doing the dishes",
    ],
    "N4": [
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nKeyError: 'a'",
        "2024-05-01 12:00:00 ERROR connection lost",
        '{"status": "ok", "items": [1, 2]}',
        "java.lang.NullPointerException\n    at com.foo.Bar.baz(Bar.java:42)",
        "You are a helpful assistant. Answer briefly.",
        "<|im_start|>system",
        "HEARTBEAT_OK",
        f"- Ana is allergic to peanuts {CLOSING}",
        "exit code: 1",
    ],
    "N5": ["", "   ", "...", "😀😀", "42", "peanuts", "?!", "花生", "---"],
}
KEPT = [
    "Ana is allergic to peanuts",
    "My name is Ana",
    "I like tea",
    "I'm tired of my job at the bank",
    "I am a doctor",
    "Remember that I am vegan",
    "Please remember my birthday",
    "请记住我对花生过敏",
    "别忘了我是素食者",
    "I moved to Oslo. Can you recommend a bakery?",
    "I love hiking, do you?",
    "Thanks, Ana lives in Oslo",
    "我喜欢喝茶",
    "我对花生过敏",
    "我叫安娜",
    "安娜住在上海，你呢？",
    "Hot chocolate is my favourite drink",
    "What I love most is jazz",
    "When I was five we lived in Rome",
    "My cat is called {Tom}",
    "The error in my thesis upset me",
    "I work on the bus line 5",
    "안나는 땅콩 알레르기가 있다",
    "Ana vive en Madrid",
    "I'm hungry for success in my career",
    "我在银行上班",
    "My dog is always hungry",
    "Can't eat nuts",
    "Was born in Rome",
    "Am allergic to nuts",
    "Would love a dog",
]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind in LOW for text in LOW[kind]])
def test_low_value(kind: str, text: str) -> None:
    assert low_value(item(text)) == kind
    assert not retention(item(text))
    assert judge(item(text), []).decision == "defer"


@pytest.mark.parametrize("text", KEPT)
def test_kept(text: str) -> None:
    assert low_value(item(text)) == ""
    assert retention(item(text))


def test_recalled_memories_are_noise_whatever_they_say() -> None:
    assert low_value(item("Ana is allergic to peanuts", "recalled")) == "N4"


def test_a_deferred_memory_met_again_is_skipped() -> None:
    old = Candidate(MemoryItem("old", "Thanks", Scope("a")), 1.0, "lexical")
    assert judge(item("thanks!"), [old]).decision == "skip"
