"""Every rule over a whole scenario has the smallest change of a valid scenario that breaks it, and it alone."""

from __future__ import annotations

import pytest
from rule_cases import ACKER, LONE_SOURCE, MIGRATE, REBALANCE, RESCALE, SERVICE, WAVES, read

from models.errors import InputError
from models.scenario import rules


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
    ({"operators/count/key_groups": 1048577}, ["operators.count.key_groups = 1048577: must be at most 1,048,576"]),
    ({"operators/clean/parallelism": 200_000}, ["operators.clean.parallelism = 200000: must be at most 100,000"]),
    ({"operators/clean/parallelism": 100_000}, ["operators: 100,004 tasks are too many: 100,000 at most"]),
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
        {"workload/words/keys": {"distribution": "nexmark", "field": "auction.seller", "in_flight": 5}},
        ["workload.words.keys.in_flight = 5: is of bid.auction, and the field is auction.seller (remove it)"],
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
            "workload.words.keys.distribution = nexmark: the run would have up to 600,000,001 ids; at most 10,000,000 "
            "are possible (make the run shorter, the rate lower, or the resolution greater)"
        ],
    ),
    (
        {"workload/words/keys": {"distribution": "uniform", "count": 10**8}},
        ["workload.words.keys.count = 100000000: must be at most 10,000,000"],
    ),
    (
        {"operators/clean/output": {"keys": {"distribution": "uniform", "count": 10**8}}},
        ["operators.clean.output.keys.count = 100000000: must be at most 10,000,000"],
    ),
    ({"warmup": "10 min"}, ["warmup = 10 min: must be shorter than the duration of 10 min"]),
    ({"replications": 10**6}, ["replications = 1000000: must be at most 100,000"]),
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
    ({"hosts/worker/count": 200_000}, ["hosts: 200,000 hosts are too many: 100,000 at most"]),
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
