"""Operators that are chained: one thread serves a record all the way down.

Oracles: instants by hand, both planes, a single operator with the sum of the services, the guarantees of random jobs,
and mutants that these must catch.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from seeds import parts
from test_cluster_view import MS, column, dies
from test_planes import differences
from test_recovery import check

from holdfast.scenario_view import tables
from models.errors import InputError
from models.records.tables import EVENT_LOOP, NEVER, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.scenario.rules import faults, warnings
from models.steady_state.estimate import backlog
from models.steady_state.latency import critical_path
from models.steady_state.load import expected_load
from models.topology.chains import chains_of
from models.units import to_ns
from sim.control.assembly import Control
from sim.control.cluster import RunPlan
from sim.engine import build, records, simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.operator_plan import OperatorPlan
from sim.plain.plane import PlainPlane
from sim.plain.task import Cores


def takes(ms: float) -> dict[str, Any]:
    return {"distribution": "deterministic", "value": f"{ms} ms"}


def job(**changes: Any) -> dict[str, Any]:
    """A record every 25 ms becomes two at `one`, which are served by the same thread at `two` and `three`."""
    return {
        "duration": "2 s",
        "workload": {
            "in": {"rate": "40 /s", "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": 10}}
        },
        "operators": {
            "in": {"kind": "source"},
            "one": {"kind": "map", "inputs": {"in": "shuffle"}, "service": takes(10), "selectivity": 2.0},
            "two": {"kind": "map", "inputs": {"one": "forward"}, "service": takes(3)},
            "three": {"kind": "map", "inputs": {"two": "forward"}, "service": takes(2)},
            "out": {"kind": "sink", "inputs": {"three": "forward"}},
        },
        "hosts": {"h": {"count": 2, "slots": 1}},
        "placement": {"slot_sharing": True, "chaining": True},
        "network": {"latency": "1 ms"},
    } | changes


def run(raw: dict[str, Any]) -> RunRecords:
    """Return the rows, which both planes make."""
    made = unchecked(raw)
    plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
    assert differences(plain, compiled) == []
    return compiled


BARRIERS = {
    "method": "region-restart",
    "interval": "505 ms",
    "store": "remote",
    "remote": "1 MB/s",
    "snapshots": {"mode": "asynchronous"},
    "barriers": {},
}


# -- instants


def test_one_thread_takes_each_record_all_the_way_down_before_the_next() -> None:
    visits = run(job()).tables["visits"]
    rows = [
        (o, s / MS, e / MS) for o, s, e in zip(visits["operator"], visits["start_ns"], visits["end_ns"], strict=True)
    ]
    assert rows[:8] == [
        (0, 25, 25),
        (1, 25, 35),
        (2, 35, 38),
        (3, 38, 40),
        (4, 40, 40),
        (2, 40, 43),
        (3, 43, 45),
        (4, 45, 45),
    ]


def test_the_capacity_of_a_chain_is_that_of_one_operator_with_the_sum_of_the_services() -> None:
    # 80 records a second at 20 ms each is too much for one thread, but not for a thread of each operator.
    raw = job()
    raw["workload"]["in"]["rate"] = "80 /s"
    chained = run(raw)
    alone = job()
    alone["workload"]["in"]["rate"] = "80 /s"
    alone["operators"]["one"]["service"] = takes(20)
    for name in ("two", "three"):
        del alone["operators"][name]["service"]
    single = run(alone)
    last = [column(found, "deliveries", "delivered_ns")[-1][0] for found in (chained, single)]
    assert last[0] == pytest.approx(last[1], abs=20)
    apart = run(raw | {"placement": {"slot_sharing": True}})
    assert len(chained.tables["deliveries"]["operator"]) < 0.7 * len(apart.tables["deliveries"]["operator"])


def test_barriers_pass_a_chain_at_once() -> None:
    # At 505 ms `one` serves the record of 500 ms until 510, and its two outputs until 520.
    found = run(job(fault_tolerance=BARRIERS))
    assert column(found, "job_checkpoints", "triggered_ns", "aligned_ns")[0] == (505, 520)
    taken = {at for operator, at in column(found, "checkpoints", "operator", "taken_ns") if operator in (1, 2, 3)}
    assert {520} <= taken
    assert min(taken) > 505


def test_an_output_that_finds_no_room_stops_the_whole_thread() -> None:
    raw = job()
    raw["operators"]["slow"] = {"kind": "sink", "inputs": {"two": "shuffle"}, "service": takes(40), "buffer": 1}
    visits = run(raw).tables["visits"]
    starts = [(s / MS, o) for o, s in zip(visits["operator"], visits["start_ns"], strict=True) if o in (1, 2, 3)]
    # The sink serves the first output from 38 to 78, and the second has its place. The third, of 63, finds no room.
    assert [o for _, o in sorted(starts)[:6]] == [1, 2, 3, 2, 3, 1]
    gaps = [b - a for (a, o), (b, _) in itertools.pairwise(sorted(starts)) if o == 2]
    assert max(gaps) > 20


def test_a_chain_with_others_on_a_processor_is_one_service_of_them() -> None:
    raw = job(hosts={"h": {"count": 2, "slots": 1, "cpu": "processor-sharing", "cores": 1}})
    visits = run(raw).tables["visits"]
    here = np.isin(visits["operator"], (1, 2, 3)) & (visits["end_ns"] > 0)
    served = sorted(zip(visits["start_ns"][here], visits["end_ns"][here], strict=True))
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(served))


def test_chains_are_for_the_event_loop_and_a_source_with_one_reader_is_none_for_it() -> None:
    assert kernel_for(RunPlan.of(unchecked(job()), RunInputs(), 0)).name == EVENT_LOOP
    raw = job()
    raw["operators"] = {
        "in": {"kind": "source"},
        "out": {"kind": "sink", "inputs": {"in": "forward"}, "service": takes(1)},
    }
    assert chains_of(unchecked(raw)) == ({"in": 0, "out": 1},)
    assert kernel_for(RunPlan.of(unchecked(raw), RunInputs(), 0)).name != EVENT_LOOP


# -- random jobs


def random_chains(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job of chains with branches, windows, bounded queues, and hosts that die."""
    width, groups = draw.choice([1, 2, 3]), draw.choice([1, 2])

    def served() -> dict[str, Any]:
        mean = f"{draw.choice([0.2, 1, 3])} ms"
        return {
            "service": draw.choice(
                [{"distribution": "exponential", "mean": mean}, {"distribution": "deterministic", "value": mean}]
            ),
            "selectivity": draw.choice([0.5, 1.0, 1.0, 1.7]),
            "parallelism": width,
        }

    def bounded() -> dict[str, Any]:
        return {"buffer": draw.choice([1, 3, 10])} if draw.random() < 0.5 else {}

    operators: dict[str, Any] = {"in": {"kind": "source", "parallelism": draw.choice([1, width])}}
    above, fans = "in", operators["in"]["parallelism"]
    for k in range(draw.choice([1, 2, 3])):
        how = "forward" if fans == width and (k or draw.random() < 0.7) else "shuffle"
        operators[f"m{k}"] = {"kind": "map", "inputs": {above: how}, **served()}
        operators[f"m{k}"] |= bounded() if k == 0 else {}
        above, fans = f"m{k}", width
    if draw.random() < 0.6:
        side = {"kind": "map", "inputs": {draw.choice(["m0", above]): "forward"}, **served()}
        operators |= {"side": side | ({"chain": False} if draw.random() < 0.3 else {})}
        operators["seen"] = {"kind": "sink", "inputs": {"side": "forward"}, "parallelism": width}
    total = {"kind": "aggregate", "inputs": {above: "key"}, "key_groups": width * groups, **served(), **bounded()}
    total["state"] = draw.choice([{"model": "fixed", "bytes": "5 kB"}, {"model": "per-key", "bytes": "200 B"}])
    total |= {"serialise": "1 MB/s", "deserialise": "1 MB/s"} if draw.random() < 0.5 else {}
    total |= {"window": {"length": draw.choice(["50 ms", "200 ms"])}} if draw.random() < 0.4 else {}
    operators["total"] = total
    operators["format"] = {"kind": "map", "inputs": {"total": "forward"}, **served()}
    operators["out"] = {"kind": "sink", "inputs": {"format": "forward"}, "parallelism": width}
    operators["out"] |= {"service": served()["service"]} if draw.random() < 0.5 else {}
    crashes = {f"c{k}": dies(draw.choice([0, 1, 2]), draw.randint(300, 3500)) for k in range(draw.choice([0, 1, 2]))}
    for event in crashes.values():
        event["repair"] = draw.choice(["100 ms", "1 s"])
    hosts = {
        "count": 3,
        "slots": 3,
        "cpu": draw.choice(["dedicated", "processor-sharing"]),
        "cores": draw.choice([1, 4]),
    }
    hosts |= {"network": draw.choice(["200 kB/s", "2 MB/s"])} if draw.random() < 0.4 else {}
    barriers = {"timeout": draw.choice(["10 s", "400 ms"]), "first": draw.choice(["interval", "random"])}
    if draw.random() < 0.3:
        barriers |= {"unaligned": True, "alignment_timeout": draw.choice(["0 s", "20 ms"])}
    tolerance = {
        **BARRIERS,
        "interval": draw.choice(["150 ms", "400 ms"]),
        "kind": "full",
        "snapshots": draw.choice([{}, {"mode": "asynchronous", "pause": "1 ms"}, {"copy": "1 MB/s"}]),
        "barriers": barriers,
        **more.get("fault_tolerance", {}),
    }
    return {
        "format": 1,
        "seed": draw.randint(1, 1000),
        "duration": "4 s",
        "workload": {
            "in": {
                "rate": f"{draw.choice([30, 80, 150])} /s",
                "arrivals": draw.choice(["deterministic", "poisson"]),
                "batch": draw.choice([1, 3]),
                "keys": {"distribution": "uniform", "count": 30},
                "watermark": "20 ms",
            }
        },
        "operators": operators,
        "hosts": {"h": hosts},
        "placement": {"slot_sharing": True, "chaining": True},
        "network": {"latency": draw.choice(["1 ms", "5 ms"])},
        "fault_tolerance": tolerance,
        "detector": {"heartbeat": "50 ms", "timeout": "100 ms"},
        "events": crashes,
    }


@pytest.mark.parametrize("seeds", parts(6, 12))
def test_both_planes_give_equal_rows(seeds: range) -> None:
    for seed in seeds:
        raw = random_chains(Random(f"chains {seed}"))
        made = unchecked(raw)
        assert faults(made) == [], seed
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


def with_guarantee(draw: Random, **more: Any) -> dict[str, Any]:
    """The same where what is derived does not depend on the time: without windows."""
    raw = random_chains(draw, **more)
    raw["operators"]["total"].pop("window", None)
    return raw


@pytest.mark.parametrize("seeds", parts(2, 5))
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_guarantees_hold_whatever_crashes(guarantee: str, seeds: range) -> None:
    assert sum(check(Random(f"chains {seed}"), guarantee, with_guarantee) for seed in seeds) >= len(seeds) / 2


@pytest.mark.slow
def test_planes_and_guarantees_in_many_random_jobs() -> None:
    for seed in range(300):
        made = unchecked(random_chains(Random(f"many chains {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed
    for guarantee in ("exactly-once", "at-least-once"):
        assert sum(check(Random(f"many chains {seed}"), guarantee, with_guarantee) for seed in range(100)) >= 50


# -- what must hold of every thread


def control_of(raw: dict[str, Any]) -> tuple[Control, dict[str, np.ndarray]]:
    """Return the control plane of a run that is over, and the visits of its tuples."""
    made = unchecked(raw)
    control = build(made, plane=PlainPlane)
    control.run(to_ns(made.duration_s))
    return control, records(control, to_ns(made.duration_s)).tables["visits"]


def threads_do_one_thing_at_a_time(raw: dict[str, Any]) -> None:
    """Services of one thread do not overlap, and what was handed down is served before the next of the head.

    A part of a chain that gets its state back later than its head serves later what it was handed: the second is
    checked where nothing dies.
    """
    control, visits = control_of(raw)
    cluster, plans = control.state.cluster, control.state.plan.operators
    served = defaultdict[int, list[tuple[int, int, int, int]]](list)
    columns = (visits[name].tolist() for name in ("task", "operator", "arrival_ns", "start_ns", "end_ns"))
    for task, operator, arrival, start, end in zip(*columns, strict=True):
        if plans[operator].thread is not None and plans[operator].description.service:
            first = next(one for one, other in enumerate(cluster.task_thread) if other == cluster.task_thread[task])
            served[first].append((start, end, arrival, plans[operator].depth))
    assert served
    chains = {plan.index: plan.chain for plan in plans if plan.thread is not None}
    for task, operator in enumerate(cluster.task_operator):
        if operator in chains:
            assert cluster.task_host[cluster.task_thread[task]] == cluster.task_host[task]
            assert chains[cluster.task_operator[cluster.task_thread[task]]] == chains[operator]
    for rows in served.values():
        rows.sort()
        for (_, end, *_), (begin, *_) in itertools.pairwise(rows):
            assert end != NEVER
            assert end <= begin
        for start, _, arrival, depth in rows if not raw["events"] else ():
            between = rows[bisect_left(rows, (arrival,)) : bisect_left(rows, (start,))]
            assert all(other >= depth for *_, other in between)


def calm(seed: int) -> dict[str, Any]:
    return random_chains(Random(f"chains {seed}")) | {"events": {}}


def test_a_thread_does_one_thing_at_a_time() -> None:
    for seed in range(4):
        threads_do_one_thing_at_a_time(calm(seed))
        threads_do_one_thing_at_a_time(random_chains(Random(f"chains {seed}")))


def every_task_has_a_core_of_its_own(patch: pytest.MonkeyPatch) -> None:
    add = PlainPlane.add_task

    def broken(self: PlainPlane, task: int) -> None:
        add(self, task)
        alone, made = Cores(1), self.tasks[task]
        made.cores.tasks.remove(made)
        made.cores = alone
        alone.tasks.append(made)

    patch.setattr(PlainPlane, "add_task", broken)


def the_thread_goes_on_at_once(patch: pytest.MonkeyPatch) -> None:
    """What is on its way from one task to another does not hold it."""
    patch.setattr(Cores, "hold", lambda self: None)
    patch.setattr(Cores, "let_go", lambda self: None)


def what_came_first_is_served_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OperatorPlan, "urgency", 0)


@pytest.mark.parametrize(
    "mutant", [every_task_has_a_core_of_its_own, the_thread_goes_on_at_once, what_came_first_is_served_first]
)
def test_what_must_hold_of_threads_catches_a_wrong_rule(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(8):
            threads_do_one_thing_at_a_time(calm(seed))


# -- which operators are chained


def chained(**changes: Any) -> list[list[str]]:
    raw = job()
    for name, keys in changes.items():
        raw["operators"].setdefault(name, {})
        raw["operators"][name] = raw["operators"][name] | keys
    return [[*chain] for chain in chains_of(unchecked(raw))]


def test_chains_are_what_reads_by_forward_in_the_same_slots() -> None:
    assert chained() == [["one", "two", "three", "out"]]
    assert chained(two={"chain": False}) == [["two", "three", "out"]]
    assert chained(two={"chain": False}, three={"chain": False}) == [["three", "out"]]
    assert chained(two={"inputs": {"one": "shuffle"}}) == [["two", "three", "out"]]
    assert chained(two={"buffer": 3}) == [["two", "three", "out"]]
    assert chained(one={"inputs": {"in": "forward"}, "buffer": 3}) == [["in", "one", "two", "three", "out"]]
    both = {"kind": "map", "inputs": {"two": "forward", "three": "forward"}, "service": takes(1)}
    assert chained(both=both) == [["one", "two", "three", "out"]]
    raw = job(placement={"slot_sharing": True})
    raw["operators"]["two"]["chain"] = True
    assert chains_of(unchecked(raw)) == ({"one": 0, "two": 1},)


def test_flink_chains_what_it_can() -> None:
    raw = job(fault_tolerance={"interval": "1 s"}, engine="flink")
    del raw["placement"]
    made = scenario_from(raw)
    assert made.placement.chaining
    assert [[*chain] for chain in chains_of(made)] == [["one", "two", "three", "out"]]
    raw["operators"]["one"] |= {"kind": "aggregate", "inputs": {"in": "key"}, "key_groups": 2}
    raw["events"] = {"more": {"kind": "rescale", "at": "1 s", "operator": "one", "parallelism": 2}}
    assert chains_of(scenario_from(raw)) == ()


@pytest.mark.parametrize(
    ("operator", "changes", "words"),
    [
        ("two", {"inputs": {"one": "key"}}, "only a forward edge is chained"),
        ("two", {"inputs": {"one": "shuffle"}}, "only a forward edge is chained"),
        ("two", {"parallelism": 2}, "another parallelism"),
        ("two", {"inputs": {"one": "forward", "in": "forward"}}, "several inputs"),
        ("two", {"threads": 2}, "one thread"),
        ("two", {"buffer": 2}, "no queue"),
        ("in", {}, "a source begins a chain"),
    ],
)
def test_a_chain_that_cannot_be_is_refused(operator: str, changes: dict[str, Any], words: str) -> None:
    raw = job()
    raw["operators"][operator] |= changes | {"chain": True}
    found = {fault.path: fault.rule for fault in faults(unchecked(raw))}
    assert words in found[f"operators.{operator}.chain"]


def test_a_chain_over_slot_sharing_groups_is_refused() -> None:
    for placement in (
        {"slot_sharing": True, "operators": {"two": "h"}},
        {},
        {"slot_sharing": True, "tasks": {"two-0": "h-1"}},
    ):
        raw = job(placement=placement)
        raw["operators"]["two"]["chain"] = True
        found = {fault.path: fault.rule for fault in faults(unchecked(raw))}
        assert "slot" in found["operators.two.chain"]


def test_more_key_groups_than_tasks_in_ranges_are_no_head() -> None:
    raw = job()
    keyed = {"kind": "aggregate", "inputs": {"in": "key"}, "parallelism": 2, "key_groups": 4}
    raw["operators"]["one"] |= keyed
    for name in ("two", "three", "out"):
        raw["operators"][name]["parallelism"] = 2
    assert next(iter(chains_of(unchecked(raw)))) == {"one": 0, "two": 1, "three": 2, "out": 3}
    raw["operators"]["one"]["key_group_assignment"] = "ranges"
    assert next(iter(chains_of(unchecked(raw)))) == {"two": 0, "three": 1, "out": 2}
    raw["operators"]["two"]["chain"] = True
    assert "round robin" in {fault.path: fault.rule for fault in faults(unchecked(raw))}["operators.two.chain"]


@pytest.mark.parametrize(
    "changes",
    [
        {"hosts": {"h": {"count": 2, "slots": 1, "cpu": "shared"}}},
        {"fault_tolerance": {"method": "checkpoint", "interval": "1 s"}},
        {"fault_tolerance": BARRIERS, "recovery": {"scheduler": "adaptive"}},
        {"events": {"dies": dies(0, 700)}},
    ],
)
def test_chains_are_refused_beside_what_they_do_not_go_with(changes: dict[str, Any]) -> None:
    raw = job(**changes)
    assert "placement.chaining" in {fault.path for fault in faults(unchecked(raw))}
    del raw["placement"]["chaining"]
    assert not {fault.path for fault in faults(unchecked(raw))} & {"placement.chaining", "operators.two.chain"}
    raw["operators"]["two"]["chain"] = True
    assert "operators.two.chain" in {fault.path for fault in faults(unchecked(raw))}


@pytest.mark.parametrize("engine", ["spark", "kafka-streams", "storm"])
def test_chains_are_of_flink(engine: str) -> None:
    raw = job(engine=engine, fault_tolerance={"interval": "1 s"})
    raw["operators"]["two"]["chain"] = True
    with pytest.raises(InputError) as caught:
        scenario_from(raw)
    found = {fault.path: fault.rule for fault in caught.value.faults}
    assert found["placement.chaining"] == found["operators.two.chain"] == "is of Flink"


# -- expected load


def test_the_load_of_a_chain_is_that_of_its_thread() -> None:
    made = unchecked(job())
    load = expected_load(made)
    for name in ("one", "two", "three"):  # 40 records/s of 10 ms, and twice that of 3 ms and of 2 ms
        assert load.operators[name].utilisation.tolist() == pytest.approx([0.8])
    assert load.hosts["h-0"].utilisation == pytest.approx(0.8)
    shared = unchecked(job(hosts={"h": {"count": 2, "slots": 1, "cpu": "processor-sharing"}}))
    assert expected_load(shared).hosts["h-0"].utilisation == pytest.approx(0.8)
    fast = job()
    fast["workload"]["in"]["rate"] = "100 /s"  # twice what the thread can do
    waiting = backlog(unchecked(fast))
    assert waiting["one"] == pytest.approx(100 * 2 / 2, rel=1e-6)
    assert waiting["two"] == waiting["three"] == 0
    (warning,) = (one for one in warnings(unchecked(fast)) if one.path.startswith("operators."))
    assert warning.path == "operators.one"


def test_the_expected_wait_is_that_before_the_chain() -> None:
    raw = job(duration="400 s", warmup="20 s")
    raw["workload"]["in"] |= {"rate": "30 /s", "arrivals": "poisson"}
    raw["operators"]["one"] |= {"service": {"distribution": "exponential", "mean": "10 ms"}, "selectivity": 0.5}
    for name in ("two", "three"):
        raw["operators"][name]["service"] = {"distribution": "exponential", "mean": "10 ms"}
    made = unchecked(raw)
    path = critical_path(made, expected_load(made))
    waits = {step.operator: step.wait_s for step in path.steps}
    assert waits["two"] == waits["three"] == 0
    visits = simulate(made, plane=CompiledPlane).tables["visits"]
    here = (visits["operator"] == 1) & (visits["arrival_ns"] > 20_000 * MS) & (visits["start_ns"] >= 0)
    measured = (visits["start_ns"] - visits["arrival_ns"])[here].mean() / 1e9
    assert waits["one"] == pytest.approx(measured, rel=0.1)
    behind = (visits["operator"] == 2) & (visits["start_ns"] >= 0)
    assert (visits["start_ns"] == visits["arrival_ns"])[behind].all()


def test_show_names_the_chains() -> None:
    lines = [*tables(unchecked(job()), None)]
    assert "Chained, one thread for each task: one -> two -> three -> out." in lines
    plain = job(placement={"slot_sharing": True})
    assert not any(isinstance(line, str) and line.startswith("Chained") for line in tables(unchecked(plain), None))
