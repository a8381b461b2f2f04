"""Cross-encoders as rerankers, on the CPU: ``pip install 'ailake-memory[rerank]'``."""

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from os import environ
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ailake.errors import InvalidInputError, MissingExtraError

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
_USUAL = ("model.onnx", "onnx/model.onnx")
_OURS = "ailake-file-"
_SILENT = "ORT_DISABLE_TELEMETRY"
_registering = Lock()


class CrossEncoderReranker:
    """A cross-encoder in ONNX, run on the CPU by the packages ``fastembed`` and ``onnxruntime``.

    The model gives one logit for a query and a text, of which a sigmoid makes the relevance. It
    is loaded at the first use and is then safe to use from several threads. Texts, and queries,
    that are longer than the model reads (512 tokens together for most) are cut by the library at
    the end.

    Without ``folder`` the library fetches a model that it does not have yet from Hugging Face, at
    the first use, into the folder that ``FASTEMBED_CACHE_PATH`` names, else into
    ``fastembed_cache`` in the system's folder for temporary files. Nothing else uses the network:
    ``onnxruntime`` reports its use to its maker unless ``ORT_DISABLE_TELEMETRY`` is set when it is
    imported, so this sets it for the process, unless you have set it to anything. Where the
    process has imported ``onnxruntime`` before, it is asked to report no more.

    Args:
        model: With no ``folder``, one of the names of
            ``fastembed.rerank.cross_encoder.TextCrossEncoder.list_supported_models()``, with what
            you have added there. With a folder, any name for what is in it.
        folder: Holds the model: ``tokenizer.json``, ``tokenizer_config.json`` and ``model.onnx``
            or ``onnx/model.onnx``, else a single ``.onnx`` file in one of these places.
        batch_size: Texts read at once; memory grows with it and with the longest of them.
        threads: Of the loaded model, for all calls together; None for one per core.

    Raises:
        MissingExtraError: The ``rerank`` extra is not installed.
        InvalidInputError: An unknown model, a folder without one of these files, or a number that
            is not a positive int.
    """

    def __init__(
        self,
        model: str,
        *,
        folder: Path | None = None,
        batch_size: int = 64,
        threads: int | None = None,
    ) -> None:
        _check_named(model)
        _check_positive("batch_size", batch_size)
        if threads is not None:
            _check_positive("threads", threads)
        if find_spec("fastembed") is None or find_spec("onnxruntime") is None:
            raise MissingExtraError.of("CrossEncoderReranker", extra="rerank")
        self._folder = None if folder is None else _folder_of(folder)
        if self._folder is None:
            _check_known(model)
        self._model = model
        self._batch_size = batch_size
        self._threads = threads
        self._encoder: Any = None
        self._loading = Lock()

    @property
    def id(self) -> str:
        """``cross-encoder:`` and the name of the model."""
        return f"cross-encoder:{self._model}"

    def relevance(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the sigmoid of the model's logits, shape ``(len(texts),)``; no texts, no model.

        Raises:
            InvalidInputError: The files in the folder don't make a model and its tokenizer. Other
                errors of the libraries, among them of a model that can't be fetched, pass
                unchanged.
        """
        if not texts:
            return np.empty(0)
        answers = self._loaded().rerank(query, texts, batch_size=self._batch_size)
        logits = np.fromiter(answers, np.float64, count=len(texts))
        # The sigmoid in a form that does not overflow.
        return 0.5 * (1.0 + np.tanh(0.5 * logits))

    def _loaded(self) -> Any:
        with self._loading:
            if self._encoder is None:
                self._encoder = self._load()
        return self._encoder

    def _load(self) -> Any:
        options = {"threads": self._threads, "providers": ["CPUExecutionProvider"]}
        if self._folder is None:
            return _library()(self._model, **options)
        place, name = str(self._folder), _registered(_model_file(self._folder))
        try:
            # No cache is used, but the library would make its own for temporary files.
            return _library()(name, cache_dir=place, specific_model_path=place, **options)
        except ValueError as error:
            raise InvalidInputError.of(
                "folder", got=place, wanted=f"a model that can be loaded ({error})"
            ) from error


def _library() -> Any:
    """Return fastembed's class, with the reports of onnxruntime switched off."""
    asked = _SILENT in environ
    environ.setdefault(_SILENT, "1")  # onnxruntime reads it while it is imported, and not again
    import onnxruntime  # noqa: PLC0415
    from fastembed.rerank.cross_encoder import TextCrossEncoder  # noqa: PLC0415

    if not asked:
        onnxruntime.disable_telemetry_events()
    return TextCrossEncoder


def _registered(file: str) -> str:
    """Return the name under which fastembed knows models with this file, in whichever folder."""
    library = _library()
    from fastembed.common.model_description import ModelSource  # noqa: PLC0415

    name = f"{_OURS}{file.encode().hex()}"  # it takes names that differ in case for the same
    with _registering:
        if name not in _names():
            # A source is obligatory and is not looked at, as the folder is given.
            library.add_custom_model(name, ModelSource(url="file:"), model_file=file)
    return name


def _names() -> list[str]:
    return [known["model"] for known in _library().list_supported_models()]


def _check_known(model: str) -> None:
    names = [name for name in _names() if not name.startswith(_OURS)]
    if model.lower() not in {name.lower() for name in names}:
        wanted = f"a folder, or one of {', '.join(names)}"
        raise InvalidInputError.of("model", got=model, wanted=wanted)


def _folder_of(folder: object) -> Path:
    """Return the folder, checked, as an absolute path."""
    if not isinstance(folder, Path) or not folder.is_dir():
        raise InvalidInputError.of("folder", got=folder, wanted="the Path of an existing folder")
    missing = [name for name in _TOKENIZER if not (folder / name).is_file()]
    if missing:
        raise InvalidInputError.of("folder", got=str(folder), wanted=f"{missing[0]} in it")
    _model_file(folder)
    return folder.absolute()


def _model_file(folder: Path) -> str:
    """Return the model's file, relative to its folder."""
    usual = [name for name in _USUAL if (folder / name).is_file()]
    found = usual[:1] or list(_onnx_files(folder))
    if len(found) != 1:
        wanted = f"{' or '.join(_USUAL)} in it, or a single .onnx file"
        raise InvalidInputError.of("folder", got=str(folder), wanted=wanted)
    return found[0]


def _onnx_files(folder: Path) -> Iterable[str]:
    for pattern in ("*.onnx", "onnx/*.onnx"):
        for path in folder.glob(pattern):
            yield path.relative_to(folder).as_posix()


def _check_named(model: object) -> None:
    if not isinstance(model, str) or not model:
        raise InvalidInputError.of("model", got=model, wanted="the name of a model")


def _check_positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInputError.of(name, got=value, wanted="a positive int")
