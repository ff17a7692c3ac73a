"""What is said of the time that is left, and where it went."""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast import progress
from holdfast.progress import Left, Stopwatch, clipped


def test_nothing_is_said_before_something_is_done() -> None:
    left = Left()
    assert left.at(0.0) is None
    left.told(0.0, None)
    left.told(0.0, 0.0)
    left.told(5.0, 0.01)
    left.told(0.5, 0.2)
    assert left.at(9.0) is None


def test_the_rest_goes_on_as_before_and_time_that_passes_counts() -> None:
    left = Left()
    for second in range(11):
        left.told(float(second), second / 40)
    assert left.at(10.0) == pytest.approx(30.0)
    assert left.at(14.0) == pytest.approx(26.0)
    assert left.at(99.0) == 0.0


def test_what_was_done_before_took_no_time() -> None:
    left = Left()
    left.told(0.0, 0.6)
    left.told(10.0, 0.7)
    assert left.at(10.0) == pytest.approx(30.0)


def test_who_knows_better_is_believed() -> None:
    left = Left()
    left.told(10.0, 0.5, 100.0)
    assert left.at(12.0) == 98.0


def test_it_falls_from_one_equal_part_to_the_next() -> None:
    left, found = Left(), []
    for part in range(21):
        left.told(3.0 * part, part / 20)
        found.append(left.at(3.0 * part))
    known = [one for one in found if one is not None]
    assert known == pytest.approx([60.0 - 3.0 * part for part in range(1, 21)])
    assert all(before > after for before, after in pairwise(known))


def test_a_stopwatch_passes_on_what_it_hears_and_adds_up_each_text(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.0, 13.5, 14.0, 20.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    heard: list[tuple[str, float | None]] = []
    watch = Stopwatch(lambda text, share, left_s=None, now="": heard.append((text, share)), "checking")
    watch("reading", None)  # after 1 s
    watch("reading", 0.5)
    watch("writing", None)  # after 2.5 s more
    watch("reading", None)  # after 0.5 s more
    assert watch.seconds() == {"checking": 1.0, "reading": 8.5, "writing": 0.5}
    assert heard == [("reading", None), ("reading", 0.5), ("writing", None), ("reading", None)]


def test_where_a_line_is_short_the_end_of_what_is_under_way_stays() -> None:
    assert [clipped("piece-7 for 3 s", room) for room in (20, 15, 9, 2, 1, -4)] == [
        "piece-7 for 3 s",
        "piece-7 for 3 s",
        "… for 3 s",
        "…s",
        "",
        "",
    ]
