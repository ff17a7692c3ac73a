"""Key groups that move by themselves, hosts that come and go, operators that are rescaled.

Oracles: the ledger (nothing lost, nothing twice), equality of the two data planes, and rows worked out by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decided import said as decided
from elastic_jobs import elastic_job
from moving_jobs import MS, Crash, crashes, run
from seeds import parts, sample
from small_jobs import scenario, simulate
from test_planes import differences
from uneven_clock import UnevenClock

from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from scenarios.files.scenario import read_scenario
from scenarios.runs.inputs import inputs_of
from sim.control.assembly import PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import build
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.plane_values import Statistic

S = 1000 * MS
MORE_NS = 4 * S  # a job that a crash overloads ends its moves late


def rows(made: RunRecords, name: str) -> list[tuple[Any, ...]]:
    return list(zip(*(made.tables[name][column].tolist() for column in made.tables[name]), strict=True))


def decisions(made: RunRecords, *words: str) -> list[tuple[int, str]]:
    """(when, what) of decisions that are about one of these words."""
    return [(at, what) for at, what, _ in decided(made) if any(word in what for word in words)]


def counted(rate: str = "200 /s", **changes: Any) -> Scenario:
    """A source on h-0, ten key groups of 2 ms each on h-1, a sink on h-0; `changes` replace top-level keys."""
    raw: dict[str, Any] = {
        "format": 1,
        "duration": "10 s",
        "workload": {
            "in": {"rate": rate, "arrivals": "deterministic", "keys": {"distribution": "uniform", "count": 100}}
        },
        "operators": {
            "in": {"kind": "source"},
            "sum": {
                "kind": "aggregate",
                "inputs": {"in": "key"},
                "key_groups": 10,
                "service": {"distribution": "deterministic", "value": "2 ms"},
                "state": {"model": "per-key", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
        },
        "hosts": {"h": {"count": 3, "cpu": "shared"}},
        "placement": {"tasks": {"in-0": "h-0", "sum-0": "h-1", "out-0": "h-0"}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "checkpoint", "interval": "1 s"},
        "elasticity": {"period": "2 s"},
        "recording": {"statistics": True},
    }
    return scenario(raw | changes)


# -- statistics


def test_statistics_are_what_each_key_group_did_in_each_period() -> None:
    made = simulate(counted())
    own = [row for row in rows(made, "statistics") if row[1] == 1]
    assert [row[0] for row in own] == [at * S for at in (2, 4, 6, 8) for _ in range(10)]
    assert {(row[2], row[3]) for row in own} == {(group, 1) for group in range(10)}
    visits, arrivals = made.tables["visits"], np.zeros(4, np.int64)
    for begin in range(4):
        came = visits["arrival_ns"][visits["operator"] == 1]
        arrivals[begin] = ((came >= 2 * S * begin) & (came < 2 * S * (begin + 1))).sum()
    per_period = np.array([row[4] for row in own]).reshape(4, 10).sum(axis=1)
    assert per_period.tolist() == arrivals.tolist()
    # 200 tuples a second of 2 ms; the last one of a period may still be in service.
    busy_ns = np.array([row[5] for row in own]).reshape(4, 10).sum(axis=1)
    assert np.all(np.abs(busy_ns - 2 * S * 0.4) <= 4 * MS)
    assert all(received == 100 * tuples for *_, tuples, _, received, _, _ in own)
    sent = np.array([row[7] for row in own]).reshape(4, 10).sum(axis=1)
    assert sent.tolist() == [100 * ns // (2 * MS) for ns in busy_ns.tolist()]
    assert np.array([row[8] for row in own]).reshape(4, 10).sum(axis=1).tolist()[1:] == [100 * 1000] * 3


def test_writing_a_snapshot_is_work_of_its_key_group() -> None:
    raw = counted().model_dump(mode="json", by_alias=True)
    raw["operators"]["sum"]["serialise"] = "1 MB/s"
    slow = simulate(scenario(raw))
    checkpoints = [row for row in rows(slow, "checkpoints") if row[0] == 1 and row[5] != NEVER and row[5] < 8 * S]
    writing_ns = sum(row[6] * 1000 for row in checkpoints)
    cpu = sum(row[5] for row in rows(slow, "statistics") if row[1] == 1)
    tuples = slow.tables["visits"]
    ended = int(((tuples["operator"] == 1) & (tuples["end_ns"] != NEVER) & (tuples["end_ns"] < 8 * S)).sum())
    assert cpu == ended * 2 * MS + writing_ns
    assert writing_ns > 0


def test_without_asking_nothing_is_counted() -> None:
    made = simulate(counted(recording={}))
    assert rows(made, "statistics") == rows(made, "adaptations") == []
    assert rows(made, "hosts_in_use") == [(host, 0, 10 * S) for host in range(3)]


@pytest.mark.parametrize("plane", [PlainPlane, CompiledPlane])
def test_nobody_can_look_at_what_is_not_counted(plane: PlaneFactory) -> None:
    control = build(counted(recording={}), plane=plane)
    with pytest.raises(ValueError, match="counted"):
        control.plane.statistics()


def test_counting_takes_the_event_loop() -> None:
    assert kernel_for(RunPlan.of(counted(), RunInputs(), 0)).why == "the load of each key group is counted"


def test_the_load_is_the_work_that_came_also_where_it_is_not_done() -> None:
    # 800 tuples a second of 2 ms are 1.6 cores.
    made = counted("800 /s", elasticity={"policy": "threshold", "period": "2 s", "moves": 1, "begin": "3 s"})
    at, first = next((row[0], row[2]) for row in decided(simulate(made)) if "is to move" in row[1])
    assert (at, first[: first.index(" of")]) == (4 * S, "h-1 is at 160 %")


# -- moves


def test_an_overloaded_host_gives_key_groups_to_others_until_it_is_not() -> None:
    # 0.8 cores of load in ten groups: with 0.5 as the threshold about four leave h-1, all at the first look.
    elasticity = {"policy": "threshold", "high": 0.5, "low": 0.1, "period": "2 s", "moves": 9}
    made = simulate(counted("400 /s", elasticity=elasticity))
    (first, *others) = rows(made, "adaptations")
    assert first[:2] == (2 * S, 1)
    assert first[4] + first[5] in (3, 4)
    assert sum(row[4] + row[5] for row in others) <= 2  # keys are drawn at random
    moved = rows(made, "migrations")
    assert set(made.tables["migrations"]["cause"].tolist()) == {"balance"}
    assert all(row[8] != NEVER for row in moved)
    for at in (6 * S, 8 * S):
        assert sum(row[5] for row in rows(made, "statistics") if row[0] == at and row[3] == 1) <= 2 * S * 0.53
    assert not made.tables["ledger"]["lost"].any()


@pytest.mark.parametrize("seeds", parts(6, 12))
def test_a_group_rests_after_its_move(seeds: range) -> None:
    again = 0
    for seed in seeds:
        seen: dict[tuple[int, int], int] = {}
        made = run(elastic_job(seed, rest="1 s", high=0.3, low=0.05), PlainPlane, assists=False).records
        for row, cause in zip(rows(made, "migrations"), made.tables["migrations"]["cause"], strict=True):
            if cause == "balance":
                group, requested = (row[1], row[2]), row[5]
                again += group in seen
                assert requested - seen.get(group, -S) >= S
                seen[group] = requested
    assert again >= 2


def test_no_decision_is_taken_before_its_time() -> None:
    made = run(elastic_job(3, begin="2 s"), PlainPlane, assists=False).records
    assert min(made.tables["adaptations"]["at_ns"]) >= 2 * S
    assert min(made.tables["statistics"]["at_ns"]) < S


def test_the_checkpoint_stays_with_the_host_that_had_the_group() -> None:
    outcome = run(
        counted("400 /s", elasticity={"policy": "threshold", "high": 0.5, "low": 0.1, "period": "2 s"}), PlainPlane
    )
    for row in rows(outcome.records, "migrations"):
        partition = outcome.control.cluster.owner_of(outcome.control.plan.first_partition[row[1]] + row[2])
        assert (
            outcome.control.plane.checkpoint_host(partition)
            == outcome.control.cluster.planned_checkpoint_host[partition]
            == row[3]
        )


# -- hosts that come and go


def scaled(**elasticity: Any) -> Scenario:
    """1.2 cores of load from 3 s to 12 s, on one of two hosts; a third one is spare."""
    steps = [{"at": "0 s", "rate": "100 /s"}, {"at": "3 s", "rate": "600 /s"}, {"at": "12 s", "rate": "100 /s"}]
    rules = {"policy": "threshold", "high": 0.7, "low": 0.3, "period": "1 s", "rest": "2 s", "scale_out": True}
    return counted(
        duration="24 s",
        hosts={"io": {"count": 1}, "h": {"count": 2, "spare": 1, "cpu": "shared"}},
        placement={"tasks": {"in-0": "io-0", "sum-0": "h-0", "out-0": "io-0"}},
        elasticity=rules | {"hosts": ["h"], "acquisition": "3 s", "scale_in": True} | elasticity,
        workload={
            "in": {
                "rate": {"steps": steps},
                "arrivals": "deterministic",
                "keys": {"distribution": "uniform", "count": 100},
            }
        },
    )


def test_a_spare_host_is_acquired_when_nothing_fits_and_released_when_it_is_not_needed() -> None:
    outcome = run(scaled(), PlainPlane, assists=False)
    made = outcome.records
    assert outcome.faults == []
    acquired, left, released = decisions(made, "acquired", "to be left", "released")
    assert acquired == (4 * S, "h-1 is acquired")
    moved = rows(made, "migrations")
    assert min(row[5] for row in moved) == 7 * S  # it can be used then, and the look comes after that
    assert left[0] >= 13 * S
    host = left[1].split()[0]
    assert released[1] == f"{host} is released"
    assert released[0] - left[0] in (S, 2 * S)  # once it holds no checkpoint any more, which are taken each second
    index = made.hosts.index(host)
    (until,) = {until for one, _, until in rows(made, "hosts_in_use") if one == index}
    assert until == released[0]
    assert (2, 4 * S, 24 * S if index == 1 else until) in rows(made, "hosts_in_use")
    samples = made.tables["samples"]
    assert not (samples["host"][samples["at_ns"] > until] == index).any()
    held = made.tables["checkpoints"]
    assert not (held["checkpoint_host"][held["taken_ns"] > until] == index).any()


def test_a_spare_host_is_nothing_before_it_is_acquired() -> None:
    made = run(scaled(scale_out=False), PlainPlane).records
    for name, column in (("samples", "host"), ("checkpoints", "checkpoint_host"), ("migrations", "target")):
        assert 2 not in made.tables[name][column].tolist()
    assert 2 not in [row[0] for row in rows(made, "hosts_in_use")]
    assert len(decisions(made, "stays overloaded")) >= 8


def test_nothing_moves_to_a_spare_host_by_an_event() -> None:
    move = {"kind": "migrate", "at": "1 s", "operator": "sum", "key_group": 1, "host": "h-1"}
    made = simulate(scenario(_raw({"move": move})))
    assert (S, "sum[1] does not move to h-1", "that host is not in use") in decided(made)


def test_the_failure_of_a_spare_host_is_none() -> None:
    events = {"crash": {"kind": "host-failure", "at": "1 s", "host": "h-1"}}
    made = simulate(scaled().model_copy(update={"events": scenario(_raw(events)).events}))
    assert rows(made, "failures") == []
    assert decisions(made, "ignored") == [(1 * S, "failure of h-1 ignored")]


def _raw(events: dict[str, Any]) -> dict[str, Any]:
    return scaled().model_dump(mode="json", by_alias=True) | {"events": events}


# -- rescaling


@pytest.mark.parametrize("protocol", ["direct", "cpal"])
def test_after_rescaling_each_key_group_is_with_its_task(protocol: str) -> None:
    def event(at: str, tasks: int) -> dict[str, Any]:
        return {"kind": "rescale", "at": at, "operator": "sum", "parallelism": tasks, "protocol": protocol}

    outcome = run(counted(events={"up": event("3 s", 3), "down": event("6 s", 2)}), PlainPlane, assists=False)
    made, cluster = outcome.records, outcome.control.cluster
    assert outcome.faults == []
    up, down = rows(made, "rescales")
    # Tasks 1 and 2 go to the hosts with the fewest tasks: h-2, then h-0. Group k is on task k mod n.
    assert up[:5] == (1, 3 * S, 1, 3, 6)
    assert down[:5] == (1, 6 * S, 3, 2, 6)
    moved = rows(made, "migrations")
    assert len(moved) == 12
    assert set(made.tables["migrations"]["cause"].tolist()) == {"rescale"}
    assert up[5] == max(row[8] for row in moved if row[5] == 3 * S)
    assert down[5] == max(row[8] for row in moved if row[5] == 6 * S)
    first = outcome.control.plan.first_partition[1]
    at = [cluster.task_host[cluster.partition_task[cluster.owner_of(first + k)]] for k in range(10)]
    assert at == [(1, 2)[k % 2] for k in range(10)]


# -- both planes, and crashes


def campaign(seed: int, many: int) -> list[Crash]:
    return crashes(seed, run(elastic_job(seed), PlainPlane, assists=False).moments or [S], many)


# With 54 and 64 a host was released that had a part upstream in a move.
@pytest.mark.parametrize("seed", sample(2, 65, also=(54, 64)))
def test_nothing_is_lost_or_done_twice_whichever_host_dies(seed: int) -> None:
    for crash in [None, *campaign(seed, 3)]:
        assert run(elastic_job(seed), PlainPlane, crash, assists=False).faults == [], crash


@pytest.mark.parametrize("seed", sample(2, 8))
def test_nothing_is_lost_or_done_twice_in_any_order(seed: int) -> None:
    for crash in [None, *campaign(seed, 1)]:
        assert run(elastic_job(seed), PlainPlane, crash, clock=UnevenClock(seed), assists=False).faults == [], crash


def test_a_key_group_that_died_as_its_checkpoint_came_to_the_target_takes_checkpoints_again() -> None:
    # Host 4 dies after its checkpoint for a lazy_move has left; the news freezes what is dead already.
    outcome = run(elastic_job(5), PlainPlane, Crash(4, 2240006001, 30 * MS), assists=False)
    assert outcome.faults == []
    taken = outcome.records.tables["checkpoints"]
    own = (taken["operator"] == 1) & (taken["key_group"] == 2)
    assert (taken["taken_ns"][own] > 3 * S).any()


def test_no_host_is_left_to_which_a_key_group_is_still_to_move() -> None:
    # Two key groups wait for checkpoints at h-3: they go there by a lazy move, and then on by a rescaling.
    assert run(elastic_job(1830), PlainPlane, assists=False, more_ns=MORE_NS).faults == []


@pytest.mark.parametrize("seed", sample(3, 12))
def test_both_planes_give_equal_rows(seed: int) -> None:
    made = elastic_job(seed)
    for crash in [None, *campaign(seed, 1)]:
        plain, fast = (run(made, plane, crash, assists=False) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain.records, fast.records) == [], crash


@pytest.fixture(scope="module")
def counted_rightly() -> RunRecords:
    return run(elastic_job(1), PlainPlane, assists=False).records


@pytest.mark.parametrize("field", Statistic._fields[1:])
def test_the_planes_are_compared_in_all_that_is_counted(field: str, counted_rightly: RunRecords) -> None:
    class Miscounting(PlainPlane):
        def statistics(self) -> list[Statistic]:
            first, *others = super().statistics()
            return [first._replace(**{field: getattr(first, field) + 1}), *others]

    wrong = run(elastic_job(1), Miscounting, assists=False).records
    assert differences(counted_rightly, wrong) != []


@pytest.mark.parametrize("seeds", [(5, 8, 11), pytest.param(range(30), marks=pytest.mark.slow)], ids=["few", "all"])
def test_the_random_jobs_do_what_they_are_for(seeds: Iterable[int]) -> None:
    seen: dict[str, int] = {}
    for seed in seeds:
        made = run(elastic_job(seed), PlainPlane, assists=False).records
        for cause in made.tables["migrations"]["cause"].tolist():
            seen[cause] = seen.get(cause, 0) + 1
        for word in ("acquired", "released", "stays overloaded", "is not left"):
            seen[word] = seen.get(word, 0) + len(decisions(made, word))
    assert min(seen.values()) > 0
    assert {"balance", "drain", "rescale", "acquired", "released"} <= seen.keys()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign(part: int) -> None:
    for seed in range(1000 + 250 * part, 1000 + 250 * (part + 1)):
        for crash in [None, *campaign(seed, 4)]:
            plain, fast = (
                run(elastic_job(seed), plane, crash, assists=False, more_ns=MORE_NS)
                for plane in (PlainPlane, CompiledPlane)
            )
            assert plain.faults == differences(plain.records, fast.records) == [], (seed, crash)


def test_checkpoints_that_leave_with_their_host_say_so() -> None:
    loaded = read_scenario(Path(__file__).parents[3] / "scenarios" / "library" / "elasticity.toml")
    made = simulate(loaded.scenario, inputs_of(loaded.scenario, loaded.folder), plane=CompiledPlane)
    left = {what.split()[0]: at for at, what, _ in decided(made) if what.endswith("is to be left")}
    assert left
    why = {why for at, what, why in decided(made) if what.startswith("checkpoints of") and at in left.values()}
    assert why == {"the planned checkpoint host is to be left"}
