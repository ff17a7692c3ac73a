"""Failures that leave too few slots are found before a run, and are those after which a job stays down in one."""

from __future__ import annotations

from typing import Any

import pytest

from models.scenario import rules
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.steady_state.estimate import BYTES_PER_SENT_AGAIN, estimate
from models.topology.failed_slots import waits_for_slots
from sim.engine import simulate

KILL = {"kind": "host-failure", "host": "tm-1", "at": "20 s"}
SERVICE = {"distribution": "deterministic", "value": "10 ms"}
JOB: dict[str, Any] = {
    "engine": "flink",
    "duration": "2 min",
    "workload": {"in": {"rate": "100 /s", "keys": {"distribution": "uniform", "count": 100}}},
    "operators": {
        "in": {"kind": "source"},
        "count": {"kind": "aggregate", "inputs": {"in": "key"}, "parallelism": 8, "key_groups": 16, "service": SERVICE},
        "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
    },
    "hosts": {"tm": {"count": 4, "slots": 2}},
    "fault_tolerance": {"interval": "5 s"},
    "events": {"kill": KILL},
    "recording": {"detail": "histograms"},
}


def job(changes: dict[str, Any]) -> Scenario:
    return scenario_from(JOB | changes)


BACK = {"kill": KILL | {"repair": "50 s"}}
SECOND = {"kill": KILL | {"repair": "50 s"}, "next": {"kind": "host-failure", "host": "tm-2", "at": "30 s"}}
FEWER = {"less": {"kind": "rescale", "at": "10 s", "operator": "count", "parallelism": 6}, "kill": KILL}
DOWN = [
    ({}, [("kill", 20, 120, 8, 6)]),
    ({"events": BACK}, [("kill", 20, 70, 8, 6)]),
    ({"hosts": {"tm": {"count": 5, "slots": 2}}}, []),
    ({"hosts": {"tm": {"count": 5, "slots": 2}}, "events": SECOND}, [("next", 30, 70, 8, 6)]),
    ({"hosts": {"tm": {"count": 4, "slots": 2}, "other": {"count": 1, "slots": 1}}}, [("kill", 20, 120, 8, 7)]),
    ({"recovery": {"scheduler": "adaptive"}}, []),
    ({"events": FEWER}, []),
]


@pytest.mark.parametrize(("changes", "found"), DOWN, ids=[str(changes) for changes, _ in DOWN])
def test_slots_are_those_of_hosts_that_are_up(changes: dict[str, Any], found: list[tuple[object, ...]]) -> None:
    waits = waits_for_slots(job(changes))
    assert [(one.event, one.begins_s, one.ends_s, one.needs, one.has) for one in waits] == found


@pytest.mark.parametrize(("changes", "found"), DOWN, ids=[str(changes) for changes, _ in DOWN])
def test_a_run_is_down_until_there_are_slots(changes: dict[str, Any], found: list[tuple[Any, ...]]) -> None:
    scenario = job(changes)
    failures = simulate(scenario).tables["failures"]
    if not found:
        assert (failures["caught_up_ns"] > 0).all()
        return
    ((_, _, ends_s, _, _),) = found
    if ends_s == scenario.duration_s:
        assert (failures["caught_up_ns"] == -1).all()
    else:
        assert failures["caught_up_ns"].max() > ends_s * 1e9


def test_a_job_that_stays_down_is_worth_a_warning() -> None:
    texts = [str(one) for one in rules.warnings(job({}))]
    assert texts == [
        "events.kill: leaves 6 of the 8 slots that tasks need: the job stays down until the end; give it spare "
        'TaskManagers (hosts.tm.count = 5), or recovery.scheduler = "adaptive", or a replacement (repair)'
    ]
    (back,) = (str(one) for one in rules.warnings(job({"events": BACK})))
    assert "stays down for 50 s, until a host is back" in back


def test_the_estimate_counts_what_waits_while_a_job_has_no_slots() -> None:
    less = (
        estimate(job({"events": BACK})).memory_bytes
        - estimate(job({"hosts": {"tm": {"count": 5, "slots": 2}}})).memory_bytes
    )
    assert less == pytest.approx(50 * 100 * BYTES_PER_SENT_AGAIN)
