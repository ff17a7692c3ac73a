"""What is refused of jobs that stop and start again with other numbers of tasks, in the words of Flink."""

from __future__ import annotations

from typing import Any

import flink_job
import pytest

from models.errors import InputError
from models.scenario.reading import scenario_from
from models.scenario.rules import not_simulated

RESCALE = {"kind": "rescale", "at": "1 min", "operator": "sum", "parallelism": 12}
JOB: dict[str, Any] = flink_job.JOB | {"events": {"more": RESCALE}}
GENERIC: dict[str, Any] = {
    **{key: value for key, value in JOB.items() if key != "engine"},
    "placement": {"slot_sharing": True},
    "fault_tolerance": {"method": "region-restart", "store": "remote", "kind": "full", "barriers": {}},
}


def refused(raw: dict[str, Any]) -> list[str]:
    try:
        made = scenario_from(raw)
    except InputError as error:
        return [str(fault) for fault in error.faults]
    return [str(fault) for fault in not_simulated(made)]


def event(**changes: Any) -> dict[str, Any]:
    return {"events": {"more": RESCALE | changes}}


def test_a_job_of_flink_is_rescaled_with_a_savepoint_or_in_place() -> None:
    assert refused(JOB) == []
    assert refused(JOB | event(submit="20 s")) == []
    assert refused(JOB | {"recovery": {"scheduler": "adaptive"}}) == []
    # The adaptive scheduler takes what there is of the slots that it is asked for.
    assert refused(JOB | {"recovery": {"scheduler": "adaptive"}} | event(parallelism=100)) == []
    assert refused(JOB | {"recovery": {"scheduler": "reactive"}, "events": {}}) == []
    assert refused(GENERIC) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (event(parallelism=129), "events.more.parallelism = 129: must be at most the 128 key groups"),
        (event(operator="in"), "events.more.operator = in: has no input partitioned by key"),
        (event(protocol="direct"), "events.more.protocol = direct: has no part in it: all tasks of the job end"),
        (
            event(parallelism=13),
            "events.more.parallelism = 13: needs as many slots, and the hosts have 12 "
            "(taskmanager.numberOfTaskSlots in Flink)",
        ),
        (
            {"placement": {"slot_sharing": False}, "hosts": {"tm": {"count": 20, "slots": 1}}},
            "events.more.parallelism = 12: needs as many slots, and the hosts have 20 (taskmanager.numberOfTaskSlots "
            "in Flink), and all operators together have 21 tasks",
        ),
        (
            {"recovery": {"scheduler": "reactive"}},
            "events.more.kind = rescale: cannot change the parallelism of a job in reactive mode",
        ),
        (
            {"recovery": {"scheduler": "adaptive"}} | event(submit="5 s"),
            "events.more.submit = 5 s: is the time until a job is submitted again that has stopped with a savepoint: "
            "the adaptive scheduler rescales it in place",
        ),
        (
            {"recovery": {"scheduler": "adaptive"}, "placement": {"slot_sharing": False}},
            "recovery.scheduler = adaptive: needs slots that hold a task of each operator",
        ),
        (
            {"fault_tolerance": {"method": "none"}},
            "events.more.kind = rescale: not simulated yet",
        ),
    ],
)
def test_what_a_job_of_flink_cannot_do_is_refused(changes: dict[str, Any], says: str) -> None:
    found = refused(JOB | changes)
    assert any(one.startswith(says) for one in found), found


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"recovery": {"adaptive": {"cooldown": "1 s"}}},
            "recovery.adaptive: is of the adaptive scheduler; recovery.scheduler is default",
        ),
        (
            {"recovery": {"scheduler": "adaptive"}, "hosts": {"tm": {"count": 3}}},
            "recovery.scheduler = adaptive: needs hosts whose slots are counted: tm has no bound",
        ),
        (
            {"recovery": {"scheduler": "adaptive"}, "fault_tolerance": {"method": "region-restart"}},
            "recovery.scheduler = adaptive: needs checkpoints of the whole job, by barriers",
        ),
        (
            {"fault_tolerance": {"method": "region-restart", "store": "remote"}} | event(submit="5 s"),
            "events.more.submit = 5 s: is the time until a job is submitted again that has stopped with a savepoint, "
            "which this one does not",
        ),
        (
            {"fault_tolerance": {"method": "region-restart", "store": "remote"}},
            "events.more.kind = rescale: not simulated yet",
        ),
        (
            {"elasticity": {"policy": "threshold"}},
            "elasticity.policy = threshold: is not possible with barriers",
        ),
    ],
)
def test_what_a_job_without_an_engine_lacks_is_refused(changes: dict[str, Any], says: str) -> None:
    found = refused(GENERIC | changes)
    assert any(one.startswith(says) for one in found), found


def test_versions_before_2_do_not_wait_for_a_checkpoint() -> None:
    waits = {
        version: scenario_from(JOB | {"engine": {"name": "flink", "version": version}}).recovery.adaptive.at_checkpoint
        for version in ("1.18", "1.20", "2.0", "2.3")
    }
    assert waits == {"1.18": False, "1.20": False, "2.0": True, "2.3": True}


def test_reactive_mode_has_other_times_where_nothing_is_said() -> None:
    times = [
        scenario_from(JOB | {"events": {}, "recovery": {"scheduler": one}}).recovery for one in ("adaptive", "reactive")
    ]
    assert [(one.wait_s, one.stabilisation_s) for one in times] == [(300.0, 10.0), (None, 0.0)]
    given = {"scheduler": "reactive", "adaptive": {"wait": "7 s", "stabilisation": "2 s"}}
    made = scenario_from(JOB | {"events": {}, "recovery": given}).recovery
    assert (made.wait_s, made.stabilisation_s) == (7.0, 2.0)
