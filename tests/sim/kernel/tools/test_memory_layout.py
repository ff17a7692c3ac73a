"""Records in memory: at the begin of a line, and with room behind them for more."""

from __future__ import annotations

import numpy as np

from sim.kernel.tools.pointer import LINE, extended, in_lines, records

RECORD = in_lines([("number", "i8"), ("share", "f8")])


def test_records_are_zeros_at_the_begin_of_a_line() -> None:
    made = records(5, RECORD)
    assert made.shape == (5,)
    assert made.ctypes.data % LINE == 0
    assert not made["number"].any()


def test_an_extended_array_keeps_its_records_and_ends_with_zeros() -> None:
    made, moved = records(1, RECORD), 0
    made["number"] = 7
    for count in range(2, 300):
        longer = extended(made, count)
        assert longer.shape == (count,)
        assert longer.ctypes.data % LINE == 0
        assert longer["number"].tolist() == [7 + k for k in range(count - 1)] + [0]
        moved += longer.ctypes.data != made.ctypes.data
        longer["number"][-1] = 7 + count - 1
        made = longer
    assert 0 < moved < 12  # the memory doubles


def test_an_array_of_other_memory_is_copied() -> None:
    other = np.zeros(3, RECORD)
    other["share"] = 0.5
    made = extended(other, 4)
    assert made["share"].tolist() == [0.5, 0.5, 0.5, 0.0]
    assert not np.shares_memory(made, other)
