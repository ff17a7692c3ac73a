"""The arrivals at the sources once more, from where the last reader has stopped: for audits of parts of a run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.arrival_stream import ArrivalStream, Block


class Reread:
    """Arrivals at a source, which is read from rising numbers on."""

    def __init__(self, stream: ArrivalStream) -> None:
        self._stream, self._first, self._block = stream, 0, (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def start(self, number: int) -> Iterator[Block]:
        """Yield the arrivals from this number on; one that was read from before may be read again in the last block."""
        while True:
            end = self._first + self._block[0].size
            if end > number:
                skip = max(0, number - self._first)
                yield self._block[0][skip:], self._block[1][skip:]
            following = next(self._stream, None)
            if following is None:
                return
            self._first, self._block = end, following
