"""DCR and CCR on random jobs with a clock, on all planes: nothing is lost or comes twice; aligned messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

import pytest
from replicated_jobs import replicated_job
from small_jobs import (
    random_job,
    random_joins,
    random_windows,
    rows_of,
    storm,
    with_buffers,
    with_fair_links,
    with_timers,
)
from test_pauses_and_messages import line

from models.records.decisions import Action, decisions, sentence
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.clock import Process
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.protocol import Context, Message, Plan, Protocol, ProtocolRun, Territory
from sim.migration.protocols import REBALANCE_PROTOCOLS
from sim.migration.rebalance import RebalanceRun, Rebalances
from sim.plain.plane import PlainPlane

MS = 1_000_000
SAVING = ("dcr", "ccr")  # protocols that save what they kill
PLANES = [PlainPlane, CompiledPlane]
METHODS = (
    {"method": "none"},
    {"guarantee": "exactly-once"},
    {"guarantee": "at-least-once"},
    {"guarantee": "at-most-once"},
)


Jobs = Callable[[Random, dict[str, Any]], dict[str, Any]]
JOBS: dict[str, Jobs] = {
    "any": lambda draw, method: random_job(draw, fault_tolerance=method),
    "storm": lambda draw, method: storm(draw, fault_tolerance=method),
    "windows": lambda draw, method: random_windows(draw, fault_tolerance=method),
    "joins": lambda draw, method: random_joins(draw, fault_tolerance=method),
    "buffers": lambda draw, method: with_buffers(draw, random_job(draw, fault_tolerance=method)),
    "fair links": lambda draw, method: with_fair_links(draw, random_job(draw, fault_tolerance=method)),
    "timers": lambda draw, method: with_timers(draw, random_job(draw, fault_tolerance=method)),
}


def job(raw: dict[str, Any], crashes: bool) -> Scenario:
    """The job, whose tasks have one thread; without crashes only a host without tasks fails, after the end."""
    for operator in raw["operators"].values():
        operator.pop("threads", None)
    if not (crashes and raw["events"]):
        raw["hosts"]["other"] = {"count": 1}
        raw["events"] = {"late": {"at": "1000 s", "kind": "host-failure", "host": "other-0"}}
        raw["placement"] = {"operators": dict.fromkeys(raw["operators"], "h")}
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def rebalanced(
    made: Scenario, plane: PlaneFactory, protocol: str, at_ms: list[int], start_ms: list[int]
) -> tuple[RunRecords, list[RebalanceRun]]:
    """The rows of a run with rebalances, and these; it goes on until all is drained."""
    control = Control(RunPlan.of(made, RunInputs(), 0), plane)
    kind, hosts = Rebalances(control.state, control.coordinator, REBALANCE_PROTOCOLS), made.hosts["h"].count
    control.start()

    def request(_: object) -> None:
        at, host_of = control.cluster.partition_task, control.cluster.task_host
        goes = {one: (host_of[task] + 1) % hosts for one, task in enumerate(at)}
        starts = {one: start_ms[one % len(start_ms)] * MS for one in goes}
        kind.request(protocol, goes, starts, command_ns=start_ms[0] * MS)

    for at in at_ms:
        control.clock.at(at * MS, 0, request)
    end = to_ns(made.duration_s) + 90_000 * MS
    control.run(end)
    return records(control, end), kind.runs


@pytest.fixture(params=PLANES, ids=[one.__name__ for one in PLANES])
def plane(request: pytest.FixtureRequest) -> PlaneFactory:
    found: PlaneFactory = request.param
    return found


def faults(seed: int, protocol: str, plane: PlaneFactory) -> tuple[list[str], int]:
    """What is wrong with one random job, and how many tuples its operators expected."""
    draw = Random(f"{seed} {protocol}")
    kind = [name for name in JOBS if name != "storm"][seed // len(METHODS) % (len(JOBS) - 1)]
    made = job(JOBS[kind](draw, dict(METHODS[seed % len(METHODS)])), crashes=False)
    at_ms = sorted(draw.choice([draw.randint(1, 2500), draw.randint(1, 25) * 100]) for _ in range(draw.choice([1, 2])))
    try:
        found, runs = rebalanced(made, plane, protocol, at_ms, draw.choice([[0], [1], [300], [0, 1, 300], [2500, 0]]))
    except ValueError as error:
        return [f"refused: {error}"], 0
    wrong = []
    if [run.completed_ns is not None for run in runs] != [True] * len(at_ms):
        wrong.append("a run does not end")
    ledger = found.tables["ledger"]
    wrong += [name for name in ("lost", "duplicated") if ledger[name].sum()]
    wrong += {f"dropped: {reason}" for reason in found.tables["dropped"]["reason"].tolist()} - {"dropped: duplicate"}
    return wrong, int(ledger["expected"].sum())


def check(seed: int, protocol: str, plane: PlaneFactory) -> int:
    """Check one random job; return how many tuples its operators expected."""
    wrong, expected = faults(seed, protocol, plane)
    assert wrong == [], seed
    return expected


@pytest.mark.parametrize("protocol", SAVING)
def test_a_dataflow_that_is_killed_comes_back_whole(protocol: str, plane: PlaneFactory) -> None:
    assert sum(check(seed, protocol, plane) for seed in range(4)) > 150


@pytest.mark.slow
@pytest.mark.parametrize("protocol", SAVING)
def test_many_dataflows_that_are_killed_come_back_whole(protocol: str, plane: PlaneFactory) -> None:
    for seed in range(4, 1000):
        check(seed, protocol, plane)


def faults_beside_crashes(seed: int, protocol: str, plane: PlaneFactory) -> list[str]:
    """What is wrong with one random job in which hosts die before, in, or after rebalances."""
    draw = Random(f"crashes {seed} {protocol}")
    method = {"guarantee": draw.choice(["exactly-once", "exactly-once", "at-least-once"])}
    made = job([*JOBS.values()][seed % len(JOBS)](draw, method), crashes=True)
    at_ms = sorted(draw.choice([draw.randint(1, 2500), draw.randint(1, 25) * 100]) for _ in range(draw.choice([1, 2])))
    found, runs = rebalanced(made, plane, protocol, at_ms, draw.choice([[0], [1], [300], [0, 1, 300], [2500, 0]]))
    wrong, ledger, tables = [], found.tables["ledger"], found.tables
    if ledger["lost"].sum() and Action.LOSE_STATE not in tables["decisions"]["action"].tolist():
        wrong.append("lost")
    if ledger["duplicated"].sum() and (method["guarantee"] == "exactly-once" or not tables["failures"]["host"].size):
        wrong.append("duplicated")
    return wrong + ["a run does not end"] * any(not run.over for run in runs)


@pytest.mark.parametrize("protocol", SAVING)
def test_crashes_beside_rebalances_lose_nothing_that_is_not_said(protocol: str, plane: PlaneFactory) -> None:
    assert {seed: wrong for seed in range(3) if (wrong := faults_beside_crashes(seed, protocol, plane))} == {}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", SAVING)
def test_many_crashes_beside_rebalances(protocol: str, plane: PlaneFactory) -> None:
    assert {seed: wrong for seed in range(3, 1000) if (wrong := faults_beside_crashes(seed, protocol, plane))} == {}


def keyed(**operator: Any) -> Scenario:
    """One source, two key groups on hosts 1 and 2, a sink beside the source; hosts 3 and 4 are free, 5 dies late."""
    q = {
        "kind": "aggregate",
        "inputs": {"src": "key"},
        "parallelism": 2,
        "key_groups": 2,
        "service": {"distribution": "exponential", "mean": "3 ms"},
        "state": {"model": "per-key", "bytes": "100 B"},
    }
    raw = {
        "duration": "4 s",
        "workload": {"src": {"rate": "50 /s", "keys": {"distribution": "uniform", "count": 20}}},
        "operators": {
            "src": {"kind": "source"},
            "q": q | operator,
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"s": {"count": 1}, "h": {"count": 4}, "other": {"count": 1}},
        "placement": {"operators": {"src": "s", "q": "h", "out": "s"}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "checkpoint", "interval": "100 ms"},
        "detector": {"heartbeat": "50 ms", "timeout": "100 ms"},
        "events": {"late": {"at": "3999 ms", "kind": "host-failure", "host": "other-0"}},
    }
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def driven(
    made: Scenario, plane: PlaneFactory, protocol: str, goes: dict[int, int], crash_ms: int | None = None
) -> tuple[RunRecords, Control]:
    """The rows of a run with a rebalance at 1 s, whose tasks start 500 ms after the kill; host 3 may die."""
    control = Control(RunPlan.of(made, RunInputs(), 0), plane)
    kind = Rebalances(control.state, control.coordinator, REBALANCE_PROTOCOLS)
    control.start()
    starts = dict.fromkeys(range(len(control.cluster.partition_task)), 500 * MS)
    control.clock.at(1000 * MS, 0, lambda _: kind.request(protocol, goes, starts))
    if crash_ms is not None:
        control.clock.process(dies(control, 3, crash_ms))
    control.run(10_000 * MS)
    return records(control, 10_000 * MS), control


def dies(control: Control, host: int, at_ms: int) -> Process:
    """The host dies for good."""
    yield control.clock.sleep(at_ms * MS)
    control.failures.fail(host, None)


def sentences(found: RunRecords) -> list[str]:
    return [sentence(made) for _, made in decisions(found.tables["decisions"])]


@pytest.mark.parametrize("protocol", SAVING)
def test_a_failure_is_over_when_the_rebalance_has_brought_all_back(protocol: str, plane: PlaneFactory) -> None:
    """Both groups go to host 3, which dies when they were killed and are not there yet: they come back elsewhere."""
    found, control = driven(keyed(), plane, protocol, {1: 3, 2: 3}, crash_ms=1700)
    assert found.tables["ledger"]["lost"].sum() == found.tables["ledger"]["duplicated"].sum() == 0
    outages, failures = found.tables["outages"], found.tables["failures"]
    assert failures["caught_up_ns"][0] >= max(outages["until_ns"][outages["operator"] == 1]) > 1700 * MS
    assert len(found.tables["recoveries"]["host"]) == 2
    assert sum("q[" in said and "resumes" in said for said in sentences(found)) == 2
    assert all(control.cluster.partition_live)


ORDER = ["begun", "paused", "prepared", "committed", "commanded", "up", "first_init", "last_init", "resumed", "over"]


@pytest.mark.parametrize("protocol", SAVING)
def test_a_run_marks_when_what_happened(protocol: str) -> None:
    """The source is told at 1001 ms; messages take 1 ms, tasks start 500 ms after the kill."""
    marks = []
    for plane in PLANES:
        _, control = driven(keyed(), plane, protocol, {1: 3, 2: 4})
        (run,) = control.coordinator.runtime.runs
        assert isinstance(run, RebalanceRun)
        assert sorted(ORDER, key=lambda mark: run.marks[mark]) == ORDER
        assert len(run.marks) == len(ORDER)
        marks.append((run.marks, run.captured))
    found, captured = marks[0]
    assert marks[1] == marks[0]
    assert (found["begun"], found["paused"]) == (1000 * MS, 1001 * MS)
    assert found["up"] == found["commanded"] + 500 * MS
    # The coordinator hears of the last COMMIT one latency later, of the last source too, and then says that it is over.
    assert (found["commanded"] - found["committed"], found["over"] - found["resumed"]) == (1 * MS, 2 * MS)
    assert captured == 0 if protocol == "dcr" else captured >= 0


def test_a_run_that_is_called_off_marks_no_kill(plane: PlaneFactory) -> None:
    """Its time-out is half the latency: nobody has been told to pause yet."""
    control = Control(RunPlan.of(keyed(), RunInputs(), 0), plane)
    kind = Rebalances(control.state, control.coordinator, REBALANCE_PROTOCOLS)
    control.start()
    control.clock.at(1000 * MS, 0, lambda _: kind.request("ccr", {1: 3}, {}, timeout_ns=MS // 2))
    control.run(1500 * MS)
    assert kind.runs[0].marks == {"begun": 1000 * MS, "over": 1000 * MS + MS // 2}


@pytest.mark.parametrize("protocol", SAVING)
def test_a_subtask_that_is_not_named_stays_where_it_is(protocol: str, plane: PlaneFactory) -> None:
    _, control = driven(keyed(), plane, protocol, {1: 4})
    assert [control.cluster.host_of(partition) for partition in range(4)] == [0, 4, 2, 0]


@pytest.mark.parametrize("protocol", SAVING)
def test_a_job_with_pools_of_threads_is_not_rebalanced(protocol: str, plane: PlaneFactory) -> None:
    found, _ = driven(keyed(threads=2), plane, protocol, {1: 3})
    assert f"the rebalance by {protocol} is called off" in sentences(found)


def test_a_job_with_replicas_is_not_rebalanced(plane: PlaneFactory) -> None:
    found, _ = driven(replicated_job(1), plane, "ccr", {})
    assert "the rebalance by ccr is called off" in sentences(found)


def test_a_rebalance_that_cannot_be_is_refused_at_once(plane: PlaneFactory) -> None:
    with pytest.raises(ValueError, match="storm is no protocol"):
        driven(keyed(), plane, "storm", {})
    with pytest.raises(ValueError, match="no periodic waves"):
        driven(keyed(), plane, "dsm", {})
    with pytest.raises(ValueError, match="keeps no ids"):
        driven(line(2), plane, "dcr", {})


@dataclass(frozen=True)
class Alignment(Plan):
    """Two tasks that send to a third."""

    @property
    def tasks(self) -> tuple[int, ...]:
        return 0, 1, 2

    @property
    def territory(self) -> Territory:
        return ()


class Aligns(Protocol[Alignment]):
    """Both send an aligned message, the second one 20 ms after the first."""

    complete = frozenset()
    context = Context
    heard: ClassVar[list[tuple[float, str, int]]] = []

    def start(self, ctx: Context) -> None:
        ctx.send(0, "go")
        ctx.timer(20 * MS, "later")

    def on_later(self, ctx: Context, message: Message) -> None:
        ctx.send(1, "go")

    def on_go(self, ctx: Context, message: Message) -> None:
        ctx.send(2, "all", note="wave 1", aligned=2)

    def on_all(self, ctx: Context, message: Message) -> None:
        self.heard.append((ctx._state.clock.now_ns() / MS, message.kind, ctx.me))


def test_an_aligned_message_is_heard_once_when_it_has_come_from_all(plane: PlaneFactory) -> None:
    """Sources 0 and 1 emit at 5, 15, .. and at 10, 20, .. ms; tuples of source 0 wait behind its message."""
    made = line(2)
    control = Control(RunPlan.of(made, RunInputs(), 0), plane)
    Aligns.heard.clear()
    control.start()
    run = ProtocolRun("aligns", Aligns, Alignment(), Rebalances(control.state, control.coordinator, {}), 0)
    control.clock.at(6 * MS, 0, lambda _: control.coordinator.runtime.start(run))
    control.run(100 * MS)
    found = records(control, 100 * MS)
    # It is told to send at 7 and 27 ms; the second comes at 28 ms, behind the tuple of 21 ms in service until 25 ms.
    assert Aligns.heard == [(28.0, "all", 2)]
    assert [arrival // MS for arrival, _, _ in rows_of(found, "q")][:6] == [6, 11, 21, 16, 26, 31]


def chain_of_two(**waves: str) -> Scenario:
    """A source, two tasks of 3 ms and a sink, each on a host of its own; nothing comes while it is rebalanced."""
    stage = {"kind": "map", "service": {"distribution": "deterministic", "value": "3 ms"}}
    raw = {
        "duration": "4 s",
        "workload": {"src": {"arrivals": "deterministic", "rate": "0.2 /s"}},
        "operators": {
            "src": {"kind": "source"},
            "a": stage | {"inputs": {"src": "shuffle"}},
            "b": stage | {"inputs": {"a": "shuffle"}},
            "out": {"kind": "sink", "inputs": {"b": "shuffle"}},
        },
        "hosts": {"h": {"count": 4}, "other": {"count": 1}},
        "placement": {"tasks": {f"{name}-0": f"h-{k}" for k, name in enumerate(["src", "a", "b", "out"])}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "none"},
        "events": {"late": {"at": "3999 ms", "kind": "host-failure", "host": "other-0"}},
        "waves": waves,
    }
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


@pytest.mark.parametrize(
    ("protocol", "longer_ms"),
    [
        # Along a and b: twice the work for PREPARE, COMMIT and INIT. The sink has no service, and takes no time.
        ("dcr", {"prepared": 10, "committed": 50, "first_init": 50 + 70, "last_init": 50 + 140}),
        # At once: once the work for PREPARE and INIT; the sink is the first that is initialised.
        ("ccr", {"prepared": 5, "committed": 45, "first_init": 45, "last_init": 45 + 70}),
    ],
)
def test_a_wave_occupies_each_task_before_it_goes_on(
    protocol: str, longer_ms: dict[str, int], plane: PlaneFactory
) -> None:
    marks = []
    for waves in ({}, {"prepare": "5 ms", "commit": "20 ms", "init": "70 ms"}):
        _, control = driven(chain_of_two(**waves), plane, protocol, {})
        (run,) = control.coordinator.runtime.runs
        assert isinstance(run, RebalanceRun)
        marks.append(run.marks)
    none, some = marks
    assert none["paused"] == some["paused"]
    assert {mark: (some[mark] - none[mark]) / MS for mark in longer_ms} == longer_ms
