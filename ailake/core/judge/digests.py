"""The digests of a whole column of texts, most of them without a look at each in Python."""

from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from ailake.core.judge.dedupe import dedupe_digest, dedupe_key

# Printable ASCII, one space between words. The key of such a text is its lower case where it ends
# in no mark that may be dropped, and its lower case without the mark after a lower-case letter.
_PLAIN = r"^[!-~]+(?: [!-~]+)*$"
_MARKS = pa.array([b".", b",", b";", b"!"])
_DROPPED = r"[A-Za-z][.,;]$"


def dedupe_digests(texts: pa.ChunkedArray) -> list[str]:
    """Return ``dedupe_digest(dedupe_key(text))`` of each text; none of them is null."""
    return [digest for chunk in texts.chunks for digest in _digests(chunk)]


def _digests(texts: pa.Array) -> list[str]:
    lower = pc.ascii_lower(texts).cast(pa.binary())
    dropped = pc.match_substring_regex(texts, _DROPPED)
    keys = pc.if_else(dropped, pc.binary_slice(lower, 0, -1), lower)
    kept = pc.invert(pc.is_in(pc.binary_slice(lower, -1), value_set=_MARKS))
    plain = pc.and_(pc.match_substring_regex(texts, _PLAIN), pc.or_(dropped, kept))
    if not pc.any(plain).as_py():
        return [dedupe_digest(dedupe_key(text)) for text in texts.to_pylist()]
    digests = [blake2b(key, digest_size=16).hexdigest() for key in keys.to_pylist()]
    for place in pc.indices_nonzero(pc.invert(plain)).to_pylist():
        digests[place] = dedupe_digest(dedupe_key(texts[place].as_py()))
    return digests
