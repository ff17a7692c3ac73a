"""Steps of `megaphone` to the nanosecond: what each part of one takes, when the next begins, and what waits meanwhile.

Oracle: times by hand, for tasks with nothing else to do; queues counted from the rows of single tuples. No tolerance.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from bin_jobs import StepTimes, bin_job
from test_megaphone import MS, faults, made, rows_of, watched
from test_planes import differences

from models.planning.reconfiguration import steps_of
from models.records.tables import NEVER
from models.scenario.inputs import Configuration, RunInputs
from models.scenario.reading import scenario_from
from scenarios.planning.reconfiguration import optimised_steps
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.parcels import Parcels
from sim.plain.partition import Contents
from sim.plain.plane import PlainPlane


def idle_job(event: dict[str, Any], tasks: int = 4, groups: int = 32) -> dict[str, Any]:
    """A job in which nothing happens but the moves: 0.1 s apart from any tuple, each task on a host of its own."""
    return bin_job(
        {"move": {"at": "1 s", "scope": "operator"} | event},
        src={"rate": "0.1 /s", "keys": {"distribution": "uniform", "count": 4}},
        op={
            "parallelism": tasks,
            "key_groups": groups,
            "service": {"distribution": "deterministic", "value": "1 us"},
            "state": {"model": "fixed", "bytes": "100 kB"},
            "serialise": "50 MB/s",
            "deserialise": "20 MB/s",
        },
        hosts={"count": tasks, "network": "10 MB/s"},
        network={"latency": "1 ms"},
        duration="20 s",
    )


@pytest.mark.parametrize(
    ("event", "steps", "groups"),
    [
        ({"strategy": "all-at-once"}, 1, 4),  # of each pair in a step
        ({"strategy": "fluid"}, 8, 1),
        ({"strategy": "batched", "size": 4}, 2, 2),
        ({"strategy": "optimised"}, 4, 1),
        ({"strategy": "optimised", "gap": "3 ms"}, 4, 1),
    ],
)
def test_a_step_takes_as_long_as_its_states_are_written_sent_and_read(
    event: dict[str, Any], steps: int, groups: int
) -> None:
    """s = b (1/sigma + 1/beta + 1/iota), and a latency until the tasks hear that it may begin, and one of the link.

    Then one until the coordinator hears of its end, and one, and 1 ns, until the next configuration holds.
    """
    table = rows_of(idle_job(event), PlainPlane).tables["reconfigurations"]
    moved, phi = groups * 100_000, MS
    s = moved * (1_000_000_000 // 50_000_000 + 1_000_000_000 // 10_000_000 + 1_000_000_000 // 20_000_000)
    assert table["from_ns"][0] == 1_000_000_000 + phi + 1
    assert (table["passed_ns"] == table["from_ns"]).all()
    assert (table["installed_ns"] - table["from_ns"] == s + 2 * phi).all()
    gap = 3 * MS if "gap" in event else 0
    assert (table["from_ns"][1:] - table["installed_ns"][:-1] == 2 * phi + 1 + gap).all()
    assert len(table["step"]) == steps
    assert table["groups"].sum() == 8
    assert table["bytes"].sum() == 800_000


@pytest.mark.parametrize("hosts", [16, 4])
@pytest.mark.parametrize(
    "event",
    [
        {"strategy": "all-at-once"},
        {"strategy": "all-at-once", "overlap": "pipelined"},
        {"strategy": "fluid"},
        {"strategy": "batched", "size": 8},
        {"strategy": "batched", "size": 16},
        {"strategy": "optimised"},
    ],
    ids=lambda event: "-".join(map(str, event.values())),
)
def test_each_step_of_any_moves_takes_what_its_tasks_and_links_take(event: dict[str, Any], hosts: int) -> None:
    draw, tasks, groups = Random(hosts), 16, 128
    owners = [draw.randrange(tasks) for _ in range(groups)]
    raw = idle_job(event | {"owners": owners}, tasks, groups)
    raw["hosts"]["h"]["count"], raw["hosts"]["h"]["cores"] = hosts, tasks // hosts
    scenario = scenario_from(raw)
    steps = steps_of(scenario, "move", RunInputs(steps=optimised_steps(scenario, {})))
    table = rows_of(raw, PlainPlane).tables["reconfigurations"]
    speeds = StepTimes(write_ns=2 * MS, send_ns=10 * MS, read_ns=5 * MS, latency_ns=MS)
    expected = [speeds.step_ns(step.moves, hosts, together="overlap" not in event) for step in steps]
    assert (table["installed_ns"] - table["from_ns"]).tolist() == expected
    if event["strategy"] == "optimised":
        moves = [one for step in steps for one in step.moves]
        assert len(steps) == max(max(Counter(side).values()) for side in zip(*(one[1:] for one in moves), strict=True))


def test_a_step_is_over_when_all_its_states_are_there_also_where_the_run_ends_in_the_gap_behind() -> None:
    raw = idle_job({"strategy": "batched", "size": 4, "gap": "1 min"})
    table = rows_of(raw, PlainPlane).tables["reconfigurations"]
    one = rows_of(idle_job({"strategy": "batched", "size": 4}), PlainPlane).tables["reconfigurations"]
    assert table["installed_ns"].tolist() == [one["installed_ns"][0], NEVER]
    # One by one the first states are there long before the last.
    raw = idle_job({"strategy": "all-at-once", "overlap": "pipelined"})
    ends = rows_of(raw, PlainPlane).tables["reconfigurations"]["installed_ns"][0]
    for duration, found in ((ends - MS, NEVER), (ends + 1, ends)):
        cut = rows_of(raw | {"duration": f"{duration} ns"}, PlainPlane).tables["reconfigurations"]
        assert cut["installed_ns"].tolist() == [found]


def test_with_overlap_key_groups_travel_while_others_are_written_and_read() -> None:
    """Four of each pair: the link is the slowest part, and only the first is written, the last read, beside it."""
    table = rows_of(idle_job({"strategy": "all-at-once", "overlap": "pipelined"}), PlainPlane).tables[
        "reconfigurations"
    ]
    write, send, read = 2 * MS, 10 * MS, 5 * MS
    assert (table["installed_ns"] - table["from_ns"]).tolist() == [write + 4 * send + read + 2 * MS]


def test_with_lag_the_time_of_a_step_lies_where_the_one_before_begins() -> None:
    """Two latencies after its states have left; the step itself begins when the one before is over."""
    table = rows_of(idle_job({"strategy": "optimised", "next": "lag"}), PlainPlane).tables["reconfigurations"]
    assert (table["from_ns"][1:] == table["passed_ns"][:-1] + 2 * MS + 1).all()
    assert (table["passed_ns"][1:] == table["installed_ns"][:-1] + MS).all()


def test_steps_of_a_file_begin_at_their_times_or_when_the_one_before_is_over() -> None:
    """A step of one key group takes 17 ms and two latencies; the next time is two more, and 1 ns, later at least."""
    event = {"file": "moves.txt"}
    lines = ((1_500, 1, 0), (1_500, 1, 2), (3_000, 5, 0))
    configurations = tuple(Configuration(at * MS, ((k, task),)) for at, k, task in lines)
    table = rows_of(idle_job(event), PlainPlane, configurations).tables["reconfigurations"]
    assert table["from_ns"].tolist() == [1_500 * MS, 1_521 * MS + 1, 3_000 * MS]
    assert {*table["strategy"].tolist()} == {"file"}


def test_with_lag_a_step_waits_for_the_end_of_one_that_moves_the_same_key_group() -> None:
    """A step takes 17 ms and two latencies; what it moves goes on from there two latencies and 1 ns later."""
    lines = ((1, 0), (1, 2), (5, 0), (1, 3))
    configurations = tuple(Configuration(1_500 * MS, ((k, task),)) for k, task in lines)
    event = {"file": "moves.txt", "next": "lag"}
    table = rows_of(idle_job(event), PlainPlane, configurations).tables["reconfigurations"]
    begun, passed, over = (table[f"{name}_ns"] for name in ("from", "passed", "installed"))
    assert begun[1] == passed[1] == over[0] + 2 * MS + 1
    # The others are announced while the one before is under way, and begin when it is over.
    assert (begun[2:] == passed[1:-1] + 2 * MS + 1).all()
    assert (passed[2:] == over[1:-1] + MS).all()


def busy_job(gap: str) -> dict[str, Any]:
    """A job with queues: 2,000 tuples a second in services of 1 ms at four tasks; steps of 21 ms."""
    raw = idle_job({"strategy": "fluid", "gap": gap}) | {"duration": "3 s"}
    raw["workload"]["src"] |= {"rate": "2000 /s", "keys": {"distribution": "uniform", "count": 1000}}
    raw["operators"]["op"]["service"]["value"] = "1 ms"
    return raw


def full_queues(raw: dict[str, Any]) -> list[str]:
    """Tasks of which the queue was not empty between a step and the next, in words."""
    tables = rows_of(raw, PlainPlane).tables
    steps, visits = tables["reconfigurations"], tables["visits"]
    found = []
    for task in np.unique(visits["task"][visits["operator"] == 1]).tolist():
        own = (visits["operator"] == 1) & (visits["task"] == task)
        came, ended = visits["arrival_ns"][own], visits["end_ns"][own]
        ends = np.sort(ended)
        # At an end of a service the queue is empty if all that has come before has ended.
        empty = ends[np.searchsorted(np.sort(came), ends) == np.arange(1, ends.size + 1)]
        for k, (begin, end) in enumerate(zip(steps["installed_ns"][:-1], steps["from_ns"][1:], strict=True)):
            if not ((empty > begin) & (empty < end)).any():
                found.append(f"the queue of task {task} is full before step {k + 1}")
    return found


def test_with_a_drain_each_queue_is_empty_before_the_next_step() -> None:
    assert full_queues(busy_job("drain")) == []
    assert len(full_queues(busy_job("0 s"))) > 8


def test_a_drain_that_looks_once_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited for the step has been served then, and more has come meanwhile."""
    monkeypatch.setattr(PlainPlane, "has_waited", lambda *_: False)
    assert any("is full" in one for one in full_queues(busy_job("drain")))


def test_a_time_that_has_passed_says_nothing_of_a_later_one() -> None:
    """Asked in one instant: a task that gives its key groups is looked at with the time of its own step."""
    control = made(busy_job("0 s") | {"events": {}}, CompiledPlane)
    control.start()
    control.run(500 * MS)
    plane, operator = control.plane, 1
    assert isinstance(plane, CompiledPlane)
    assert plane._is_passed(operator, 1)
    assert not plane._is_passed(operator, 500 * MS)  # queues are not empty
    assert plane._is_passed(operator, 1)


# -- what waits


def keyed_job(scope: str) -> dict[str, Any]:
    """A job with many tuples of each key in the time that a task needs to hear of a step."""
    raw = idle_job({"strategy": "optimised", "scope": scope, "at": "0.1 s"}) | {
        "duration": "1.2 s",
        "network": {"latency": "5 ms"},
    }
    raw["workload"]["src"] |= {"rate": "5000 /s", "keys": {"distribution": "uniform", "count": 32}}
    return raw


@pytest.mark.parametrize("scope", ["operator", "bin"])
def test_what_waits_at_the_new_task_stays_in_order(monkeypatch: pytest.MonkeyPatch, scope: str) -> None:
    """Some of it has come before the task heard that it has to hold what it has, and some of it later."""
    assert faults(watched(keyed_job(scope), monkeypatch)) == []
    plain, compiled = (rows_of(keyed_job(scope), plane) for plane in (PlainPlane, CompiledPlane))
    assert differences(plain, compiled) == []


def test_an_older_part_that_goes_behind_the_younger_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuples that wait for a state go behind what has come later, while the task holds all it has."""
    right = Parcels._put_taken

    def put(self: Parcels, parcel: int, contents: Contents, task: int) -> None:
        held = [visit for one in contents.taken for visit in one.held]
        for one in contents.taken:
            one.held = []
        right(self, parcel, contents, task)
        self.tasks[task].put_in_front(held)

    monkeypatch.setattr(Parcels, "_put_taken", put)
    assert any("another order" in one for one in faults(watched(keyed_job("operator"), monkeypatch)))
