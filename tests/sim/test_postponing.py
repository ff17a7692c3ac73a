"""Post-dated outputs: equal planes, what is exact by hand, and planes that are broken on purpose.

Oracles: `sim.plain`, by equality of all columns and of all that the listener is told; instants and bytes by hand. No
tolerance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from lab.broken_reconfigurations import MUTANTS
from scripts import FRONTIERS, MOVES_ALONE, run_script, unchecked
from test_chains import job as chained_job
from test_megaphone import faults, rows_of, watched
from test_megaphone import job as reconfigured_job
from test_moving import job, job_with_counts
from test_planes import differences, noticed

from models.records.tables import EVENT_LOOP, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.key_groups import groups_of_keys
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records, simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.channels import Channels
from sim.plain.partition import Partition
from sim.plain.plane import PlainPlane
from sim.plane_values import Parcel

MS = 1_000_000
LAWS: list[dict[str, Any]] = [
    {"distribution": "deterministic", "value": "10 ms"},
    {"distribution": "deterministic", "value": "100 ms"},
    {"distribution": "exponential", "mean": "200 ms"},
    {"distribution": "uniform", "low": "0.1 ms", "high": "900 ms"},
    {"distribution": "lognormal", "mean": "300 ms", "cv": 2},
    {"distribution": "gamma", "mean": "100 ms", "shape": 0.5},
]


def postponing_job(seed: int) -> dict[str, Any]:
    """A random job without crashes and checkpoints, some of whose operators post-date their outputs."""
    raw, draw = job(seed), Random(f"postponing {seed}")
    raw["fault_tolerance"] = {"method": "none"}
    inner = [one for one in raw["operators"].values() if one["kind"] not in ("source", "sink")]
    for one in draw.sample(inner, draw.randint(1, len(inner)) if inner else 0):
        one["postpone"] = draw.choice(LAWS[:2] if seed % 2 and draw.random() < 0.7 else LAWS)
        if draw.random() < 0.3:
            one["selectivity"] = draw.choice([0.5] if one["kind"] == "filter" else [0.5, 2.5])
    return raw


def scripted(raw: dict[str, Any], seed: int) -> tuple[RunRecords, list[Any], list[str]]:
    """Return the rows of the plain plane, what it told, and where the event loop differs, by the script of a seed."""
    verbs = (*MOVES_ALONE, *FRONTIERS, *([], ["pause"], ["pause", "unpause", "hold", "unhold"])[seed % 3])
    (plain, told), (other, told_too) = (run_script(raw, one, seed, 60, verbs) for one in (PlainPlane, CompiledPlane))
    return plain, told, differences(plain, other) + ["told"] * (told != told_too)


def on_both(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """Differences between the planes for the job and the script of that seed."""
    plain, told, found = scripted(postponing_job(seed), seed)
    if seen is not None:
        seen.update("a parcel" if isinstance(what, Parcel) else str(what) for _, what, *_ in told)
        seen["lost"] += int(plain.tables["ledger"]["lost"].sum()) + int(plain.tables["ledger"]["duplicated"].sum())
        seen["applied"] += int(plain.tables["ledger"]["expected"].sum())
    return found


def test_both_planes_give_equal_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, right = Counter[str](), Channels.emit_overdue

    def emit_overdue(plane: Channels, partition: Partition) -> None:
        right(plane, partition)
        seen["on its way"] += bool(partition.overdue) and not partition.live
        seen["stopped"] += bool(partition.overdue) and partition.live

    monkeypatch.setattr(Channels, "emit_overdue", emit_overdue)
    for seed in range(40):
        assert on_both(seed, seen) == [], seed
    assert seen["put"] > 40
    assert seen["passed"] > 100
    assert seen["on its way"] > 20
    assert seen["stopped"] > 20
    assert seen["applied"] > 2000
    assert seen["lost"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    for seed in range(part * 500, part * 500 + 500):
        assert on_both(seed) == [], seed


# -- by hand: one key, whose group moves to the task on the host of the sink

(GROUP,) = groups_of_keys(1, 6, "crc32").tolist()
OLD, NEW = 2 + GROUP % 2, 3 - GROUP % 2  # tasks: two sources, two of the operator, the sink
PARTITION = 2 + GROUP
LATENCY, SERVICE = 5 * MS, 100_000
POSTPONED = 40 * MS


def job_of_one_key(value: str = "40 ms") -> dict[str, Any]:
    """A job of one key and one source task, 200 tuples per second."""
    raw = job_with_counts()
    raw["workload"]["src"] |= {"rate": "200 /s", "keys": {"distribution": "uniform", "count": 1}}
    law = {"distribution": "deterministic", "value": value}
    raw["operators"]["op"] |= {"postpone": law, "output": {"tuple": "70 B"}}
    raw["placement"] = {"tasks": {"out-0": f"h-{NEW}"}}
    return raw


class Told(Control):
    """A run that notes when frontiers have passed."""

    def __init__(self, plan: RunPlan, plane: PlaneFactory) -> None:
        super().__init__(plan, plane)
        self.passed_ns: dict[int, int] = {}

    def passed(self, token: int) -> None:
        self.passed_ns[token] = self.clock.now_ns()


def begun(plane: PlaneFactory, raw: dict[str, Any]) -> Told:
    made = Told(RunPlan.of(unchecked(raw), RunInputs(), 0), plane)
    made.start()
    return made


def born_and_arrived(found: RunRecords) -> tuple[np.ndarray, np.ndarray]:
    """When outputs were born, and when they came to the sink, which serves nothing."""
    deliveries = found.tables["deliveries"]
    return deliveries["created_ns"], deliveries["delivered_ns"]


PLANES = pytest.mark.parametrize("plane", [PlainPlane, CompiledPlane])


@PLANES
def test_an_output_leaves_at_the_time_of_its_birth(plane: PlaneFactory) -> None:
    found = simulate(unchecked(job_of_one_key()), plane=plane)
    born, arrived = born_and_arrived(found)
    sent = found.tables["visits"]["arrival_ns"][found.tables["visits"]["operator"] == 0]
    assert born.size > 150
    assert np.isin(born - POSTPONED, sent).all()
    assert (arrived - born == LATENCY).all()


@PLANES
def test_an_output_whose_time_is_over_leaves_at_once(plane: PlaneFactory) -> None:
    born, arrived = born_and_arrived(simulate(unchecked(job_of_one_key("1 ns")), plane=plane))
    assert born.size > 150
    assert ((arrived - born + 1) >= 2 * LATENCY + SERVICE).all()
    assert ((arrived - born + 1)[:2] == 2 * LATENCY + SERVICE).any()


def moved(control: Told, take_ns: int, put_ns: int) -> tuple[Parcel, np.ndarray]:
    """The parcel of the key group, taken and put at these instants, and the birth of what was in it."""
    owners = [2 + k % 2 for k in range(6)]
    owners[GROUP] = NEW
    control.plane.place(1, [0, 1], owners)
    control.run(take_ns)
    visits = control.plane.tables()["visits"]
    applied = visits["arrival_ns"][(visits["task"] == OLD) & (visits["end_ns"] >= 0)]
    born = applied - LATENCY + POSTPONED
    parcel = control.plane.take([PARTITION])
    control.cluster.partition_task[PARTITION] = NEW
    control.run(put_ns)
    control.plane.put(parcel.number, NEW)
    return parcel, born[born > take_ns]


@PLANES
def test_post_dated_outputs_travel_with_their_key_group(plane: PlaneFactory) -> None:
    take, put, end = 103 * MS, 113 * MS, 1_000 * MS
    control = begun(plane, job_of_one_key())
    control.run(80 * MS)
    parcel, waiting = moved(control, take, put)
    assert 2 < waiting.size < 10
    assert parcel.bytes == 1000 + 70 * waiting.size
    assert (waiting < put).any()
    assert (waiting > put).any()
    control.run(end)
    found = records(control, end)
    born, arrived = born_and_arrived(found)
    at_old, on_its_way, at_new = born <= take, (born > take) & (born <= put), born > put
    assert (arrived[at_old] - born[at_old] == LATENCY).all()
    assert (arrived[on_its_way] == put).all()  # the sink is on the host of the new task
    assert (np.diff(born[on_its_way]) >= 0).all()
    later = at_new & np.isin(born, waiting)
    assert later.any()
    assert (arrived[later] == born[later]).all()
    assert Counter(born[on_its_way].tolist()) == Counter(waiting[waiting <= put].tolist())
    assert found.tables["ledger"]["lost"].sum() == found.tables["ledger"]["duplicated"].sum() == 0


@PLANES
def test_a_frontier_does_not_wait_for_outputs_of_later_times(plane: PlaneFactory) -> None:
    control = begun(plane, job_of_one_key("300 ms"))
    control.run(100_500_000)
    for operator in (1, 2):
        control.plane.passed(operator, 100_500_000, operator)
    control.run(400 * MS)
    for instant in control.passed_ns[1], control.passed_ns[2]:
        assert instant <= 100_500_000 + LATENCY + 2 * SERVICE


def asked_on_its_way(plane: PlaneFactory) -> tuple[dict[int, int], dict[int, int]]:
    """When frontiers passed up to 170 ms, and in the end: the key group is on its way from 103 ms to 170 ms.

    The last tuple was applied before. Outputs of 105 ms and later are due on the way; frontier 1 is that of 108 ms,
    frontier 2 that of 104 ms, both at the sink.
    """
    control = begun(plane, job_of_one_key() | {"duration": "80 ms"})
    control.run(100 * MS)
    owners = [2 + k % 2 for k in range(6)]
    owners[GROUP] = NEW
    control.plane.place(1, [0, 1], owners)
    control.run(103 * MS)
    parcel = control.plane.take([PARTITION])
    control.cluster.partition_task[PARTITION] = NEW
    control.run(123 * MS)
    control.plane.passed(2, 108 * MS, 1)
    control.plane.passed(2, 104 * MS, 2)
    control.run(170 * MS)
    before = dict(control.passed_ns)
    control.plane.put(parcel.number, NEW)
    control.run(200 * MS)
    return before, control.passed_ns


@PLANES
def test_a_frontier_waits_for_outputs_whose_time_has_come_on_their_way(plane: PlaneFactory) -> None:
    before, in_the_end = asked_on_its_way(plane)
    assert before == {2: 123 * MS}
    assert in_the_end == {2: 123 * MS, 1: 170 * MS}


def test_chains_postpone_too() -> None:
    """The thread of a chain takes an output that is due as it takes the outputs of a timer."""
    late = 0
    for seed in range(12):
        draw = Random(f"chains {seed}")
        raw = chained_job()
        raw["workload"]["in"]["arrivals"] = draw.choice(["poisson", "deterministic"])
        for name in draw.sample(["one", "two", "three"], draw.randint(1, 3)):
            raw["operators"][name]["postpone"] = draw.choice(LAWS)
        plain, compiled = (simulate(unchecked(raw), plane=plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        assert plain.tables["ledger"]["lost"].sum() == plain.tables["ledger"]["duplicated"].sum() == 0
        late += int((plain.tables["visits"]["operator"] == 4).sum())
    assert late > 500


def test_the_scan_does_not_postpone() -> None:
    kernel = kernel_for(RunPlan.of(unchecked(job_of_one_key()), RunInputs(), 0))
    assert kernel.name == EVENT_LOOP
    assert kernel.why == "op postpones its outputs"


# -- moved by `megaphone`


def reconfigured(seed: int) -> dict[str, Any]:
    raw = reconfigured_job(seed)
    raw["operators"]["op"]["postpone"] = LAWS[2 + seed % 4]
    return raw


def test_steps_of_a_reconfiguration_carry_post_dated_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    for seed in range(16):
        assert faults(watched(reconfigured(seed), monkeypatch)) == [], seed
        plain, compiled = (rows_of(reconfigured(seed), plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        assert plain.tables["ledger"]["lost"].sum() == plain.tables["ledger"]["duplicated"].sum() == 0
        assert (plain.tables["reconfigurations"]["installed_ns"] > 0).all()
        steps += plain.tables["reconfigurations"]["step"].size
    assert steps > 40


def test_tasks_that_pause_for_a_move_carry_them_too() -> None:
    for seed in range(8):
        raw = reconfigured(seed)
        keys = ("kind", "at", "operator", "owners")
        raw["events"] = {
            name: {key: event[key] for key in keys if key in event} | {"protocol": "pause-and-resume"}
            for name, event in raw["events"].items()
        }
        plain, compiled = (rows_of(raw, plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        assert plain.tables["ledger"]["lost"].sum() == plain.tables["ledger"]["duplicated"].sum() == 0
        assert (plain.tables["reconfigurations"]["installed_ns"] > 0).all()


# -- planes that are broken on purpose


def not_counted(patch: pytest.MonkeyPatch) -> None:
    """The bytes of a state are those of what was applied."""
    patch.setattr(Partition, "state_bytes", lambda one: one._size(one.key_since, len(one.applied), 0))


def older_than_a_frontier(patch: pytest.MonkeyPatch) -> None:
    """A frontier passes what is due on its way."""
    right = Channels.is_passed

    def is_passed(plane: Channels, operators: Any, time_ns: int) -> bool:
        kept = [(partition, partition.overdue) for partition in plane._numbered]
        for partition, _ in kept:
            partition.overdue = []
        found = right(plane, operators, time_ns)
        for partition, overdue in kept:
            partition.overdue = overdue
        return found

    patch.setattr(Channels, "is_passed", is_passed)


LEFT_BEHIND = "post-dated outputs are left behind"
TWICE = "a post-dated output leaves from the old task and from the new one"
BROKEN: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    title: MUTANTS[title]
    for title in (
        LEFT_BEHIND,
        TWICE,
        "a post-dated output leaves while its key group is on its way",
        "a post-dated output leaves when it is made",
        "a task that holds all sends what is due",
    )
} | {"what is post-dated has no size": not_counted}


def test_a_frontier_that_passes_what_is_due_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    older_than_a_frontier(monkeypatch)
    before, _ = asked_on_its_way(PlainPlane)
    assert before == {1: 123 * MS, 2: 123 * MS}


@pytest.mark.parametrize("title", BROKEN)
def test_a_broken_plane_is_caught(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BROKEN[title](monkeypatch)
    assert noticed(on_both, range(60))


@pytest.mark.parametrize(("title", "column"), [(LEFT_BEHIND, "lost"), (TWICE, "duplicated")], ids=["lost", "twice"])
def test_the_ledger_tells_of_outputs_that_are_lost_or_come_twice(
    title: str, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    BROKEN[title](monkeypatch)
    control = begun(PlainPlane, job_of_one_key())
    control.run(80 * MS)
    moved(control, 103 * MS, 127 * MS)
    control.run(1_000 * MS)
    assert records(control, 1_000 * MS).tables["ledger"][column].sum() > 0
