"""Key groups that move in steps give what one worker gives that applies each tuple at its birth, in order of time.

Oracle: that worker, in some lines without any engine. A task applies what comes over several channels as it comes, so
that the order within a key may be another one. What is left of the order of time is tested, too. No tolerance.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from lab.broken_reconfigurations import MUTANTS
from test_megaphone import Watched, faults, job, watched

from sim.draws import source_id
from sim.plain.partition import Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

Applied = tuple[int, int, int]  # birth [ns], id and key of a tuple


def ending_job(seed: int, **src: Any) -> dict[str, Any]:
    """A random job of `test_megaphone` whose tuples are all through before its end; some outputs are post-dated."""
    draw, raw = Random(f"one worker {seed}"), job(seed)
    raw["duration"] = "8 s"
    (workload,) = raw["workload"].values()
    workload["rate"] = {"steps": [{"at": "0 s", "rate": "400 /s"}, {"at": "0.6 s", "rate": "0 /s"}]}
    workload["keys"] = {"distribution": "uniform", "count": 5}
    raw["operators"]["src"] |= src
    raw["operators"]["op"]["selectivity"] = draw.choice([1.0, 0.5, 1.5])
    if draw.random() < 0.5:
        raw["operators"]["op"]["postpone"] = {"distribution": "exponential", "mean": "100 ms"}
    return raw


def one_worker(plane: PlainPlane) -> dict[str, list[Applied]]:
    """What one worker applies at each operator, in order of time."""
    operators = plane.plan.operators
    waits: list[tuple[int, int, int, int, int]] = []  # birth, id, key, operator, and that before it
    for source in plane.sources:
        emitter = source.partition.operator
        for number, (born_ns, key) in enumerate(zip(source.arrivals_ns, source.keys, strict=True)):
            made = source_id(source.code, number)
            waits += [(born_ns, made, key, edge.down.index, emitter.index) for edge in emitter.edges]
    heapq.heapify(waits)
    found = defaultdict[str, list[Applied]](list)
    while waits:
        born_ns, id, key, index, before = heapq.heappop(waits)
        operator = operators[index]
        found[operator.name].append((born_ns, id, key))
        for child, its in operator.outputs(id, key, before) if operator.edges else ():
            later_ns = 0 if operator.postpone_ns is None else operator.postpone_ns(child)
            for edge in operator.edges:
                heapq.heappush(waits, (born_ns + later_ns, child, its, edge.down.index, index))
    return found


def delivered(raw: dict[str, Any], patch: pytest.MonkeyPatch) -> tuple[Watched, list[Applied]]:
    """The run of a job, and what its sink got."""
    got: list[Applied] = []
    right = Task._complete

    def complete(self: Task, visit: Visit, now: int) -> None:
        if self.operator.is_sink:
            got.append((visit.row.created_ns, visit.row.id, visit.row.key))
        right(self, visit, now)

    with patch.context() as inner:
        inner.setattr(Task, "_complete", complete)
        return watched(raw, inner), got


def by_key(applied: list[Applied]) -> dict[int, list[Applied]]:
    found = defaultdict[int, list[Applied]](list)
    for one in applied:
        found[one[2]].append(one)
    return found


def disagreements(raw: dict[str, Any], patch: pytest.MonkeyPatch) -> tuple[list[str], int]:
    """How a run differs from one worker, or breaks a rule; and how many keys have their tuples in another order."""
    run, got = delivered(raw, patch)
    plane = run.control.plane
    assert isinstance(plane, PlainPlane)
    right, found, turned = one_worker(plane), [], 0
    applied = [(one.row.created_ns, one.row.id, one.row.key) for one in run.applied]
    if Counter(applied) != Counter(right["op"]):
        found.append("something else is applied")
    if Counter(got) != Counter(right["out"]):
        found.append("the sink gets something else")
    states = {id for one in plane.instances() if one.operator.name == "op" for id in one.applied}
    if states != {id for _, id, _ in right["op"]}:
        found.append("something else is in the states")
    own, other = by_key(applied), by_key(right["op"])
    for key, tuples in own.items():
        turned += [id for _, id, _ in tuples] != [id for _, id, _ in other[key]]
    return found + faults(run), turned


def channels(raw: dict[str, Any]) -> int:
    """How many tasks send to the operator."""
    operators: dict[str, Any] = raw["operators"]
    return int(operators["map" if "map" in operators else "src"]["parallelism"])


def test_states_and_outputs_are_those_of_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    with_one, turned = 0, 0
    for seed in range(14):
        raw = ending_job(seed)
        found, others = disagreements(raw, monkeypatch)
        assert found == [], seed
        if channels(raw) == 1 and "map" not in raw["operators"]:
            with_one += 1
            assert others == 0, seed  # also the order within each key
        turned += others
    assert with_one > 2
    assert turned > 20  # keys: what comes over several channels is applied as it comes


def moved_in_order(run: Watched) -> Iterator[bool]:
    """Whether all that is older than the time of a step comes before all else of a key group that moves in it."""
    for plan, times in run.plans:
        for carries, one in zip(plan.steps, times, strict=True):
            for partition in (partition for carry in carries for partition in carry.partitions):
                born = [
                    applied.row.created_ns >= one.from_ns for applied in run.applied if applied.partition == partition
                ]
                if True in born and False in born:
                    yield born == sorted(born)


def test_what_is_older_than_a_step_comes_first_by_whichever_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked = 0
    for seed in range(10):
        raw = ending_job(seed, parallelism=3)
        kept = [*moved_in_order(watched(raw, monkeypatch))]
        assert all(kept), seed
        checked += len(kept)
    assert checked > 12


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("what has waited for a state is left behind", "something else is applied"),
        ("post-dated outputs are left behind", "the sink gets something else"),
        ("who sends goes by the newest configuration", "something else is applied"),
        ("what has waited for a state is served in another order", "another order"),
    ],
)
def test_what_is_broken_is_noticed(title: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[title](monkeypatch)
    jobs = (ending_job(seed) for seed in range(24))
    assert any(words in one for raw in jobs for one in disagreements(raw, monkeypatch)[0])
