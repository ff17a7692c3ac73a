"""The pace of a host: how much of a core's speed others leave, as a whole number of parts per million.

All times of services are whole nanoseconds of work (drawn time / speed of the host), so that both data planes can
compute with whole numbers alone.
"""

from __future__ import annotations

FULL = 1_000_000  # parts per million: nobody else is there
FAR_NS = 1 << 62  # beyond the end of every run


def pace_of(share: float) -> int:
    """Parts per million, at least one, that are left where others take `share` of the CPU.

    Raises ValueError unless 0 <= share < 1.
    """
    if not 0 <= share < 1:
        raise ValueError(f"a share of the CPU that others take is at least 0 and less than 1, not {share}")
    return max(1, round((1 - share) * FULL))
