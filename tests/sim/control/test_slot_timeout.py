"""A region that does not get its slots in time: the restart has failed, and the strategy says when the next one is.

Oracles: instants by hand, both planes, and a mutant.
"""

from __future__ import annotations

from typing import Any

import pytest
from decided import said
from scripts import unchecked
from test_cluster_view import MS, dies
from test_region_restart import STEADY, in_vain, run, spare, starts

from models.records.tables import RunRecords
from models.scenario.rules import faults
from sim.control.failover_regions import FailoverRegions

FIRST = 2710 + 300  # the restart after the death of h-1, which is noticed after 10 ms


def short(repair_ms: int, attempts: int = 100, inner: str = "key") -> dict[str, Any]:
    """Four tasks need two of three hosts; h-2 is dead when h-1 dies, which is back after a time."""
    times = STEADY | {"slot_timeout": "500 ms"}
    times |= {"strategy": {"kind": "fixed-delay", "delay": "300 ms", "attempts": attempts}}
    return spare(dies(2, 1500), dies(1, 2700, repair=repair_ms), inner=inner, recovery=times)


def late(found: RunRecords) -> list[float]:
    """When restarts failed that had no slots [ms]."""
    return [at / MS for at, what, why in said(found) if "not restarted" in what and "within 500 ms" in why]


def test_it_fails_after_the_time_out_and_asks_again_after_the_delay() -> None:
    # Restarts in vain get slots of the dead host first, until two heartbeats are refused, at 3.0 s.
    found, _ = run(short(2250))
    assert in_vain(found)[0] == FIRST + 500
    assert late(found) == [FIRST + 500, FIRST + 500 + 800]
    # Slots are there at 4.95 s, when the third restart waits for them since 4.61 s.
    assert starts(found) == [(4950, 16)]
    assert not found.tables["ledger"]["lost"].any()


def test_slots_that_come_between_two_restarts_are_taken_by_the_next_one() -> None:
    found, _ = run(short(1800))  # h-1 is back at 4.5 s, and the restart is at 4.61 s
    assert late(found) == [3510, 4310]
    assert starts(found) == [(4610, 16)]


def test_slots_that_come_at_the_instant_of_the_time_out_are_taken() -> None:
    found, _ = run(short(3510 - 2700))
    assert late(found) == []
    assert starts(found) == [(3510, 16)]


def test_the_strategy_gives_up_in_the_end() -> None:
    found, control = run(short(6000, attempts=2))
    assert late(found) == [3510, 4310]
    assert starts(found) == []
    assert not any(control.cluster.task_alive)


def test_only_the_regions_without_slots_fail() -> None:
    found, _ = run(short(2250, inner="forward"))
    # Two of four pipelines are lost; h-0 has no free slot.
    assert sum(count for _, count in starts(found)) == 6
    assert {*late(found)} >= {3510}


def test_without_a_time_out_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = short(2250)
    del raw["recovery"]["slot_timeout"]
    found, _ = run(raw)
    assert late(found) == []
    assert starts(found) == [(4950, 16)]
    # The mutant that forgets the time-out of the second restart is seen.
    ask = FailoverRegions._ask

    def once(self: FailoverRegions, region: int, down: Any) -> None:
        if self.state.clock.now_ns() < 3100 * MS:
            ask(self, region, down)

    monkeypatch.setattr(FailoverRegions, "_ask", once)
    assert late(run(short(2250))[0]) == [3510]


@pytest.mark.parametrize(
    ("changes", "rule"), [({"strategy": None}, "needs recovery.strategy"), ({}, "needs the method region-restart")]
)
def test_a_time_out_that_nobody_acts_on_is_refused(changes: dict[str, Any], rule: str) -> None:
    raw = short(2250)
    raw["recovery"] |= changes
    if not changes:
        raw["fault_tolerance"]["method"] = "checkpoint"
    (said_,) = [str(fault) for fault in faults(unchecked(raw)) if fault.path == "recovery.slot_timeout"]
    assert rule in said_
