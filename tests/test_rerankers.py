"""A real cross-encoder, tiny and made here: its logit is the share of a text's words in the query.

It reads ids, token types and nothing else; ids above 3 are words.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier

import numpy as np
import onnx.parser
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import ailake
from ailake import CrossEncoderReranker
from ailake.core.reranking import Reranker
from ailake.errors import InvalidInputError

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
WINDOW = 24
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = [
    "which",
    "city",
    "hosts",
    "the",
    "quetzal",
    "exhibition",
    "opens",
    "in",
    "i",
    "like",
    "soup",
]
QUERY = "which city hosts the quetzal exhibition"
TEXTS = ["i like soup", "the quetzal exhibition opens in city", "the soup"]

GRAPH = """
<ir_version: 8, opset_import: ["" : 17]>
overlap (int64[n, len] input_ids, int64[n, len] token_type_ids) => (float[n, 1] logits)
<int64 last_special = {3}, int64[1] rows = {1}, int64[1] columns = {2}, int64[1] width = {1},
 int64 text_type = {1}, float steep = {STEEP}, float half = {0.5}>
{
  word = Greater(input_ids, last_special)
  of_text = Equal(token_type_ids, text_type)
  of_query = Not(of_text)
  asked = And(word, of_query)
  said = And(word, of_text)
  one = Unsqueeze(input_ids, columns)
  other = Unsqueeze(input_ids, rows)
  same = Equal(one, other)
  asked_row = Unsqueeze(asked, rows)
  met = And(same, asked_row)
  met_number = Cast<to = 1>(met)
  met_any = ReduceMax<axes = [2], keepdims = 0>(met_number)
  said_number = Cast<to = 1>(said)
  shared = Mul(met_any, said_number)
  shared_sum = ReduceSum<keepdims = 1>(shared, width)
  said_sum = ReduceSum<keepdims = 1>(said_number, width)
  share = Div(shared_sum, said_sum)
  centred = Sub(share, half)
  logits = Mul(centred, steep)
}
"""


def make_model(
    folder: Path, *, file: str = "model.onnx", steep: float = 8, window: int | None = WINDOW
) -> Path:
    """Write a model whose logit is ``steep * (share - 0.5)``, and its tokenizer."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(onnx.parser.parse_model(GRAPH.replace("STEEP", str(float(steep)))), path)
    ids = {word: n for n, word in enumerate(SPECIAL + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"pad_token": "[PAD]", **({"model_max_length": window} if window else {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def shares_of(shares: list[float], *, steep: float = 8) -> list[float]:
    return [1 / (1 + float(np.exp(-steep * (share - 0.5)))) for share in shares]


def run(code: str, *arguments: str, env: Mapping[str, str] = os.environ) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


def test_relevance_is_the_sigmoid_of_the_logits(model: Path) -> None:
    reranker = CrossEncoderReranker("overlap", folder=model)
    assert isinstance(reranker, Reranker)
    assert reranker.id == "cross-encoder:overlap"
    found = reranker.relevance(QUERY, TEXTS)
    assert found.shape == (3,)
    assert found.tolist() == pytest.approx(shares_of([0, 4 / 6, 1 / 2]), abs=1e-6)


def test_batches_make_no_difference(model: Path) -> None:
    texts = [" ".join(WORDS[n % 7 : n % 7 + 1 + n % 5]) for n in range(50)]
    whole = CrossEncoderReranker("overlap", folder=model).relevance(QUERY, texts)
    small = CrossEncoderReranker("overlap", folder=model, batch_size=3, threads=1)
    np.testing.assert_allclose(small.relevance(QUERY, texts), whole, atol=1e-6)


def test_steep_logits_stay_between_0_and_1(tmp_path: Path) -> None:
    steep = CrossEncoderReranker("steep", folder=make_model(tmp_path / "m", steep=1e5))
    assert steep.relevance(QUERY, ["soup", "city"]).tolist() == [0, 1]


def test_recall_takes_its_order(memory: ailake.Memory, model: Path) -> None:
    ids = [memory.remember(text, now=NOW).id for text in TEXTS]
    reranker = CrossEncoderReranker("overlap", folder=model)
    hits = memory.recall(QUERY, reranker=reranker, now=NOW)
    assert [hit.id for hit in hits] == [ids[1], ids[2], ids[0]]
    relevance = hits.explain()["relevance"].to_list()
    assert relevance == pytest.approx(shares_of([4 / 6, 1 / 2, 0]), abs=1e-6)
    other = memory.recall("soup i like", reranker=reranker, now=NOW)
    assert [hit.id for hit in other] == [ids[0], ids[2], ids[1]]


def test_what_the_model_does_not_read_is_cut(model: Path) -> None:
    reranker = CrossEncoderReranker("overlap", folder=model)
    late, early = f"{'soup ' * WINDOW}quetzal", f"quetzal {'soup ' * WINDOW}"
    found = reranker.relevance("quetzal", [late, early])
    assert found[0] == pytest.approx(shares_of([0])[0], abs=1e-6)
    assert found[1] > found[0]


def test_no_texts_load_nothing(model: Path, memory: ailake.Memory) -> None:
    reranker = CrossEncoderReranker("overlap", folder=model)
    (model / "model.onnx").write_bytes(b"no model any more")
    assert reranker.relevance(QUERY, []).shape == (0,)
    assert list(memory.recall(QUERY, reranker=reranker, now=NOW)) == []


def test_threads_load_it_once(model: Path) -> None:
    reranker = CrossEncoderReranker("overlap", folder=model)
    expected = CrossEncoderReranker("overlap", folder=model).relevance(QUERY, TEXTS)
    together = Barrier(8)

    def work(_: int) -> tuple[object, list[float]]:
        together.wait()
        return reranker._loaded(), reranker.relevance(QUERY, TEXTS).tolist()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert len({id(encoder) for encoder, _ in found}) == 1
    assert [answer for _, answer in found] == [expected.tolist()] * 8


def test_models_of_several_folders_are_kept_apart(tmp_path: Path) -> None:
    files = ["model.onnx", "onnx/model.onnx", "small.onnx", "Small.onnx", "onnx/small.onnx"]
    for steep, file in enumerate(files, 1):
        folder = make_model(tmp_path / str(steep), file=file, steep=steep)
        found = CrossEncoderReranker("same name", folder=folder).relevance("city", ["city"])
        assert found.tolist() == pytest.approx(shares_of([1], steep=steep), abs=1e-6)


def test_the_usual_file_goes_before_others(model: Path) -> None:
    (model / "model_int8.onnx").write_bytes(b"another")
    assert CrossEncoderReranker("overlap", folder=model).relevance("city", ["city"])[0] > 0.9


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "model.onnx"])
def test_a_folder_that_lacks_a_file(model: Path, name: str) -> None:
    (model / name).unlink()
    with pytest.raises(InvalidInputError, match=rf"^folder: .*{name}"):
        CrossEncoderReranker("overlap", folder=model)


def test_folders_that_are_none(tmp_path: Path, model: Path) -> None:
    for folder in (tmp_path / "absent", model / "model.onnx", str(model)):
        with pytest.raises(InvalidInputError, match=r"^folder: .*an existing folder"):
            CrossEncoderReranker("overlap", folder=folder)  # type: ignore[arg-type]
    for name in ("a.onnx", "b.onnx"):
        (model / name).write_bytes(b"")
    (model / "model.onnx").unlink()
    with pytest.raises(InvalidInputError, match=r"^folder: .*a single \.onnx file"):
        CrossEncoderReranker("overlap", folder=model)


def test_a_folder_whose_files_make_no_model(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "m", window=None)
    reranker = CrossEncoderReranker("overlap", folder=folder)
    for _ in range(2):  # the failure is no state
        with pytest.raises(InvalidInputError, match=r"^folder: .*model_max_length"):
            reranker.relevance(QUERY, TEXTS)
    make_model(folder)
    assert reranker.relevance(QUERY, TEXTS).shape == (3,)


def test_models_that_are_none(model: Path) -> None:
    CrossEncoderReranker("no/such-model", folder=model).relevance(QUERY, TEXTS)
    with pytest.raises(InvalidInputError, match=r"^model: .*Xenova/ms-marco-MiniLM-L-6-v2") as said:
        CrossEncoderReranker("no/such-model")
    assert "ailake" not in str(said.value)
    for name in ("", None):
        with pytest.raises(InvalidInputError, match=r"^model: "):
            CrossEncoderReranker(name)  # type: ignore[arg-type]


def test_a_known_model_is_not_fetched_before_its_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    reranker = CrossEncoderReranker("Xenova/ms-marco-MiniLM-L-6-v2")
    assert reranker.relevance(QUERY, []).shape == (0,)
    assert not (tmp_path / "cache").exists()
    with pytest.raises(ValueError, match="Could not load model"):
        reranker.relevance(QUERY, TEXTS)


@pytest.mark.parametrize("name", ["batch_size", "threads"])
@pytest.mark.parametrize("value", [0, True, "1"])
def test_numbers_are_positive_ints(model: Path, name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=f"^{name}: .*a positive int"):
        CrossEncoderReranker("overlap", folder=model, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("package", ["fastembed", "onnxruntime"])
def test_a_missing_extra_is_said_at_once(package: str) -> None:
    code = """
import sys
sys.modules[sys.argv[1]] = None
import ailake
try: ailake.CrossEncoderReranker("Xenova/ms-marco-MiniLM-L-6-v2")
except ailake.MissingExtraError as error: print(error)
"""
    assert "CrossEncoderReranker needs" in run(code, package)
    assert "ailake-memory[rerank]" in run(code, package)


QUIET = """
import os, sys
from pathlib import Path
import ailake
found = ailake.CrossEncoderReranker("m", folder=Path(sys.argv[1])).relevance("city", ["city"])
print(found[0] > 0.9, list(Path(os.environ["HOME"]).rglob("*")))
"""


def test_nothing_is_reported_and_nothing_left_behind(model: Path, tmp_path: Path) -> None:
    """onnxruntime keeps what it is going to report, and who reports it, in a folder at home."""
    home = tmp_path / "home"
    home.mkdir()
    # Not CI's variables: onnxruntime is silent there anyway.
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    said = run(QUIET, str(model), env={**kept, "HOME": str(home), "TMPDIR": str(home)})
    assert said.strip() == "True []"
