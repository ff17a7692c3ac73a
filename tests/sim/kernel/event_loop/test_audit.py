"""The audit by sums, which may say that nothing is lost or duplicated, beside that of each id, which must agree."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from elastic_jobs import elastic_job
from moving_jobs import crashes, moving_job, run
from test_forgetting import Forgetting, busy, ran, steady, with_others

from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.kernel.event_loop import audit
from sim.kernel.event_loop.audit_by_sum import by_sum_of_states
from sim.migration.protocols import PROTOCOLS

S = 10**9


class Both(Forgetting):
    """Audits in both ways at the end, and counts what became of it."""

    seen: Counter[str]

    def ledger(self) -> list[tuple[int, int, int, int]]:
        read = self._read_numbers()
        by_sums = by_sum_of_states(self.state, read=read)
        streams, stored = self._arrival_streams(), self._saved_outputs.all_stored()
        by_id = audit._by_id(self.state, streams, self._carried(), self._saved(), None, None, read, stored)
        if by_sums is None:
            self.seen["not told"] += 1
        else:
            known = self.state.operators["reckoned"] != 0
            for one, other in zip(by_sums, by_id, strict=True):
                assert np.array_equal(one[known], other[known])
            self.seen["told"] += 1
        return super().ledger()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()
    monkeypatch.setattr(Both, "seen", found, raising=False)
    return found


def _random_jobs(seeds: range) -> None:
    for seed in seeds:
        ran(busy(seed, seed % 3 > 0), Both)
        for kind in ("windows", "timers"):
            ran(with_others(kind, seed), Both)


def _moves(seeds: range) -> None:
    for seed in seeds:
        for protocol in PROTOCOLS:
            made = moving_job(seed, protocol)
            calm = run(made, Both)
            for crash in crashes(seed, calm.moments, 2):
                run(made, Both, crash)
        ran(elastic_job(seed), Both)


def test_sums_agree_with_ids_in_random_jobs_with_crashes(seen: Counter[str]) -> None:
    _random_jobs(range(6))
    assert seen["told"] >= 4
    assert seen["not told"] >= 4


def test_sums_agree_with_ids_where_key_groups_move(seen: Counter[str]) -> None:
    _moves(range(1))
    assert seen["told"] >= 10


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_sums_agree_with_ids_in_many_jobs(part: int, seen: Counter[str]) -> None:
    _random_jobs(range(100 * part, 100 * (part + 1)))
    _moves(range(10 * part, 10 * (part + 1)))
    assert seen["told"] > 100


def recovered(made: Scenario) -> Forgetting:
    control = Control(RunPlan.of(made, RunInputs(), 0), Forgetting)
    control.start()
    control.run(round(made.duration_s * S))
    assert isinstance(control.plane, Forgetting)
    return control.plane


def test_sums_count_ids_that_are_forgotten() -> None:
    plane = recovered(steady("8 s"))
    assert plane.state.partitions["base"].sum() > 1000
    assert by_sum_of_states(plane.state) is not None
    plane.state.partitions["forgotten"][plane.state.partitions["base"] > 0] = 0
    assert by_sum_of_states(plane.state) is None


def test_sums_do_not_hide_a_tuple_that_is_lost_or_another_in_its_place() -> None:
    plane = recovered(steady("8 s"))
    u = plane.state.partitions[np.flatnonzero(plane.state.partitions["applied"] > plane.state.partitions["base"])[0]]
    first = int(u["log_first"]) * 32
    plane.state.log[first] += 1
    assert by_sum_of_states(plane.state) is None
    plane.state.log[first] -= 1
    assert by_sum_of_states(plane.state) is not None
    u["applied"] -= 1
    assert by_sum_of_states(plane.state) is None


def test_sums_tell_nothing_where_a_key_group_is_down() -> None:
    plane = recovered(steady("3700 ms"))  # a host died a tenth of a second ago
    assert not plane.state.partitions["live"].all()
    assert by_sum_of_states(plane.state) is None
