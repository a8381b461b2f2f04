"""Nothing reaches the store from an embedder, or from a caller's own vector, unchecked.

A vector is fit for the store when it has ``dim`` finite numbers, still has them after rounding to
float16 (the stored type), and isn't all zeros then: cosine distance to a zero vector is undefined.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ailake.core.records import is_encodable
from ailake.embed.protocol import Embedder, Vectors, window_of
from ailake.errors import InvalidInputError, shorten

MEMBERS = ("id", "dim", "embed_documents", "embed_query")
FLOAT16_MAX = float(np.finfo(np.float16).max)
# Far enough from where float16 ends that rounding in a sum of squares makes no difference.
SMALL, LARGE = 2.0**-20, 2.0**15


def check_embedder(obj: object) -> Embedder:
    """Return ``obj`` as an embedder.

    Raises:
        InvalidInputError: A member of the protocol is missing, ``id`` is not a non-empty string,
            ``dim`` is not a positive integer, or there is a ``window`` that is none.
    """
    if isinstance(obj, type):
        raise InvalidInputError.of(
            "embedder", got=obj, wanted=f"an instance, such as {obj.__name__}()"
        )
    missing = [name for name in MEMBERS if not hasattr(obj, name)]
    missing += [
        name for name in MEMBERS[2:] if name not in missing and not callable(getattr(obj, name))
    ]
    if missing:
        raise InvalidInputError.of(
            "embedder",
            got=obj,
            wanted=f"an object with {', '.join(MEMBERS)}; it lacks {', '.join(missing)}",
        )
    embedder = cast("Embedder", obj)
    identity: object = embedder.id
    if not isinstance(identity, str) or not identity.strip():
        raise InvalidInputError.of("embedder id", got=identity, wanted="a non-empty string")
    dim: object = embedder.dim
    if not isinstance(dim, int) or isinstance(dim, bool) or dim < 1:
        raise InvalidInputError.of(
            f"dim of embedder {identity!r}", got=dim, wanted="a positive int"
        )
    window_of(embedder)
    return embedder


def embed_documents(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    batch_size: int = 256,
    on_batch: Callable[[int], None] | None = None,
) -> Vectors:
    """Embed the texts batch by batch and check every batch as it comes.

    Args:
        embedder: Any embedder.
        texts: The texts; none means no call to the embedder.
        batch_size: Most texts per call of the embedder.
        on_batch: Called after each checked batch with the number of texts in it.

    Returns:
        Float32, C-contiguous, shape ``(len(texts), embedder.dim)``, not normalised.

    Raises:
        InvalidInputError: A text is not an encodable string, or the embedder's answer has a wrong
            count or shape, or a vector isn't fit for the store. The embedder and the index of the
            first such text are named. What the embedder itself raises passes through.
    """
    if batch_size < 1:
        raise InvalidInputError.of("batch_size", got=batch_size, wanted="a positive int")
    if isinstance(texts, str):
        raise InvalidInputError.of("texts", got=texts, wanted="a sequence of strings")
    for index, text in enumerate(texts):
        _check_text(text, name=f"text {index}")
    dim = embedder.dim
    out = np.empty((len(texts), dim), dtype=np.float32)
    for start in range(0, len(texts), batch_size):
        batch = texts[start : start + batch_size]
        out[start : start + len(batch)] = check_vectors(
            embedder.embed_documents(batch),
            dim=dim,
            name=f"embedder {embedder.id!r}, text",
            count=len(batch),
            start=start,
        )
        if on_batch is not None:
            on_batch(len(batch))
    return out


def embed_query(embedder: Embedder, text: str) -> Vectors:
    """Embed one query, checked like a document.

    Returns:
        Float32, shape ``(embedder.dim,)``, not normalised.

    Raises:
        InvalidInputError: As for ``embed_documents``.
    """
    _check_text(text, name="query")
    return check_vector(
        embedder.embed_query(text), dim=embedder.dim, name=f"embedder {embedder.id!r}, query"
    )


def check_vector(value: object, *, dim: int, name: str) -> Vectors:
    """Return one vector as float32 of shape ``(dim,)``, or refuse it.

    Args:
        value: A list or array of numbers.
        dim: How many numbers are wanted.
        name: What the vector is, for the message.

    Raises:
        InvalidInputError: The value isn't fit for the store.
    """
    row, problem = _read_row(value, dim)
    if problem:
        raise InvalidInputError(f"{name}: {problem}")
    return row


def check_vectors(
    value: object, *, dim: int, name: str, count: int | None = None, start: int = 0
) -> Vectors:
    """Return vectors as float32 of shape ``(n, dim)``, C-contiguous, or refuse them.

    Args:
        value: An array, or a sequence of lists or arrays.
        dim: How many numbers each vector must have.
        name: What the vectors are, for the message, which appends the index.
        count: How many vectors are wanted; None takes any number.
        start: Index of the first vector, for the message.

    Raises:
        InvalidInputError: A wrong number of vectors, or one isn't fit for the store; the message
            has the index of the first.
    """
    rows = _rows(value, name=name, start=start)
    if count is not None and len(rows) != count:
        first = start + min(len(rows), count)
        raise InvalidInputError(
            f"{name} {first}: got {len(rows)} vectors for {count} texts, wanted one vector per text"
        )
    whole = _numbers(rows)
    if whole is not None and whole.shape == (len(rows), dim) and _all_fit(whole):
        return whole
    # Something is wrong or unusual: go row by row, so that the first offender can be named.
    out = np.empty((len(rows), dim), dtype=np.float32)
    for index, row in enumerate(rows):
        out[index], problem = _read_row(row, dim)
        if problem:
            raise InvalidInputError(f"{name} {start + index}: {problem}")
    return out


def _check_text(text: object, *, name: str) -> None:
    if not isinstance(text, str):
        raise InvalidInputError.of(name, got=text, wanted="a string")
    if not is_encodable(text):
        raise InvalidInputError.of(name, got=text, wanted="text that UTF-8 can encode")


def _rows(value: object, *, name: str, start: int) -> Sequence[object] | NDArray[np.generic]:
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return value
    if isinstance(value, list | tuple):
        return value
    if hasattr(value, "__array__") and np.ndim(value) > 0:  # a tensor, an Arrow array
        return np.asarray(value)
    raise InvalidInputError(
        f"{name} {start}: got {shorten(value)} instead of vectors, "
        "wanted a float32 array with one row per text"
    )


def _numbers(value: object) -> Vectors | None:
    """Return the value as float32, or None when it isn't made of real numbers."""
    try:
        array = np.asarray(_joined(value))
    except (ValueError, TypeError):  # ragged; or a value that refuses to become an array
        return None
    if array.dtype.kind not in "fiu":
        return None
    with np.errstate(over="ignore"):  # an overflow shows as infinity and is refused as such
        return np.ascontiguousarray(array, dtype=np.float32)


def _joined(value: object) -> object:
    """Return many arrays of one shape (k,) as one of shape (n, k), faster than numpy's own way."""
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], np.ndarray):
        return value
    shape = value[0].shape
    if len(shape) != 1 or not all(isinstance(v, np.ndarray) and v.shape == shape for v in value):
        return value
    return np.concatenate(value).reshape(len(value), *shape)


def _all_fit(vectors: Vectors) -> bool:
    """Tell whether every row survives float16, of usual ones by their lengths alone.

    No number is larger than the row's length, and one is at least the root of their mean square.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.vecdot(vectors, vectors)
        usual = (squares >= vectors.shape[-1] * SMALL**2) & (squares <= LARGE**2)
    return bool(usual.all() or _fit(vectors).all())


def _fit(vectors: Vectors) -> NDArray[np.bool_]:
    """Tell for each row whether it survives float16: finite, and not all zeros."""
    with np.errstate(over="ignore", under="ignore"):
        half = vectors.astype(np.float16)
    fit = np.isfinite(half).all(axis=-1) & half.any(axis=-1)
    return cast("NDArray[np.bool_]", fit)


def _read_row(value: object, dim: int) -> tuple[Vectors, str]:
    """Return the row, and what is wrong with it (then the row is not to be used)."""
    row = _numbers(value)
    if row is None:
        problem = f"got {shorten(value)}, wanted a vector of {dim} real numbers"
    elif row.shape != (dim,) or np.ndim(cast("Any", value)) != 1:
        shape = np.shape(cast("Any", value))
        problem = f"got a value of shape {shape}, wanted a vector of {dim} numbers"
    elif not np.isfinite(row).all():
        problem = f"got {_first(value, ~np.isfinite(row))}, wanted finite float32 numbers"
    elif not row.any():
        problem = "got a zero vector, wanted one with a direction"
    elif not _fit(row).all():
        problem = _float16_problem(row)
    else:
        return row, ""
    return np.zeros(dim, dtype=np.float32), problem


def _float16_problem(row: Vectors) -> str:
    large = np.abs(row) > FLOAT16_MAX
    if large.any():
        return f"got {_first(row, large)}, wanted numbers within float16's ±{FLOAT16_MAX:.0f}"
    return (
        f"got numbers of at most {float(np.abs(row).max()):.3g}, all zero in float16, "
        "wanted a vector near unit length"
    )


def _first(value: object, mask: NDArray[np.bool_]) -> str:
    place = int(np.argmax(mask))
    return f"{float(np.asarray(value)[place])} at position {place}"
