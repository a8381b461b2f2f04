"""What the ledger says on the whole, kept with the commit that made it say so.

Whoever opens a lake would have to read columns of all entries for it. It holds for the version that
the commit made and for no other: where anything came later, or in between, the entries are read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import lance
import pyarrow as pa

from ailake.core.chain import CHAIN_VERSION, LedgerHead
from ailake.core.ledger_rows import chain_scope, chain_scopes_of
from ailake.core.records import ChainScope
from ailake.storage.recording_appended import Reached

_KEY = "ailake.ledger.summary"

# Another release may tell of other tables.
_REACHED = {one.name for one in fields(Reached)}

# Of more scopes the heads are looked up once they are needed.
_MOST_HEADS = 16


@dataclass(frozen=True, slots=True)
class Summary:
    """What a version of the ledger says on the whole, where no removal is open.

    Attributes:
        told_to: The version of ``episodic`` up to which it tells all.
        reached: How far it tells of rows that are numbered as they come.
        heads: Where the chains end that the version has added to, unless they are many.
    """

    told_to: int
    reached: Reached
    heads: Mapping[ChainScope, LedgerHead] = field(default_factory=dict)

    def properties(self, added: pa.Table) -> dict[str, str]:
        """Return what to record with the commit that adds entries.

        Args:
            added: The entries.
        """
        scopes = chain_scopes_of(added)[0]
        heads = [self.heads[scope] for scope in scopes] if len(scopes) <= _MOST_HEADS else []
        told = {
            "chain_version": CHAIN_VERSION,
            "told_to": self.told_to,
            "reached": asdict(self.reached),
            "heads": [[*_parts(head.scope), head.sequence, head.hash] for head in heads],
        }
        return {_KEY: json.dumps(told)}


def summary_of(ledger: lance.LanceDataset) -> Summary | None:
    """Return what was recorded with a version; None where it was not, or is of another release."""
    # By a handle of its own: others can't even ask one for its version while this is read.
    own = ledger.checkout_version(ledger.version)
    made = own.read_transaction(own.version)
    recorded = None if made is None else (made.transaction_properties or {}).get(_KEY)
    if recorded is None or made.read_version + 1 != ledger.version:
        return None
    told = json.loads(recorded)
    if told["chain_version"] != CHAIN_VERSION or told["reached"].keys() != _REACHED:
        return None
    heads = [_head(one) for one in told["heads"]]
    ends = {head.scope: head for head in heads}
    return Summary(told["told_to"], Reached(**told["reached"]), ends)


def _parts(scope: ChainScope) -> tuple[str, str, str]:
    return scope.agent_id, scope.user_id, scope.project_id


def _head(told: Sequence[Any]) -> LedgerHead:
    *parts, sequence, own = told
    return LedgerHead(chain_scope(parts, own), sequence, own)
