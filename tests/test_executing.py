"""Threads that do the pieces of a job: order, errors, and what is cut into shares."""

from threading import Barrier, get_ident

import pytest

from ailake.storage.column_files import Piece, shares_of
from ailake.storage.executing import Threads


def test_several_pieces_are_worked_on_at_a_time() -> None:
    both = Barrier(2)

    def meet(piece: int) -> tuple[int, int]:
        both.wait(60)
        return piece, get_ident()

    done = list(Threads(2).map(meet, [1, 2]))
    assert [piece for piece, _ in done] == [1, 2]
    assert len({thread for _, thread in done}) == 2


@pytest.mark.parametrize("width", [1, 3])
def test_an_error_comes_as_it_was_raised(width: int) -> None:
    def fails(piece: int) -> int:
        raise OSError(f"piece {piece}")

    with pytest.raises(OSError, match="piece 0"):
        list(Threads(width).map(fails, range(9)))


def test_one_thread_works_as_it_is_asked() -> None:
    begun: list[int] = []
    results = Threads(1).map(begun.append, [1, 2, 3])
    next(results)
    assert begun == [1]


def test_shares_are_neighbours_up_to_so_many_rows() -> None:
    pieces = [Piece(place, rows, "") for place, rows in enumerate([400, 500, 200, 2_000, 0, 7])]
    shares = [[one.fragment for one in share] for share in shares_of(pieces, rows=1_000)]
    assert shares == [[0, 1], [2], [3], [4, 5]]
    assert list(shares_of([], rows=1_000)) == []
