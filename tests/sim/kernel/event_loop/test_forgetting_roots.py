"""With an acker ids of roots that are done are forgotten, beside windows and joins, too, and no row tells.

Oracle: the same run in which nothing is forgotten, which other tests compare with the plain plane.
"""

from __future__ import annotations

from typing import Any

import pytest
from scripts import ACKS, run_script, unchecked
from seeds import parts
from test_acker_planes import job
from test_forgetting import Forgetting, Keeping, ran
from test_planes import differences

from models.records.tables import RunRecords
from models.scenario.scenario import Scenario

VERBS = (*ACKS, *ACKS, "kill", "start", "bring", "bring", "capture", "put", "discard", "pause", "hold", "unhold")


def busy(seed: int) -> dict[str, Any]:
    """A random job with an acker, in which many tuples come to each partition."""
    raw = job(seed)
    raw["workload"]["src"]["rate"] = "120 /s"
    raw["fault_tolerance"]["acker"].setdefault("pending", 100)
    return raw


def compared(made: Scenario) -> tuple[list[str], int, RunRecords]:
    """Differences between the run that forgets and the one that does not, how much was forgotten, and its rows."""
    (kept, nothing), (rows, forgotten) = ran(made, Keeping), ran(made, Forgetting)
    assert nothing == 0
    return differences(kept, rows), forgotten, rows


@pytest.mark.parametrize("seeds", parts(20, 40))
def test_no_row_changes_in_random_jobs_with_crashes(seeds: range) -> None:
    total = duplicated = 0
    for seed in seeds:
        found, forgotten, rows = compared(unchecked(busy(seed)))
        assert found == [], seed
        total += forgotten
        duplicated += int(rows.tables["ledger"]["duplicated"].sum())
    assert total > 1000
    assert duplicated > 500


def under_a_script(seed: int) -> tuple[list[str], int]:
    """The same under a script of verbs."""
    planes = []

    class Noted(Forgetting):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            planes.append(self)

    raw = busy(seed)
    (kept, told), (rows, told_too) = (run_script(raw, plane, seed, 60, VERBS) for plane in (Keeping, Noted))
    found = differences(kept, rows) + ["told"] * (told != told_too)
    return found, int(planes[0].state.partitions["base"].sum())


@pytest.mark.parametrize("seeds", parts(20, 40))
def test_no_row_changes_where_tasks_are_killed_and_tuples_captured(seeds: range) -> None:
    found = {seed: under_a_script(seed) for seed in seeds}
    assert [seed for seed, (differences, _) in found.items() if differences] == []
    assert sum(forgotten for _, forgotten in found.values()) > 500


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_no_row_changes_in_many_jobs_and_scripts(part: int) -> None:
    for seed in range(100 * part, 100 * part + 100):
        assert compared(unchecked(busy(seed)))[0] == [], seed
        assert under_a_script(seed)[0] == [], seed
