"""The pre-insert judge: pure rules that decide what happens to a new memory."""

from ailake.core.judge.dedupe import dedupe_digest, dedupe_key

__all__ = ["dedupe_digest", "dedupe_key"]
