"""The pre-insert judge: pure rules that decide what happens to a new memory."""

from ailake.core.judge.dedupe import dedupe_digest, dedupe_key
from ailake.core.judge.digests import dedupe_digests

__all__ = ["dedupe_digest", "dedupe_digests", "dedupe_key"]
