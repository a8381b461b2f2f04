"""What a lease says, and when another may take it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_HOLDER, _WHO, _EXPIRES_AT = (f"ailake.lease.{name}" for name in ("holder", "who", "expires_at"))

_NEVER_HELD = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LeaseState:
    """Who holds a lease, and until when.

    Attributes:
        holder: A fresh id for each time it is taken; empty where nobody holds it.
        who: The holder's machine and process, for people.
        expires_at: By the holder's clock.
    """

    holder: str = ""
    who: str = ""
    expires_at: datetime = _NEVER_HELD

    def is_free(self, now: datetime, *, skew: timedelta) -> bool:
        """Tell whether it may be taken.

        Args:
            now: By the clock of who asks.
            skew: By how much the two clocks may differ.
        """
        return not self.holder or self.expires_at + skew <= now

    def extended(self, until: datetime) -> "LeaseState":
        """Return the same, expiring later; never earlier than before."""
        return LeaseState(self.holder, self.who, max(until, self.expires_at))


FREE = LeaseState()


def to_metadata(state: LeaseState) -> dict[str, str]:
    """Return the state as the metadata of a schema."""
    expires_at = state.expires_at.isoformat()
    return {_HOLDER: state.holder, _WHO: state.who, _EXPIRES_AT: expires_at}


def from_metadata(metadata: Mapping[bytes, bytes]) -> LeaseState:
    """Return the state that was stored so."""
    found = {key.decode(): value.decode() for key, value in metadata.items()}
    return LeaseState(found[_HOLDER], found[_WHO], datetime.fromisoformat(found[_EXPIRES_AT]))
