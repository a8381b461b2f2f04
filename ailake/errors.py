"""Every error that ailake raises on purpose.

::

    AilakeError
    ├── InvalidInputError (ValueError)        a value was refused, nothing was written
    │   └── ScopeError                        a scope is missing or malformed
    ├── NotFoundError (KeyError)              no such lake, table, memory or version
    ├── EmbedderMismatchError (ValueError)    the lake was made with another embedder
    ├── SchemaMismatchError (ValueError)      the lake has another schema version
    ├── ConflictError (RuntimeError)          other writers won every retry
    ├── LakeCorruptError (RuntimeError)       the stored data breaks an invariant
    ├── WorkerDiedError (RuntimeError)        a worker of a distributed job died on each try
    ├── ReadOnlyError (PermissionError)       a write to something that can't be written
    ├── ProviderError (RuntimeError)          a model or its server gave no usable answer
    ├── ObjectStoreError (OSError)            an object store refused, or could not be reached
    └── MissingExtraError (ImportError)       an optional package is not installed

An error of the store or of an embedder that is none of these passes through unchanged: a failure
is never turned into an empty result.
"""


class AilakeError(Exception):
    """Base of every error raised by ailake itself."""


class InvalidInputError(AilakeError, ValueError):
    """A value was refused before anything was written."""

    @classmethod
    def of(cls, what: str, *, got: object, wanted: str) -> "InvalidInputError":
        """Build the usual message: what was refused, what was got, what was wanted."""
        return cls(f"{what}: got {shorten(got)}, wanted {wanted}")


class ScopeError(InvalidInputError):
    """A scope is missing or malformed."""


class NotFoundError(AilakeError, KeyError):
    """The lake, table, memory or version does not exist."""

    def __str__(self) -> str:
        """Return the plain message; ``KeyError`` alone would show its repr."""
        return str(self.args[0]) if self.args else ""


class EmbedderMismatchError(AilakeError, ValueError):
    """The lake was made with another embedder than the one it is opened with."""


class SchemaMismatchError(AilakeError, ValueError):
    """The lake was written with a schema version that this release can't use as it is."""


class ConflictError(AilakeError, RuntimeError):
    """Concurrent writers won every retry; the operation was not applied."""


class LakeCorruptError(AilakeError, RuntimeError):
    """The stored data breaks an invariant of the lake."""


class WorkerDiedError(AilakeError, RuntimeError):
    """A worker of a distributed job died on each try; nothing of its piece was committed."""


class ReadOnlyError(AilakeError, PermissionError):
    """A write to a lake, view or folder that can't be written."""


class ProviderError(AilakeError, RuntimeError):
    """A model or its server gave no usable answer, after all retries; nothing was applied.

    Attributes:
        told: What the model or its server said, which may quote the question.
        usage: Tokens that were read and written in vain.
        ends_run: Every other question would meet the same, such as a refused key.
    """

    def __init__(
        self,
        message: str,
        *,
        told: str = "",
        usage: tuple[int, int] = (0, 0),
        ends_run: bool = False,
    ) -> None:
        super().__init__(message)
        self.told = told
        self.usage = usage
        self.ends_run = ends_run

    def __str__(self) -> str:
        """Return the message, and what was told."""
        message = super().__str__()
        return f"{message}: {self.told}" if self.told else message


class ObjectStoreError(AilakeError, OSError):
    """An object store could not be reached, lacks the bucket, or refused the keys."""


class MissingExtraError(AilakeError, ImportError):
    """An optional package is not installed."""

    @classmethod
    def of(cls, what: str, *, extra: str) -> "MissingExtraError":
        """Build the usual message: what needs which extra, and how to install it."""
        return cls(f"{what} needs an optional package: pip install 'ailake-memory[{extra}]'")


def shorten(value: object, *, limit: int = 80) -> str:
    """Return the value's repr, cut to ``limit`` characters, for use in a message."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({type(value).__name__})"
