"""What the top of a run's page says of lost and duplicated tuples: the guarantee decides what is wrong."""

from __future__ import annotations

import pytest

from analysis.report.run_page import _lost_or_duplicated
from analysis.runs.run_summary import Guarantee


@pytest.mark.parametrize(
    ("promised", "lost", "duplicated", "good", "note"),
    [
        ("exactly-once", 0, 0, True, ""),
        ("exactly-once", 0, 1, False, ""),
        ("exactly-once", 1, 0, False, ""),
        ("at-least-once", 0, 7, True, "at-least-once: duplicates may be"),
        ("at-least-once", 1, 7, False, ""),
        ("at-least-once", 0, 0, True, ""),
        ("at-most-once", 7, 0, True, "at-most-once: losses may be"),
        ("at-most-once", 7, 1, False, ""),
        ("none", 1, 0, False, ""),
    ],
)
def test_only_what_the_guarantee_excludes_is_wrong(
    promised: str, lost: int, duplicated: int, good: bool, note: str
) -> None:
    fact = _lost_or_duplicated(Guarantee(lost, 0, 0, duplicated), promised)
    assert (fact.value, fact.good, fact.note) == (str(lost + duplicated), good, note)
    assert _lost_or_duplicated(Guarantee(0, duplicated, lost, None), promised) == fact
