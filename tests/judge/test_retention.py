"""What is not worth keeping, and what must be kept however much it looks like that."""

import pytest

from ailake.core.judge import Candidate, MemoryItem, judge, low_value, retention
from ailake.core.prompts import CLOSING
from ailake.core.records import Scope


def item(text: str, source: str = "direct", role: str = "user") -> MemoryItem:
    return MemoryItem("new", text, Scope("a"), role=role, source=source)


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


ASKING = [
    "Can you suggest snacks that I can eat at work?",
    "Can you recommend wood types, and what finish works well with them?",
    "What time is it?",
    "Can you help me with this?",
    "Please summarize this article.",
    "Please help me",
    "帮我写一封邮件",
    "给我讲个笑话",
    "请告诉我天气怎么样了",
    "告诉我发生了什么",
    "请问我是谁",
    "Tell me what I should do",
    "Can you tell me where I am?",
    "你妈妈呢？",
    "那你呢",
    "怎么办呢",
    "钥匙呢",
    "请过来",
    "请假装你是老师",
    "请帮我看看我的手机怎么了",
    "Please translate this, thanks",
    "Write a poem about spring, please",
    "帮我写一首诗，关于春天",
    "能不能帮我叫个车",
    "Can I come?",
    "Should I go?",
    "Is my dog ill?",
    "Why am I so tired?",
    "How can I learn Spanish?",
    "Who is my boss?",
    "Give me a recipe with eggs",
    "请翻译这句话，谢谢",
    "请帮我解释一下量子力学",
    "What should I cook when I am sad?",
    "请了解一下这个",
    "给我们讲个故事",
    "麻烦帮我订个酒店",
    "我是不是很胖？",
    "你知道我是谁吗",
    "我妈妈什么时候来呢",
    "Hi! Can you explain recursion to me?",
]

NOISE = [
    "Jan  5 12:34:56 myhost sshd[123]: Failed password for root",
    "Nov 30 20:55:01 web1 kernel: oom",
    "2026-11-30T20:55:01.123456+00:00 host systemd[1]: Started",
    '127.0.0.1 - - [30/Nov/2026:20:55:01 +0000] "GET / HTTP/1.1" 200 12',
    "2026-11-30 20:55:01,123 - app.main - INFO - started",
    "npm ERR! code ENOENT",
    'ValueError: invalid literal for int() with base 10: "a"',
    "requests.exceptions.ConnectionError: HTTPSConnectionPool",
    "2026/11/30 20:55:01 [error] 123#0: *1 open() failed",
    'INFO:     127.0.0.1:52338 - "GET / HTTP/1.1" 200 OK',
    "WARNING:root:disk full",
    "TypeError: x is not a function",
    "[INFO] started at 12:00:00",
    "2024-05-01 12:00:00 [main] INFO com.Foo - started",
    'time=2024 level=info msg="x"',
    "$ git status",
    "$ ls -la\nfoo\nbar",
    "You are an AI assistant. Be kind.",
    "You are an expert, answer",
    'weather({"city": "Oslo"})',
    'Exception in thread "main" java.lang.NullPointerException: x',
    "Output:\nTraceback (most recent call last):\n  File \"a\", line 3\n    foo()\nKeyError: 'a'",
]

# Each looks like a request, a question, a lone word or what a machine writes, and tells something.
TELLING = [
    "Write a poem for my wife Ana, who is a surgeon",
    "请病假两周养腰",
    "请愿书是我写的",
    "Can you recommend snacks that I can't find in Oslo, I can eat no nuts",
    "Can you suggest snacks for somebody as I can't eat nuts?",
    "给我儿子起名叫小明",
    "给我妈妈买了一套房子",
    "请假三天去看妈妈",
    "请了一个保姆照顾孩子",
    "告诉我妈妈我怀孕了",
    "请不要给我推荐含花生的食物，我对花生过敏",
    "麻烦的是我对花生过敏",
    "帮我记一下我对花生过敏",
    "我妈妈在医院呢",
    "Please be aware that I am allergic to nuts",
    "Please call me Bob",
    "Help me, I have diabetes",
    "ผมชอบกาแฟ",
    "나는학생입니다",
    "ຂ້ອຍມັກກາເຟ",
    "ខ្ញុំចូលចិត្តកាហ្វេ",
    "ကျွန်တော်ကော်ဖီကြိုက်တယ်",
    "わたしはがくせいです",
    "ワタシハガクセイデス",
    "You are an air traffic controller",
    "You are an aikido teacher",
    "$ 500 is the rent",
    "Can you recommend a restaurant? I'm vegan",
    "Can you recommend a restaurant, I am allergic to nuts?",
    "Can you suggest a gift for me because my wife is vegan?",
    "请推荐一家餐厅，我吃素",
    "请帮我推荐餐厅，我老婆对花生过敏",
    "能不能推荐一家餐厅，我对花生过敏？",
    "Please always answer in German",
    "请用中文回答",
    "请叫我小明",
    "以后请叫我老王",
    "Please don't recommend meat",
    "请教过李老师书法",
    "请了三天假",
    "请保姆照顾孩子花了五千",
    "给我打电话的是我妈",
    "给我印象最深的是罗马",
    "请我妈妈吃了一顿饭",
    "帮我姐姐搬家",
    "告诉我的人是安娜",
    "My doctor found my heartbeat OK",
    "Exit code 3 is the code of my garage",
    "Info on my marathon: I ran it in 03:15:20",
    "The ValueError: invalid literal in my thesis code cost me a week",
    'I got "npm ERR! code ENOENT" at work today',
    "You are an AI engineer at Acme",
    "You are an assistant professor",
    "Please write a story, my dog Rex is the hero",
    "Tell me a joke. My name is Bo",
    "麻烦你别给我打电话",
    "Please use metric units, I live in Oslo",
    "Could you call me Bo from now on?",
    "Do you know that I am allergic to nuts",
    "我儿子在北京上学呢",
    "我爱吃花生呢",
    "安娜还没结婚呢",
    "Error: I can't log in at work since Monday",
    "I work at Acme and my logs say:\n2024-05-01 12:00:00 ERROR connection lost",
    "Jan 5 is my birthday: come",
    "帮我把房子卖了",
    "请的保姆是湖南人",
    "请人装修了房子",
    "给我家狗起名叫旺财",
    "Given that I'm diabetic, what can I eat?",
    "我请了假",
    "Help me: I am diabetic",
    "Explain to Ana that my dog is dead now",
    "May 5 12:30:00 Ana wrote: I moved",
    "2024-05-01 12:00:00 I had an error in my thesis",
    "Let me know if you hear from Ana, she moved to Rome",
    "告诉我一声，我妈来了",
    "请客吃饭是我的习惯",
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


@pytest.mark.parametrize("text", ASKING)
def test_what_asks_and_tells_nothing_is_deferred(text: str) -> None:
    assert low_value(item(text)) == "N2"


@pytest.mark.parametrize("text", NOISE)
def test_what_a_machine_writes_is_deferred(text: str) -> None:
    assert low_value(item(text)) == "N4"


@pytest.mark.parametrize("text", TELLING)
def test_what_tells_something_is_kept_whatever_it_looks_like(text: str) -> None:
    assert low_value(item(text)) == ""


@pytest.mark.parametrize("text", ["กาแฟ", "땅콩", "コー", "แมว"])
def test_a_lone_word_of_a_language_without_spaces_says_nothing(text: str) -> None:
    assert low_value(item(text)) == "N5"


@pytest.mark.parametrize("role", ["system", "developer", "tool", "function"])
def test_what_a_program_says_to_a_model_is_noise_whatever_it_says(role: str) -> None:
    assert low_value(item("Ana is allergic to peanuts", role=role)) == "N4"


@pytest.mark.parametrize("source", ["system", "tool"])
def test_what_a_person_takes_from_a_program_is_judged_by_what_it_says(source: str) -> None:
    assert low_value(item("Ana is allergic to peanuts", source)) == ""
    assert low_value(item("npm ERR! code ENOENT", source)) == "N4"


# Patterns tried every way to cut these into phrases, or looked at the rest from every line.
LENGTH = 200_000


@pytest.mark.parametrize(
    ("many", "end"),
    [
        ("嗯", "我妈妈是老师"),
        ("哈", "我妈妈是老师"),
        ("刚", "我妈妈"),
        ("太好了好", "我妈妈是老师"),
        ("bye ", "my mother is a teacher"),
        ("i am so very really ", "my mother is a teacher"),
        ("i am tired now ", "my mother is a teacher"),
        ("\n", "my mother is a teacher"),
        ("\n \t", "my mother is a teacher"),
        ("\n at a(", "my mother is a teacher"),
        ("a.", "my mother is a teacher"),
    ],
)
def test_long_texts_are_told_in_time(many: str, end: str) -> None:
    for opening in ("", "x 我 "):
        text = opening + many * (LENGTH // len(many))
        assert low_value(item(f"{text} {end}")) == ""
        low_value(item(text))


@pytest.mark.parametrize(
    ("many", "kind"), [("嗯", "N1"), ("哈", "N1"), ("bye ", "N1"), ("刚", "N3"), ("很", "N3")]
)
def test_a_long_text_of_phrases_alone_is_what_they_are(many: str, kind: str) -> None:
    end = {"N1": "", "N3": "累"}[kind]
    assert low_value(item(many * (LENGTH // len(many)) + end)) == kind
