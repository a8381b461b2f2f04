"""Rows that are made while those before them are written."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

# As many as the engine encodes at a time.
SLICE_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows to append, made slice by slice: never are all of them there at once.

    Attributes:
        count: How many.
        rows_of: Returns those from a start to a stop. It is called in a thread of its own, and
            again from the start where another writer got in the way.
    """

    count: int
    rows_of: Callable[[int, int], pa.Table]

    def mapped(self, change: Callable[[pa.Table], pa.Table]) -> "Stream":
        """Return the same rows, each slice changed."""
        return Stream(self.count, lambda start, stop: change(self.rows_of(start, stop)))

    def read(self) -> pa.Table | pa.RecordBatchReader:
        """Return the rows from the start: few as a table, many to be read once."""
        if self.count <= SLICE_ROWS:
            return self.rows_of(0, self.count)
        slices = self._slices()
        first = next(slices)
        batches = (batch for rows in chain([first], slices) for batch in rows.to_batches())
        return pa.RecordBatchReader.from_batches(first.schema, batches)

    def _slices(self) -> Iterator[pa.Table]:
        """Yield slice after slice, the next one in the making: the engine encodes meanwhile."""
        with ThreadPoolExecutor(1) as pool:
            ends = range(SLICE_ROWS, self.count + SLICE_ROWS, SLICE_ROWS)
            bounds = [(end - SLICE_ROWS, min(end, self.count)) for end in ends]
            coming = pool.submit(self.rows_of, *bounds[0])
            for start, stop in bounds[1:]:
                made, coming = coming.result(), pool.submit(self.rows_of, start, stop)
                yield made
            yield coming.result()


def whole(rows: pa.Table) -> Stream:
    """Return rows that are there already as a stream."""
    return Stream(rows.num_rows, lambda start, stop: rows.slice(start, stop - start))
