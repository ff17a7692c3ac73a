"""The pace of a host: how much of a core's speed others leave, as a whole number of parts per million.

The work of a service is whole nanoseconds (drawn time / speed of the host), what was done of it whole parts of one, so
that both data planes can compute with whole numbers alone. With whole nanoseconds for both, a thousand changes in the
course of a service of 1 us would cost it half of its work.
"""

from __future__ import annotations

FULL = 1_000_000  # parts per million: nobody else is there
PARTS = 1 << 16  # of a nanosecond, in which work that was done is counted
FAR_NS = 1 << 62  # beyond the end of every run


def pace_of(share: float) -> int:
    """Return the parts per million, at least one, that are left where others take `share` of the CPU.

    Raises ValueError unless 0 <= share < 1.
    """
    if not 0 <= share < 1:
        raise ValueError(f"a share of the CPU that others take is at least 0 and less than 1, not {share}")
    return max(1, round((1 - share) * FULL))
