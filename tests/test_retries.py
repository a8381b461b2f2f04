"""Which errors are worth another attempt, and which never."""

import pytest
from lance.commit import CommitConflictError

from ailake import ConflictError
from ailake.storage.retries import is_conflict, is_lost_race, reading_again, with_retries

CONFLICTS = [
    CommitConflictError("Retryable commit conflict for version 5"),
    OSError("Commit conflict for version 5: preempted by concurrent transaction Rewrite"),
    RuntimeError("lance error: Too many concurrent writers. Attempted 20 times"),
]
CLEANED_UP = [
    OSError("The dataset version 7's manifest was not found"),
    RuntimeError("lance error: Not found: /lake/episodic.lance/_versions/123.manifest"),
    ValueError("Not found: /lake/episodic.lance/data/abc.lance"),
]
OTHERS = [
    OSError("No space left on device"),
    ValueError("limit: got 0, wanted a whole number"),
    KeyError("/data/ not found"),
    RuntimeError("table was not found"),
]


@pytest.mark.parametrize("error", CONFLICTS)
def test_conflicts(error: Exception) -> None:
    assert is_conflict(error)
    assert is_lost_race(error)


@pytest.mark.parametrize("error", CLEANED_UP)
def test_cleaned_up_under_it(error: Exception) -> None:
    """A write may have been applied: an append is not tried again."""
    assert not is_conflict(error)
    assert is_lost_race(error)


@pytest.mark.parametrize("error", OTHERS)
def test_anything_else_passes_through_at_once(error: Exception) -> None:
    calls: list[int] = []

    def failing() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        with_retries(failing, what="x")
    assert caught.value is error
    with pytest.raises(type(error)):
        reading_again(failing)
    assert len(calls) == 2


def test_a_retry_can_win() -> None:
    calls: list[int] = []

    def third_time() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise CONFLICTS[0]
        return "done"

    assert with_retries(third_time, what="x") == "done"


def test_losing_every_time_says_that_nothing_was_applied() -> None:
    def failing() -> None:
        raise CONFLICTS[0]

    with pytest.raises(ConflictError, match="rewrite: other writers won 3 times") as caught:
        with_retries(failing, what="rewrite", attempts=3)
    assert caught.value.__cause__ is CONFLICTS[0]


def test_a_file_that_is_really_missing_is_told_as_such() -> None:
    def failing() -> None:
        raise CLEANED_UP[2]

    with pytest.raises(ValueError, match="abc") as caught:
        reading_again(failing)
    assert caught.value is CLEANED_UP[2]
