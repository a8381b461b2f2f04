"""Opening lakes: ``ailake.connect``."""

import os
from collections.abc import Mapping

from ailake.core.judge import JudgeRules
from ailake.embed import Embedder, StoredEmbedder, resolve_embedder
from ailake.errors import EmbedderMismatchError, InvalidInputError, NotFoundError
from ailake.lake import Lake
from ailake.storage.identity import EmbedderIdentity
from ailake.storage.lake import create_store, lake_exists, open_store
from ailake.storage.location import Location
from ailake.storage.reaching import reaching


def connect(
    uri: str | os.PathLike[str],
    *,
    embedder: str | Embedder | None = None,
    storage_options: Mapping[str, str] | None = None,
    create: bool = True,
    migrate: bool = False,
    recall_bytes: int | None = None,
    judge_rules: JudgeRules | None = None,
) -> Lake:
    """Open a lake, or make one.

    Args:
        uri: A local folder, or an object store such as ``s3://bucket/prefix``.
        embedder: ``"local"``, ``"local-e5"``, ``"hashing"``, ``"lancedb:<function>:<model>"`` or
            an object with the Embedder protocol. Default: the one that the lake was made with;
            for a new lake ``local``.
        storage_options: Keys, region, endpoint and the like of the object store.
        create: Make the lake where there is none.
        migrate: Bring a lake of an older schema version up to date.
        recall_bytes: What recall may hold in memory of the vectors of the scopes that it is asked
            for, and as much again of the weights of larger ones. Default: 256 MiB. 0 holds
            nothing: every recall reads from the tables.
        judge_rules: What new memories are judged by; default: ``JudgeRules()``.

    Raises:
        InvalidInputError: Not an address, a folder with other things in it, no such number, or no
            rules.
        NotFoundError: No lake there, and ``create`` is False.
        EmbedderMismatchError: The lake was made with another embedder.
        SchemaMismatchError: The lake has another schema version.
        MissingExtraError: The embedder's package is not installed.
        ReadOnlyError: The lake would have to be made in a read-only folder.
        ObjectStoreError: The object store could not be reached, lacks the bucket, or refused.
    """
    location = Location.of(uri)
    _check_bytes(recall_bytes)
    rules = _checked_rules(judge_rules)
    options = {str(key): str(value) for key, value in (storage_options or {}).items()}
    with reaching(location.uri, remote=location.root is None):
        lake = _connected(
            location,
            options,
            embedder,
            create=create,
            migrate=migrate,
            recall_bytes=recall_bytes,
        )
    lake.store.rules = rules
    return lake


def _connected(
    location: Location,
    options: Mapping[str, str],
    embedder: str | Embedder | None,
    *,
    create: bool,
    migrate: bool,
    recall_bytes: int | None,
) -> Lake:
    if not lake_exists(location, options):
        if not create:
            raise NotFoundError(f"no lake at {location.uri}; remembering there makes one")
        chosen = resolve_embedder(embedder)
        create_store(location, EmbedderIdentity(chosen.id, chosen.dim), options)
        store = open_store(location, options, migrate=migrate, recall_bytes=recall_bytes)
        return Lake(store, _matching(store.embedder, chosen))
    store = open_store(location, options, migrate=migrate, recall_bytes=recall_bytes)
    if embedder is None:
        return Lake(store, StoredEmbedder(store.embedder.id, store.embedder.dim))
    return Lake(store, _matching(store.embedder, resolve_embedder(embedder)))


def _check_bytes(value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        wanted = "a whole number of bytes from 0 on"
        raise InvalidInputError.of("recall_bytes", got=value, wanted=wanted)


def _checked_rules(value: object) -> JudgeRules:
    if value is None:
        return JudgeRules()
    if not isinstance(value, JudgeRules):
        raise InvalidInputError.of("judge_rules", got=value, wanted="a JudgeRules")
    if value.dedupe_key is not JudgeRules().dedupe_key:
        raise InvalidInputError(
            "judge_rules: got a dedupe_key of its own, wanted that of ailake: a lake keeps it of "
            "every text, in a column; replace it for ailake.judge alone, or another rule"
        )
    return value


def _matching(made_with: EmbedderIdentity, embedder: Embedder) -> Embedder:
    if (embedder.id, embedder.dim) != (made_with.id, made_with.dim):
        raise EmbedderMismatchError(
            f"the lake was made with embedder {made_with.id!r} ({made_with.dim} dimensions) and is "
            f"opened with {embedder.id!r} ({embedder.dim}): vectors of different models can't be "
            "compared; name that embedder or none, or give the lake another one by ReembedJob "
            "(ailake reembed)"
        )
    return embedder
