"""What is probably not meant makes a warning, and nothing else does."""

from __future__ import annotations

import pytest
from rule_cases import ACKER, read

from models.errors import InputError
from models.scenario import rules
from models.scenario.reading import raw_of, scenario_from
from scenarios.files.scenario import path_of, read_scenario

# changes, the start of the one warning
DOUBTFUL: list[tuple[dict[str, object], str]] = [
    ({"workload/words/rate": "2500 /s"}, "operators.clean: utilisation of its busiest task is 125 % on average"),
    (
        {
            "workload/words/rate": {"ramp": {"start": "0 /s", "end": "2500 /s", "over": "10 min"}},
            "operators/count/service/mean": "1 us",
        },
        "operators.clean: utilisation of its busiest task is 125 % at the peak and 62.5 % on average",
    ),
    (
        {
            "hosts/worker/cpu": "shared",
            "workload/words/rate": "850 /s",
            "placement": {"operators": {"clean": "worker", "count": "worker"}},
            "operators/count/service/mean": "1.6 ms",
            "operators/clean/service/mean": "1 ms",
        },
        "hosts.worker: utilisation of worker-",
    ),
    ({"hosts/worker/network": "1 kB/s"}, "hosts.worker.network: the link of worker-"),
    ({"warmup": "6 min"}, "warmup: is more than half of the run"),
    ({"fault_tolerance/interval": "1 h"}, "fault_tolerance.interval: is not shorter than the run of 10 min"),
    ({"detector": {"heartbeat": "6 s"}}, "detector.timeout: is shorter than the heartbeat"),
    (
        {"detector": {"heartbeat": "1 s", "timeout": "2 s", "loss": 0.2}},
        "detector.loss: a healthy host is suspected about 19.2 times in the run",
    ),
    ({"events/crash/at": "599 s"}, "events.crash.at: is so late that the failure is not detected"),
    ({"operators/count/window": {"length": "10 min"}}, "operators.count.window.length: is not shorter than the run"),
    ({"events": {}}, "fault_tolerance: checkpoints are taken and nothing ever fails"),
    ({"fault_tolerance": {}}, "fault_tolerance: hosts fail and nothing is checkpointed"),
    (
        {"fault_tolerance": ACKER, "operators/count/state": {"model": "per-key", "bytes": "1 B"}},
        "fault_tolerance: hosts fail and the acker saves no state",
    ),
    ({"hosts/worker/spare": 1}, "hosts.worker.spare: spare hosts are never acquired without scale-out"),
    ({"elasticity": {"policy": "threshold"}}, "hosts.worker.cpu: each thread has a core of its own"),
    ({"elasticity": {"policy": "threshold", "period": "1 h"}}, "elasticity.period: no decision is taken"),
    (
        {"elasticity": {"policy": "threshold", "grow": 3.0}},
        "elasticity.grow: has no effect: elasticity.policy is thres",
    ),
    ({"elasticity": {"policy": "operators", "protocol": "cpa"}}, "elasticity.protocol: has no effect: elasticity.poli"),
    ({"elasticity": {"policy": "operators", "prefer": "usable"}}, "elasticity.prefer: has no effect"),
    ({"elasticity": {"policy": "operators", "acquisition": "1 s"}}, "elasticity.acquisition: has no effect"),
    ({"elasticity": {"low": 0.2}}, "elasticity.low: has no effect: elasticity.policy is none"),
    ({"elasticity": {"policy": "none", "scale_out": True}}, "elasticity.scale_out: has no effect"),
    (
        {"fault_tolerance/maintenance": {"every": "1 h"}},
        "fault_tolerance.maintenance.every: no allocation is compared before the run ends",
    ),
    (
        {"fault_tolerance/maintenance": {"first": "10 min"}},
        "fault_tolerance.maintenance.first: no allocation is compared before the run ends",
    ),
    (
        {"fault_tolerance/maintenance": {"first": "9 s"}},
        "fault_tolerance.maintenance.first: is before the second check of the load: elasticity.period is 8 s",
    ),
    ({"hosts/worker/count": 9}, "placement: no task starts on worker-6, worker-7, worker-8"),
    (
        {"hosts/worker/failures": {"model": "schedule", "at": ["1 h"], "repair": "1 min"}},
        "hosts.worker.failures.at: is after the end of the run",
    ),
    (
        {"workload/words/rate": {"steps": [{"at": "0 s", "rate": "1 /s"}, {"at": "1 h", "rate": "2 /s"}]}},
        "workload.words.rate.steps[1].at: is after the end of the run",
    ),
]


@pytest.mark.parametrize(("changes", "start"), DOUBTFUL, ids=[" ".join(changes) for changes, _ in DOUBTFUL])
def test_what_is_probably_not_meant_makes_a_warning(changes: dict[str, object], start: str) -> None:
    found = [str(advice) for advice in rules.warnings(read(changes))]
    assert any(text.startswith(start) for text in found), found


AT = {"distribution": "uniform", "low": "1 min", "high": "2 min"}


@pytest.mark.parametrize(
    ("first", "second", "is_dead"),
    [
        ({"at": "1 min"}, {"at": "2 min"}, True),
        ({"at": "1 min"}, {"at": "2 min", "host": "worker-1"}, False),
        ({"at": "1 min", "repair": "30 s"}, {"at": "2 min"}, False),
        ({"at": "1 min", "repair": "61 s"}, {"at": "2 min"}, True),
        ({"at": AT}, {"at": "119 s"}, False),
        ({"at": AT}, {"at": "121 s"}, True),
        ({"at": AT, "repair": "70 s"}, {"at": "121 s"}, True),
        ({"at": AT, "repair": "60 s"}, {"at": "121 s"}, False),
        ({"at": {"distribution": "exponential", "mean": "1 min"}}, {"at": "9 min"}, False),
        ({"at": "1 min"}, {"at": {"distribution": "exponential", "mean": "9 min"}}, False),
    ],
)
def test_a_failure_of_a_host_that_is_down_for_sure_makes_a_warning(
    first: dict[str, object], second: dict[str, object], is_dead: bool
) -> None:
    death = {"kind": "host-failure", "host": "worker-0"}
    found = [str(one) for one in rules.warnings(read({"events": {"a": death | first, "b": death | second}}))]
    said = "events.b.at: nothing happens: the host is down since events.a"
    assert [one for one in found if "nothing happens" in one] == ([said] if is_dead else [])


@pytest.mark.parametrize(
    ("recovery", "is_unused"),
    [
        ({}, False),
        ({"adaptive": {"wait": "1 s"}}, True),
        ({"adaptive": {"cooldown": "30 s"}}, True),  # which Flink would bring as well
        ({"adaptive": {"wait": "1 s"}, "scheduler": "adaptive"}, False),
    ],
)
def test_times_of_the_adaptive_scheduler_without_it_make_a_warning(
    recovery: dict[str, object], is_unused: bool
) -> None:
    raw = raw_of(read_scenario(path_of("flink-recovery")).scenario)
    raw["recovery"] |= recovery
    found = [str(one) for one in rules.warnings(scenario_from(raw))]
    assert found == (["recovery.adaptive: has no effect: recovery.scheduler is default"] if is_unused else [])


@pytest.mark.parametrize(("standbys", "said"), [(2, ""), (3, "2 at the most"), (5, "2 at the most")])
def test_more_standbys_than_other_instances_make_a_warning(standbys: int, said: str) -> None:
    raw = raw_of(read_scenario(path_of("kafka-streams-recovery")).scenario)  # three instances, and a broker
    raw["fault_tolerance"] = {"changelog": {"standbys": standbys}}
    found = [str(one) for one in rules.warnings(scenario_from(raw))]
    rule = (
        f"fault_tolerance.changelog.standbys: a task has {said}: standbys are on other instances, of which there are 2"
    )
    assert found == ([rule] if said else [])


def test_what_cannot_keep_up_beside_kafka_streams_are_commits() -> None:
    raw = raw_of(read_scenario(path_of("kafka-streams-recovery")).scenario)
    raw["fault_tolerance"] = {"remote": "1 kB/s"}
    (found,) = map(str, rules.warnings(scenario_from(raw)))
    assert found.startswith("fault_tolerance.interval: commits cannot keep up: the remote store stores ")


def test_a_huge_scenario_is_checked_without_making_lists_of_its_tasks() -> None:
    with pytest.raises(InputError) as caught:
        read({"operators/clean/parallelism": 10**9, "hosts/worker/count": 10**9})
    assert [fault.path for fault in caught.value.faults] == ["operators.clean.parallelism", "hosts"]


STATE = {"model": "fixed", "bytes": "1 MB"}


def test_state_beyond_the_memory_of_a_host_is_worth_a_warning() -> None:
    found = [str(one) for one in rules.warnings(read({"hosts/worker/memory": "1 B", "operators/count/state": STATE}))]
    assert any(text.startswith("hosts.worker.memory: a host would hold") for text in found)
    assert not any("memory" in str(one) for one in rules.warnings(read({"hosts/worker/memory": "8 GiB"})))


def test_spare_hosts_that_are_acquired_are_meant_to_be_idle() -> None:
    elastic = {"policy": "threshold", "scale_out": True}
    changes = {"hosts/worker": {"count": 12, "spare": 6, "cpu": "shared"}, "elasticity": elastic}
    assert [str(advice) for advice in rules.warnings(read(changes))] == []
