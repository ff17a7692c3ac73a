"""Every rule over a whole scenario has the smallest change of a valid scenario that breaks it, and it alone."""

from __future__ import annotations

from typing import Any

import pytest
from changed_keys import changed

from models.errors import InputError
from models.scenario import rules
from models.scenario.reading import raw_of, scenario_from
from models.scenario.scenario import Scenario
from scenarios.files.scenario import path_of, read_scenario

SERVICE = {"distribution": "exponential", "mean": "1 ms"}
RAW: dict[str, Any] = {
    "duration": "10 min",
    "warmup": "1 min",
    "workload": {"words": {"rate": "100 /s"}},
    "operators": {
        "words": {"kind": "source"},
        "clean": {"kind": "map", "inputs": {"words": "shuffle"}, "parallelism": 2, "service": dict(SERVICE)},
        "count": {
            "kind": "aggregate",
            "inputs": {"clean": "key"},
            "parallelism": 2,
            "key_groups": 8,
            "service": dict(SERVICE),
        },
        "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
    },
    "hosts": {"worker": {"count": 3}},
    "fault_tolerance": {"method": "checkpoint"},
    "events": {"crash": {"kind": "host-failure", "at": "5 min", "host": "worker-1"}},
}
LONE_SOURCE = {"kind": "source"}
MIGRATE = {"kind": "migrate", "at": "1 min", "operator": "count", "key_group": 3, "host": "worker-0"}
REBALANCE = {"kind": "rebalance", "at": "1 min", "hosts": ["worker"]}
ACKER = {"method": "acker", "guarantee": "at-least-once"}
TRIMS = {"method": "elastic-upstream-backup"}
WAVES: dict[str, Any] = {"waves": {"interval": "30 s"}, "fault_tolerance": ACKER}
RESCALE = {"kind": "rescale", "at": "1 min", "operator": "count", "parallelism": 4}


def read(changes: dict[str, object]) -> Scenario:
    return scenario_from(changed(RAW, changes))


def test_the_scenario_that_the_cases_start_from_is_valid() -> None:
    scenario = read({})
    assert rules.faults(scenario) == []
    assert rules.not_simulated(scenario) == []
    assert rules.warnings(scenario) == []


# changes, the faults they make
BROKEN: list[tuple[dict[str, object], list[str]]] = [
    (
        {"detector": {"heartbeat": "2 s", "timeout": "2 s", "loss": 0.1}},
        ["detector.timeout = 2 s: must be longer than the heartbeat of 2 s where some are lost or late"],
    ),
    (
        {"detector": {"timeout": "2 s", "delay": {"distribution": "exponential", "mean": "2 s"}}},
        ["detector.delay = 2 s: must be shorter on average than the timeout of 2 s"],
    ),
    (
        {"detector": {"delay": {"distribution": "uniform", "low": "2 s", "high": "1 s"}}},
        ["detector.delay.low = 2 s: must be shorter than high"],
    ),
    (
        {"workers": {"start": {"distribution": "uniform", "low": "2 s", "high": "1 s"}}},
        ["workers.start.low = 2 s: must be shorter than high"],
    ),
    (
        WAVES | {"waves": {"interval": "2 s", "step": {"distribution": "exponential", "mean": "2 s"}}},
        [
            "waves.step = 2 s: must be shorter on average than waves.interval = 2 s "
            "(the steps of a wave end before the next begins)"
        ],
    ),
    (
        {"waves": {"interval": "2 s"}},
        [
            "waves.interval = 2 s: needs an acker, by which a wave that is lost is noticed "
            '(write method = "acker" and guarantee = "at-least-once" in fault_tolerance)'
        ],
    ),
    (
        {"events/goes": REBALANCE | {"protocol": "dsm"}},
        [
            "events.goes.protocol = dsm: needs an acker, which has tuples sent again, and periodic waves, which bring "
            'states back (write fault_tolerance.method = "acker", fault_tolerance.guarantee = "at-least-once", '
            'waves.interval = "30 s", or take dcr or ccr)'
        ],
    ),
    ({"waves": {"resend": "0.9 ms"}}, ["waves.resend = 0.9 ms: must be at least 1 ms"]),
    (
        {"waves": {"interval": "1 us", "step": {"distribution": "deterministic", "value": "1 ms"}}}
        | {"fault_tolerance": ACKER},
        ["waves.interval = 1 us: must be at least 1 ms"],
    ),
    (
        {"waves": {"interval": "0 s"}, "events/goes": REBALANCE | {"protocol": "dsm"}} | {"fault_tolerance": ACKER},
        ["waves.interval = 0 s: must be longer than zero"],
    ),
    ({"workers": {"gate": "1 ns"}}, ["workers.gate = 1 ns: must be at least 1 ms"]),
    (
        {"placement": {"hosts": ["workr"]}},
        ["placement.hosts[0] = workr: there is no host group of this name (did you mean worker?)"],
    ),
    (
        {"placement": {"hosts": ["worker"]}, "hosts/worker/slots": 1},
        ["hosts.worker.slots = 1: 2 tasks are placed on worker-0"],
    ),
    (
        {"placement": {"hosts": ["other"]}, "hosts/other": {"count": 2, "spare": 2}},
        ["placement.hosts = ['other']: have no host but spare ones"],
    ),
    (
        {"placement": {"fixed": ["owt"]}},
        ["placement.fixed[0] = owt: there is no operator of this name (did you mean out?)"],
    ),
    (
        {"placement": {"fixed": ["count"]}},
        ["placement.fixed[0] = count: must be a sink (sources stay in any case; all between them and the sinks moves)"],
    ),
    (
        {"events/goes": REBALANCE | {"hosts": ["worker", "workr"]}},
        ["events.goes.hosts[1] = workr: there is no host group of this name (did you mean worker?)"],
    ),
    (
        # The source stays and has a slot of the three, so that two of them are free for five tasks.
        {"events/goes": REBALANCE | {"hosts": ["new"]}, "hosts/new": {"slots": 3}, "placement/tasks/words-0": "new-0"},
        [
            "events.goes.hosts = ['new']: 5 tasks need a slot, and 2 are free there "
            "(name more host groups, or give hosts.GROUP more hosts or slots)"
        ],
    ),
    ({"workload/words": None}, ["workload.words: is missing: the source words needs a workload"]),
    ({"workload/clean": {"rate": "1 /s"}}, ["workload.clean: operator clean is a map, not a source"]),
    ({"workload/wrds": {"rate": "1 /s"}}, ["workload.wrds: there is no source of this name (did you mean words?)"]),
    (
        {"operators/more": LONE_SOURCE, "workload/more": {"rate": "1 /s"}},
        ["operators.more: nobody reads the output of this operator"],
    ),
    (
        {"operators/words/inputs": {"clean": "shuffle"}},
        [
            "operators.words.inputs: a source has no inputs",
            "operators.words.inputs: is on a cycle: words -> clean -> words",
        ],
    ),
    ({"operators/words/service": SERVICE}, ["operators.words.service: a source has no service"]),
    (
        {"operators/words/selectivity": 2},
        ["operators.words.selectivity = 2.0: must be 1 for a source (what a source emits stands in workload.words)"],
    ),
    (
        {"operators/words/output": {}},
        ["operators.words.output: a source has no output (what a source emits stands in workload.words)"],
    ),
    ({"operators/words/state": {"model": "fixed", "bytes": "1 B"}}, ["operators.words.state: a source has no state"]),
    (
        {"operators/clean/inputs": None},
        [
            "operators.clean.inputs: is missing: a map needs an input",
            "operators.words: nobody reads the output of this operator",
        ],
    ),
    (
        {"operators/clean/inputs": {"wrds": "shuffle"}},
        [
            "operators.clean.inputs.wrds: there is no operator of this name (did you mean words?)",
            "operators.words: nobody reads the output of this operator",
        ],
    ),
    (
        {"operators/clean/inputs": {"words": "shuffle", "out": "shuffle"}},
        [
            "operators.clean.inputs.out: a sink has no output",
            "operators.clean.inputs: is on a cycle: clean -> count -> out -> clean",
        ],
    ),
    (
        {"operators/clean/inputs": {"words": "forward"}},
        ["operators.clean.inputs.words = forward: needs equal parallelism: words has 1, this 2"],
    ),
    (
        {"operators/count/inputs": {"clean": "key", "words": "shuffle"}},
        ["operators.count.inputs: either all inputs are partitioned by key or none"],
    ),
    (
        {"operators/count/inputs": {"clean": "shuffle"}, "operators/count/key_groups": None},
        ["operators.count.inputs: an aggregate needs an input partitioned by key"],
    ),
    ({"operators/count/takes": {"words": 0.5}}, ["operators.count.takes.words = 0.5: is not one of the inputs"]),
    (
        {"operators/count/takes": {"clean": "delayed"}},
        ["operators.count.takes.clean = delayed: needs a source with a profile (or write a number)"],
    ),
    ({"operators/clean/service": None}, ["operators.clean.service: is missing: a map needs a service time"]),
    ({"operators/count/service": None}, ["operators.count.service: is missing: an aggregate needs a service time"]),
    ({"operators/clean/kind": "join"}, ["operators.clean.inputs: a join needs at least two inputs"]),
    (
        {"operators/clean/kind": "filter", "operators/clean/selectivity": 1.5},
        ["operators.clean.selectivity = 1.5: must be at most 1 for a filter"],
    ),
    ({"operators/out/selectivity": 2}, ["operators.out.selectivity = 2.0: a sink has no output"]),
    ({"operators/out/output": {}}, ["operators.out.output: a sink has no output"]),
    ({"operators/count/key_groups": 1}, ["operators.count.key_groups = 1: must be at least the parallelism of 2"]),
    ({"operators/clean/key_groups": 4}, ["operators.clean.key_groups = 4: needs an input partitioned by key"]),
    ({"operators/count/key_groups": 2_000_000}, ["operators.count.key_groups = 2000000: must be at most 1000000"]),
    ({"operators/clean/parallelism": 200_000}, ["operators.clean.parallelism = 200000: must be at most 100000"]),
    ({"operators/clean/parallelism": 100_000}, ["operators: 100004 tasks are too many: 100000 at most"]),
    (
        {"operators/count/threads": 2},
        [
            "operators.count.threads = 2: must be 1 unless the operator has no key input, no state and a service "
            "(several threads break the order within a key)"
        ],
    ),
    (
        {"operators/clean/threads": 2, "operators/clean/state": {"model": "fixed", "bytes": "1 B"}},
        [
            "operators.clean.threads = 2: must be 1 unless the operator has no key input, no state and a service "
            "(several threads break the order within a key)"
        ],
    ),
    (
        {"operators/out": None},
        [
            "operators: at least one operator must be a sink",
            "operators.count: nobody reads the output of this operator",
        ],
    ),
    (
        {"operators/clean/inputs": {"words": "shuffle", "count": "shuffle"}},
        ["operators.clean.inputs: is on a cycle: clean -> count -> clean"],
    ),
    (
        {"operators/clean/service": {"distribution": "uniform", "low": "2 ms", "high": "1 ms"}},
        ["operators.clean.service.low = 2 ms: must be shorter than high"],
    ),
    (
        {"hosts/worker/load": {"steps": [{"at": "5 s", "share": 0.5}, {"at": "5 s", "share": 0.2}]}},
        ["hosts.worker.load.steps[1].at = 5 s: must be later than the step before"],
    ),
    (
        {"workload/words/rate": {"profile": "p", "span": "1 min", "mean": "1 /s", "begin": "60 s"}},
        ["workload.words.rate.begin = 1 min: must be before the end of the span of 1 min"],
    ),
    (
        {"workload/words/rate": {"steps": [{"at": "1 s", "rate": "1 /s"}]}},
        ["workload.words.rate.steps[0].at = 1 s: must be 0 s at the first step"],
    ),
    (
        {"workload/words/rate": {"steps": [{"at": "0 s", "rate": "1 /s"}, {"at": "0 s", "rate": "2 /s"}]}},
        ["workload.words.rate.steps[1].at = 0 s: must be later than the step before"],
    ),
    (
        {"workload/words/keys": {"distribution": "profile"}},
        ["workload.words.keys.distribution = profile: needs a rate from a profile (or choose uniform or zipf)"],
    ),
    (
        {
            "workload/words/keys": {"distribution": "nexmark", "field": "bid.auction"},
            "workload/words/rate": {"series": "rates.csv", "step": "1 s"},
        },
        [
            "workload.words.keys.distribution = nexmark: needs a rate that is constant, in steps or a ramp "
            "(or choose uniform or zipf)"
        ],
    ),
    (
        {"workload/words/keys": {"distribution": "nexmark", "field": "bid.auction"}, "workload/words/batch": 10},
        [
            "workload.words.keys.distribution = nexmark: numbers events one by one (remove workload.words.batch)",
        ],
    ),
    (
        {
            "workload/words/keys": {"distribution": "nexmark", "field": "auction.id"},
            "workload/words/rate": "1e6 /s",
        },
        [
            "workload.words.keys.distribution = nexmark: the run would have up to 600000001 ids; at most 10000000 are "
            "possible (make the run shorter, or the rate lower)"
        ],
    ),
    (
        {"workload/words/keys": {"distribution": "uniform", "count": 10**8}},
        ["workload.words.keys.count = 100000000: must be at most 10000000"],
    ),
    (
        {"operators/clean/output": {"keys": {"distribution": "uniform", "count": 10**8}}},
        ["operators.clean.output.keys.count = 100000000: must be at most 10000000"],
    ),
    ({"warmup": "10 min"}, ["warmup = 10 min: must be shorter than the duration of 10 min"]),
    ({"replications": 10**6}, ["replications = 1000000: must be at most 100000"]),
    ({"elasticity": {"low": 0.9}}, ["elasticity.low = 0.9: must be less than elasticity.high = 0.85"]),
    (
        {"elasticity/hosts": ["wrker"]},
        ["elasticity.hosts[0] = wrker: there is no host group of this name (did you mean worker?)"],
    ),
    (
        {"elasticity": {"policy": "threshold", "scale_out": True}},
        [
            "elasticity.scale_out = true: there is no spare host to acquire "
            "(say how many of a host group are: spare = 2)"
        ],
    ),
    (
        {"elasticity": {"policy": "threshold"}, "operators/count/kind": "map"},
        [
            "elasticity.policy = threshold: no operator has key groups that can move "
            "(an aggregate or a join with an input by key has)"
        ],
    ),
    ({"hosts/more": {"count": 3, "spare": 4}}, ["hosts.more.spare = 4: must be at most count = 3"]),
    ({"hosts/worker/spare": 3}, ["hosts: at least one host that is not spare is needed"]),
    (
        {"hosts/worker/spare": 1, "placement/tasks": {"count-0": "worker-2"}},
        ["placement.tasks.count-0 = worker-2: is a spare host"],
    ),
    (
        {"hosts/worker/spare": 1, "placement/tasks": {"count-0": "worker-²", "count-1": "worker-02"}},
        [
            "placement.tasks.count-0 = worker-²: there is no host of this name (did you mean worker-2?)",
            "placement.tasks.count-1 = worker-02: there is no host of this name (did you mean worker-2?)",
        ],
    ),
    (
        {"hosts/more": {"count": 1, "spare": 1}, "placement/operators": {"count": "more"}},
        ["placement.operators.count = more: has no host but spare ones"],
    ),
    ({"events/crash/at": "10 min"}, ["events.crash.at = 10 min: must be before the end of the run at 10 min"]),
    (
        {"events/crash/host": "worker-3"},
        ["events.crash.host = worker-3: there is no host of this name (did you mean worker-2?)"],
    ),
    (
        {"events/crash/host": "worker"},
        ["events.crash.host = worker: there is no host of this name (did you mean worker-2?)"],
    ),
    (
        {"events/move": MIGRATE | {"operator": "cont"}},
        ["events.move.operator = cont: there is no operator of this name (did you mean count?)"],
    ),
    (
        {"events/move": MIGRATE | {"operator": "clean"}},
        ["events.move.operator = clean: has no input partitioned by key"],
    ),
    ({"events/move": MIGRATE | {"key_group": 8}}, ["events.move.key_group = 8: must be less than the 8 key groups"]),
    ({"events/more": RESCALE | {"parallelism": 9}}, ["events.more.parallelism = 9: must be at most the 8 key groups"]),
    (
        {"placement": {"operators": {"cont": "worker"}}},
        ["placement.operators.cont: there is no operator of this name (did you mean count?)"],
    ),
    (
        {"placement": {"operators": {"count": "wrker"}}},
        ["placement.operators.count = wrker: there is no host group of this name (did you mean worker?)"],
    ),
    (
        {"placement": {"tasks": {"count-2": "worker-0"}}},
        ["placement.tasks.count-2: there is no task of this name (did you mean count-1?)"],
    ),
    (
        {"placement": {"tasks": {"count-01": "worker-0"}}},
        ["placement.tasks.count-01: there is no task of this name (did you mean count-1?)"],
    ),
    (
        {"placement": {"tasks": {"count-1": "worker-7"}}},
        ["placement.tasks.count-1 = worker-7: there is no host of this name (did you mean worker-2?)"],
    ),
    ({"hosts/worker/slots": 1}, ["hosts.worker.slots = 1: 2 tasks are placed on worker-0"]),
    ({"hosts/worker/count": 200_000}, ["hosts: 200000 hosts are too many: 100000 at most"]),
    ({"hosts/worker": None, "events": {}}, ["hosts: at least one host is needed"]),
    (
        {"hosts/worker/count": 1, "events": {}},
        [
            "fault_tolerance.copies = 1: needs 2 hosts or more, there are 1 "
            "(a copy on the host that fails is lost with it)"
        ],
    ),
    (
        {"fault_tolerance/copies": 3},
        [
            "fault_tolerance.copies = 3: needs 4 hosts or more, there are 3 "
            "(a copy on the host that fails is lost with it)"
        ],
    ),
    (
        {"fault_tolerance": {"maintenance": {}}},
        [
            "fault_tolerance.maintenance: needs checkpoints; fault_tolerance.method is none "
            '(write method = "checkpoint")'
        ],
    ),
    (
        {"fault_tolerance": {"method": "checkpoint", "store": "remote", "maintenance": {}}},
        [
            "fault_tolerance.maintenance: needs checkpoints that hosts hold; fault_tolerance.store is remote "
            '(write store = "nodes")'
        ],
    ),
    (
        {
            "fault_tolerance/maintenance": {},
            "operators/count": {"kind": "map", "inputs": {"clean": "shuffle"}, "service": dict(SERVICE)},
        },
        ["fault_tolerance.maintenance: needs key groups, and no operator has any"],
    ),
    (
        {"fault_tolerance/maintenance": {"window": "15 s"}},
        [
            "fault_tolerance.maintenance.window = 15 s: must be as long as two checks of the load: "
            "elasticity.period is 8 s"
        ],
    ),
    (
        {"fault_tolerance/acker": {"timeout": "1 min"}},
        [
            "fault_tolerance.acker: needs the method acker; fault_tolerance.method is checkpoint "
            '(write method = "acker" and guarantee = "at-least-once" in fault_tolerance)'
        ],
    ),
    (
        {"fault_tolerance": {"method": "acker"}},
        [
            "fault_tolerance.guarantee = exactly-once: cannot be kept by the method acker: what is emitted again "
            'may be processed twice (write guarantee = "at-least-once")'
        ],
    ),
    (
        {"fault_tolerance": ACKER | {"acker": {"timeout": "1.5 ms"}}},
        [
            "fault_tolerance.acker.timeout = 1.5 ms: is shorter than the services and links of the longest path, "
            "2.4 ms on average (roots would fail although nothing is wrong; take several times as long)"
        ],
    ),
    (
        # Two services of 1 ms and the latency of 0.2 ms to the workers; an ack back: 1 kB at 125 kB/s, and the latency.
        {
            "hosts": {"front": {}, "worker": {"count": 3, "network": "1 Mbit/s"}},
            "placement": {"operators": {"words": "front", "clean": "worker", "count": "worker", "out": "worker"}},
            "fault_tolerance": ACKER | {"acker": {"timeout": "10 ms", "transport": "links", "ack": "1 kB"}},
        },
        [
            "fault_tolerance.acker.timeout = 10 ms: is shorter than the services and links of the longest path, "
            "10.4 ms on average (roots would fail although nothing is wrong; take several times as long)"
        ],
    ),
    (
        {"fault_tolerance": ACKER | {"acker": {"timeout": "0 s"}}},
        ["fault_tolerance.acker.timeout = 0 s: must be longer than zero"],
    ),
    (
        {"fault_tolerance": ACKER | {"acker": {"pending": 0}}},
        ["fault_tolerance.acker.pending = 0: must be at least 1"],
    ),
    (
        {"fault_tolerance": ACKER | {"acker": {"transport": "link"}}},
        ["fault_tolerance.acker.transport = link: must be latency or links"],
    ),
    (
        {"fault_tolerance": {"guarantee": "exactly-once"}},
        ['fault_tolerance.guarantee = exactly-once: cannot be kept by the method none (write method = "checkpoint")'],
    ),
    (
        {"operators/clean/window": {"length": "1 s"}},
        ["operators.clean.window: a map has no window: an aggregate or a join has"],
    ),
    (
        {"operators/count/window": {"length": "1 s", "slide": "10 us"}},
        [
            "operators.count.window.slide = 10 us: must be at least 1 ms",
            "operators.count.window.slide = 10 us: puts every tuple into 100,000 windows: 1,000 at most",
        ],
    ),
    (
        {"operators/count/timer": {"every": "1 us"}},
        [
            "operators.count.timer: needs a map or a filter without an input partitioned by key",
            "operators.count.timer.every = 1 us: must be at least 1 ms",
        ],
    ),
    ({"workload/words/watermark": "1 us"}, ["workload.words.watermark = 1 us: must be at least 1 ms"]),
    (
        {"operators/clean/key_hash": "flink-number"},
        ["operators.clean.key_hash = flink-number: needs an input partitioned by key"],
    ),
    (
        {
            "workload/words/keys": {"distribution": "profile"},
            "workload/words/rate": {"profile": "p", "span": "100 s", "mean": "10 /s"},
            "operators/count/key_hash": "flink-string",
        },
        [
            "operators.count.key_hash = flink-string: its keys come from a profile, which has hashed them "
            "(leave the key out, or give keys of the workload a law)",
        ],
    ),
]


@pytest.mark.parametrize(("changes", "expected"), BROKEN, ids=[" ".join(changes) for changes, _ in BROKEN])
def test_a_broken_rule_is_reported_with_its_path(changes: dict[str, object], expected: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read(changes)
    assert sorted(str(fault) for fault in caught.value.faults) == sorted(expected)


def test_a_sweep_value_that_makes_an_impossible_scenario_is_a_fault() -> None:
    with pytest.raises(InputError) as caught:
        read({"sweep": {"duration": ["2 min", "30 s"]}})
    (first, second) = map(str, caught.value.faults)
    assert first.startswith("sweep.duration[0] = 2 min: gives events.crash.at = 5 min: must be before")
    assert second == "sweep.duration[1] = 30 s: gives warmup = 1 min: must be shorter than the duration of 30 s"


# changes, the paths that are not simulated yet
LATER: list[tuple[dict[str, object], list[str]]] = [
    (
        {"fault_tolerance": {"method": "active-replication"}, "events/move": MIGRATE | {"protocol": "cpa"}},
        ["events.move.protocol"],
    ),
    (
        {"fault_tolerance": {"method": "source-backup"}, "events/move": MIGRATE | {"protocol": "direct"}},
        ["events.move.protocol"],
    ),
    ({"events/move": MIGRATE | {"protocol": "pause_drain_resume"}}, ["events.move.protocol"]),
    ({"fault_tolerance": ACKER | {"acker": {"acks": "covered"}}}, ["fault_tolerance.acker.acks"]),
    ({"fault_tolerance": ACKER, "operators/count/buffer": 5}, ["operators.count.buffer"]),
    ({"fault_tolerance": ACKER, "events/move": MIGRATE}, ["events.move.kind"]),
    ({"fault_tolerance": ACKER, "elasticity": {"policy": "threshold"}}, ["elasticity.policy"]),
    ({"fault_tolerance": TRIMS, "events/move": MIGRATE}, ["events.move.kind"]),
    ({"fault_tolerance": TRIMS, "elasticity": {"policy": "threshold"}}, ["elasticity.policy"]),
    ({"fault_tolerance": TRIMS | {"guarantee": "at-least-once"}}, ["fault_tolerance.guarantee"]),
    ({"fault_tolerance": TRIMS | {"maintenance": {}}}, ["fault_tolerance.maintenance"]),
    ({"fault_tolerance/copies": 2}, ["fault_tolerance.copies"]),
    ({"elasticity": {"policy": "threshold", "protocol": "teleport"}}, ["elasticity.protocol"]),
    ({"elasticity": {"policy": "threshold"}, "fault_tolerance": {"method": "none"}}, ["elasticity.policy"]),
    ({"events/move": MIGRATE | {"protocol": "teleport"}}, ["events.move.protocol"]),
    ({"fault_tolerance": TRIMS, "events/move": MIGRATE | {"protocol": "teleport"}}, ["events.move.protocol"]),
    ({"events/move": MIGRATE, "fault_tolerance": {"method": "none"}}, ["events.move.kind"]),
    ({"events/move": MIGRATE, "fault_tolerance/guarantee": "at-most-once"}, ["events.move.kind"]),
    (
        {"events/move": MIGRATE | {"operator": "clean", "key_group": 1}, "operators/clean/inputs": {"words": "key"}},
        ["events.move.operator"],
    ),
    ({"events/more": RESCALE}, ["events.more.parallelism"]),
    ({"events/more": RESCALE | {"parallelism": 3}, "hosts/worker/spare": 1}, ["events.more.parallelism"]),
    ({"events/more": RESCALE | {"parallelism": 1}, "fault_tolerance": {"method": "none"}}, ["events.more.kind"]),
    (
        {
            "events/more": RESCALE | {"parallelism": 1},
            "placement/tasks": {"count-0": "worker-0", "count-1": "worker-0"},
        },
        ["events.more.operator"],
    ),
    ({"placement": {"plan": "plan.json"}}, ["placement.plan"]),
    ({"events/goes": REBALANCE, **WAVES}, ["waves.interval"]),
    ({"events/move": MIGRATE, **WAVES}, ["events.move.kind", "waves.interval"]),
    ({"operators/clean/threads": 2, **WAVES}, ["operators.clean.threads"]),
    ({"events/goes": REBALANCE, "operators/clean/threads": 2}, ["operators.clean.threads"]),
    (
        {
            "events/goes": REBALANCE,
            "fault_tolerance/replicas": {"a": {"operator": "count", "host": "worker-0", "tasks": ["count-1"]}},
        },
        ["events.goes.kind"],
    ),
    (
        {
            "operators/clean/kind": "join",
            "operators/clean/inputs": {"words": "shuffle", "words2": "shuffle"},
            "operators/words2": LONE_SOURCE,
            "workload/words2": {"rate": "1 /s"},
        },
        ["operators.clean.kind"],
    ),
]


@pytest.mark.parametrize(("changes", "paths"), LATER, ids=[" ".join(changes) for changes, _ in LATER])
def test_what_comes_later_is_valid_and_named(changes: dict[str, object], paths: list[str]) -> None:
    found = rules.not_simulated(read(changes))
    assert [fault.path for fault in found] == paths
    assert all(fault.rule == "not simulated yet" for fault in found)


def test_windows_and_timers_are_simulated_where_a_host_may_fail() -> None:
    window = {"length": "10 s", "slide": "2 s"}
    state = {"model": "window", "bytes": "1 B", "length": "1 s"}
    changes: dict[str, object] = {"events": {}, "operators/count/window": window, "operators/count/state": state}
    hosts: dict[str, object] = {"hosts/worker/failures": {"model": "schedule", "at": ["1 min"], "repair": "1 min"}}
    assert rules.not_simulated(read(changes | hosts | {"operators/clean/timer": {"every": "1 s"}})) == []


@pytest.mark.parametrize("window", [None, {"length": "10 s"}, {"length": "10 s", "slide": "5 s"}])
def test_a_join_is_simulated_with_windows_that_do_not_overlap(window: dict[str, str] | None) -> None:
    changes: dict[str, object] = {
        "events": {},
        "operators/count/kind": "join",
        "operators/count/inputs": {"clean": "key", "words2": "key"},
        "operators/words2": LONE_SOURCE,
        "workload/words2": {"rate": "1 /s"},
    }
    found = rules.not_simulated(read(changes | ({"operators/count/window": window} if window else {})))
    assert [fault.path for fault in found] == ([] if window == {"length": "10 s"} else ["operators.count.kind"])


@pytest.mark.parametrize("event", [MIGRATE, RESCALE | {"parallelism": 1}], ids=["migrate", "rescale"])
def test_key_groups_of_a_join_may_move(event: dict[str, object]) -> None:
    changes: dict[str, object] = {
        "events/move": event,
        "operators/count/kind": "join",
        "operators/count/inputs": {"clean": "key", "words2": "key"},
        "operators/count/window": {"length": "10 s"},
        "operators/words2": LONE_SOURCE,
        "workload/words2": {"rate": "1 /s"},
        "elasticity": {"policy": "threshold"},
    }
    assert rules.not_simulated(read(changes)) == []


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


@pytest.mark.parametrize(("standbys", "said"), [(2, ""), (3, "2 at the most"), (5, "2 at the most")])
def test_more_standbys_than_other_instances_make_a_warning(standbys: int, said: str) -> None:
    raw = raw_of(read_scenario(path_of("kafka-streams-recovery")).scenario)  # three instances, and a broker
    raw["fault_tolerance"] = {"changelog": {"standbys": standbys}}
    found = [str(one) for one in rules.warnings(scenario_from(raw))]
    rule = (
        f"fault_tolerance.changelog.standbys: a task has {said}: standbys are on other instances, of which there are 2"
    )
    assert found == ([rule] if said else [])


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
