"""Maintenance of the allocation of checkpoints in runs.

Oracles: the rows of the run itself (what was compared, which checkpoints were sent where), the correlations of numpy,
equality of the two data planes, and the ledger: nothing lost, nothing twice, whichever host dies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from elastic_jobs import elastic_job
from moving_jobs import MS, Crash, Outcome, crashes, run
from seeds import sample
from small_jobs import scenario, simulate
from test_planes import differences

from models.records.decisions import Action
from models.records.tables import NEVER, TABLES, RunRecords
from models.scenario.fault_tolerance import Maintenance
from models.scenario.inputs import FreshAllocation, LoadHistory, RunInputs
from models.scenario.scenario import Scenario
from scenarios.planning.maintenance import HistoryPlanner, planner_of
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

S = 1000 * MS
HOSTS = {"a": ("h-0", "h-1"), "b": ("h-2", "h-3")}  # of the two operators below


def shifting(**maintenance: Any) -> Scenario:
    """Load goes from a, on h-0 and h-1, to b, on h-2 and h-3, and back; four key groups each, checked each second."""
    steps = [("0 s", 150, 30), ("4 s", 30, 150), ("8 s", 150, 30), ("12 s", 30, 150), ("16 s", 150, 30)]

    def source(rates: list[tuple[str, int]]) -> dict[str, Any]:
        return {
            "rate": {"steps": [{"at": at, "rate": f"{rate} /s"} for at, rate in rates]},
            "arrivals": "deterministic",
            "keys": {"distribution": "uniform", "count": 100},
        }

    def operator(upstream: str) -> dict[str, Any]:
        return {
            "kind": "aggregate",
            "inputs": {upstream: "key"},
            "parallelism": 2,
            "key_groups": 4,
            "service": {"distribution": "deterministic", "value": "2 ms"},
            "state": {"model": "per-key", "bytes": "1 kB"},
        }

    raw: dict[str, Any] = {
        "format": 1,
        "duration": "20 s",
        "workload": {
            "in": source([(at, one) for at, one, _ in steps]),
            "right": source([(at, one) for at, _, one in steps]),
        },
        "operators": {
            "in": {"kind": "source"},
            "right": {"kind": "source"},
            "a": operator("in"),
            "b": operator("right"),
            "out": {"kind": "sink", "inputs": {"a": "shuffle", "b": "shuffle"}},
        },
        "hosts": {"io": {"count": 1}, "h": {"count": 4, "network": "1 MB/s"}},
        "placement": {
            "operators": {"in": "io", "right": "io", "out": "io"},
            "tasks": {f"{name}-{k}": host for name, hosts in HOSTS.items() for k, host in enumerate(hosts)},
        },
        "network": {"latency": "1 ms"},
        "fault_tolerance": {
            "method": "checkpoint",
            "interval": "1 s",
            "maintenance": {"every": "5 s"} | maintenance,
        },
        "elasticity": {"period": "1 s"},
        "detector": {"heartbeat": "50 ms", "timeout": "100 ms"},
    }
    return scenario(raw)


def other(host: str) -> str:
    """The other host of the same operator: the worst place for a checkpoint."""
    return {"h-0": "h-1", "h-1": "h-0", "h-2": "h-3", "h-3": "h-2"}[host]


def worst(made: Scenario) -> RunInputs:
    """Each checkpoint where the load rises with its own, and the planner of the scenario."""
    checkpoint_hosts = {(name, k): other(hosts[k % 2]) for name, hosts in HOSTS.items() for k in range(4)}
    return RunInputs(checkpoint_hosts=checkpoint_hosts, planner=planner_of(made))


def rows(made: RunRecords, name: str = "maintenance") -> list[dict[str, Any]]:
    table = made.tables[name]
    return [dict(zip(table, row, strict=True)) for row in zip(*(table[c].tolist() for c in table), strict=True)]


def sent_away(made: RunRecords, what: str = "the score is") -> list[tuple[int, str, str]]:
    """(when, key group, to which host) of checkpoints that maintenance has sent elsewhere."""
    found = rows(made, "decisions")
    return [
        (row["at_ns"], row["subject"], row["target"])
        for row in found
        if row["action"] == Action.REALLOCATE and row["reason"].startswith(what)
    ]


@dataclass
class Watched:
    """A planner that notes what it was shown."""

    planner: HistoryPlanner
    seen: list[LoadHistory] = field(default_factory=list)

    def __call__(self, history: LoadHistory) -> FreshAllocation | None:
        self.seen.append(history)
        return self.planner(history)


def watched(made: Scenario) -> tuple[RunInputs, Watched]:
    given = worst(made)
    assert isinstance(given.planner, HistoryPlanner)
    watch = Watched(given.planner)
    return RunInputs(checkpoint_hosts=given.checkpoint_hosts, planner=watch), watch


# -- what moves


def test_checkpoints_go_to_where_load_falls_as_their_own_rises() -> None:
    made = shifting(first="10 s", every="5 s", theta=0.0)
    found = simulate(made, worst(made))
    first, second = rows(found)
    assert (first["at_ns"], second["at_ns"]) == (10 * S, 15 * S)
    assert (first["groups"], first["windows"], second["windows"]) == (8, 10, 15)  # the check at 10 s comes first
    assert (first["moved"], first["stored"]) == (8, 8)
    assert first["current"] > 0 > first["fresh"]
    assert first["left"] <= 0
    for _, group, host in sent_away(found)[:8]:
        assert host in HOSTS["b" if group.startswith("a") else "a"]
    before, after = {}, {}
    for row in rows(found, "checkpoints"):
        if row["operator"] in (2, 3):
            (before if row["taken_ns"] <= 10 * S else after)[row["operator"], row["key_group"]] = row
    assert all(HOSTS["ab"[row["operator"] - 2]].count(found.hosts[row["checkpoint_host"]]) for row in before.values())
    assert not any(
        HOSTS["ab"[row["operator"] - 2]].count(found.hosts[row["checkpoint_host"]]) for row in after.values()
    )


def test_scores_are_loads_times_mean_correlations() -> None:
    made = shifting(first="10 s", every="30 s", theta=0.0)
    inputs, watch = watched(made)
    (row,) = rows(simulate(made, inputs))
    (seen,) = watch.seen
    r, load = np.corrcoef(seen.load), seen.load.mean(axis=1)

    def score(checkpoint_hosts: list[int]) -> float:
        return sum(load[j] * r[j, seen.host == node].mean() for j, node in enumerate(checkpoint_hosts))

    hosts = ["io-0", "h-0", "h-1", "h-2", "h-3"]
    worst_of = [hosts.index(other(hosts[home])) for home in seen.host]
    best = [min({1, 2, 3, 4} - {home}, key=lambda n: r[j, seen.host == n].mean()) for j, home in enumerate(seen.host)]
    assert row["current"] == pytest.approx(score(worst_of), rel=1e-9)
    assert row["fresh"] == pytest.approx(score(best), rel=1e-9)
    assert row["difference"] == pytest.approx(score(worst_of) - score(best), rel=1e-9)


def test_only_what_statistics_have_seen_is_known() -> None:
    made = shifting(first="3500 ms", every="4 s", window="3 s")
    inputs, watch = watched(made)
    found = simulate(made, inputs)
    assert [row["windows"] for row in rows(found)] == [2, 2, 2, 2, 2]  # 3.5 s, 7.5 s, ...: whole periods
    statistics = rows(found, "statistics")
    for seen, at in zip(watch.seen, (3500, 7500, 11500, 15500, 19500), strict=True):
        for j, (name, group) in enumerate(seen.names):
            expected = [
                row["tuples"]
                for row in statistics
                if (found.operators[row["operator"]], row["key_group"]) == (name, group)
                and at * MS - 2500 * MS < row["at_ns"] <= at * MS
            ]
            assert seen.tuples[j].tolist() == expected
        assert seen.window_s == 1.0
        assert seen.work_s == pytest.approx(np.full(8, 0.002))


def test_what_is_no_key_group_and_what_others_take_is_outside() -> None:
    made = shifting(first="10 s", every="30 s")
    raw = made.model_dump(mode="json", by_alias=True)
    raw["hosts"]["h"] |= {"cpu": "shared", "load": {"steps": [{"at": "5 s", "share": 0.4}]}}
    raw["operators"]["copy"] = {
        "kind": "map",
        "inputs": {"in": "shuffle"},
        "service": {"distribution": "deterministic", "value": "1 ms"},
    }
    raw["operators"]["out"]["inputs"]["copy"] = "shuffle"
    raw["placement"]["tasks"]["copy-0"] = "h-3"
    loaded = scenario(raw)
    inputs, watch = watched(loaded)
    simulate(loaded, inputs)
    (seen,) = watch.seen
    # Of 10 s 5 with 40 %; the source has 4 s of 150 tuples a second, 4 s of 30 and 2 s of 150, of 1 ms each.
    assert seen.outside[:4] == pytest.approx([0.0, 0.2, 0.2, 0.2])
    assert seen.outside[4] == pytest.approx(0.2 + 0.102, rel=0.02)
    assert seen.takes.tolist() == [False, True, True, True, True]  # io-0 has no key group


def test_within_theta_nothing_moves_and_the_row_says_so() -> None:
    made = shifting(theta=1000.0)
    found = simulate(made, worst(made))
    assert [row["moved"] for row in rows(found)] == [0, 0, 0]
    assert all(row["difference"] == row["left"] > 0 for row in rows(found))
    assert sent_away(found) == []


def test_a_share_of_the_difference_is_left_where_theta_allows_it() -> None:
    made = shifting(first="10 s", every="30 s", theta=0.5)
    (row,) = rows(simulate(made, worst(made)))
    assert 0 < row["moved"] < 8
    assert 0 < row["left"] <= 0.5 * abs(row["fresh"]) < row["difference"]


def test_a_key_group_that_is_moving_is_left_alone() -> None:
    raw = shifting(first="10 s", every="30 s", theta=0.0).model_dump(mode="json", by_alias=True)
    move = {"kind": "migrate", "at": "9990 ms", "operator": "a", "key_group": 0, "host": "h-3", "protocol": "direct"}
    then = move | {"at": "9995 ms", "host": "h-2"}  # which waits for the first: 25 kB take 25 ms
    made = scenario(raw | {"events": {"move": move, "then": then}})
    found = simulate(made, worst(made))
    (row,) = rows(found)
    assert (row["groups"], row["moved"]) == (7, 7)
    assert "a[0]" not in [group for _, group, _ in sent_away(found)]


def test_what_has_lost_its_checkpoint_host_or_owner_is_left_to_the_next_checkpoint() -> None:
    # h-1 dies, which held a[0] and a[2]; what it owned is recovered on h-0, its checkpoint host, and has to find
    # another.
    raw = shifting(first="9600 ms", every="30 s", theta=0.0).model_dump(mode="json", by_alias=True)
    made = scenario(raw | {"elasticity": raw["elasticity"] | {"hosts": ["h"]}})
    inputs, watch = watched(made)
    outcome = run(made, PlainPlane, Crash(2, 9200 * MS, None), assists=False, inputs=inputs)
    (row,) = rows(outcome.records)
    assert (row["groups"], watch.seen[0].takes.tolist()) == (4, [False, True, False, True, True])
    assert {group[0] for _, group, _ in sent_away(outcome.records)} == {"b"}


def test_too_few_looks_are_said() -> None:
    found = simulate(made := shifting(first="1500 ms", every="30 s"), worst(made))
    (decision,) = [row for row in rows(found, "decisions") if row["action"] == Action.COMPARE]
    assert (decision["at_ns"], decision["reason"]) == (1500 * MS, "1 load checks are too few")
    assert rows(found) == []


def test_without_a_planner_there_is_no_maintenance() -> None:
    with pytest.raises(ValueError, match="planner"):
        run(shifting(), PlainPlane)


# -- what it costs


@pytest.mark.parametrize("kind", ["incremental", "full"])
def test_a_move_costs_a_whole_checkpoint_on_the_network(kind: str) -> None:
    made = shifting(first="10 s", every="30 s", theta=0.0)
    tolerance = made.fault_tolerance.model_copy(update={"kind": kind})
    made = made.model_copy(update={"fault_tolerance": tolerance})
    found = simulate(made, worst(made))
    (row,) = rows(found)
    taken = [one for one in rows(found, "checkpoints") if one["operator"] in (2, 3)]
    firsts = {}
    for one in taken:
        if one["taken_ns"] > 10 * S:
            firsts.setdefault((one["operator"], one["key_group"]), one)
    assert len(firsts) == row["moved"] == row["stored"] == 8
    assert all(one["full"] for one in firsts.values())
    assert row["bytes"] == sum(one["bytes"] for one in firsts.values()) >= 100_000 * 2 * 0.9  # 2 * 100 keys of 1 kB
    others = [one for one in taken if one["taken_ns"] > 11 * S]
    assert not any(one["full"] for one in others) or kind == "full"
    messages = rows(found, "messages")
    assert sum(one["bytes"] for one in messages if one["kind"] == "checkpoint") == sum(one["bytes"] for one in taken)


def test_the_checkpoint_before_stays_until_the_new_one_is_stored() -> None:
    # At 10 s a[0] is to go elsewhere, the next checkpoint is at 11 s: who dies before is recovered from the old one.
    made = shifting(first="10 s", every="30 s", theta=0.0)
    at = {"before": Crash(1, 10_400 * MS, None), "after": Crash(1, 11_900 * MS, None)}
    resumed = {}
    for name, crash in at.items():
        outcome = run(made, PlainPlane, crash, assists=False, inputs=worst(made))
        assert outcome.faults == []
        (host,) = {row["target"] for row in rows(outcome.records, "recoveries") if row["operator"] == 2}
        resumed[name] = outcome.records.hosts[host]
    assert resumed["before"] == "h-1"
    assert resumed["after"] in HOSTS["b"]


def test_an_attempt_that_does_not_arrive_counts_with_the_one_that_does() -> None:
    # The new checkpoint host of a[0] dies as the first checkpoint is on its way to it, and is back before the next one.
    made = shifting(first="10 s", every="30 s", theta=0.0)
    inputs = worst(made)
    targets = {group: host for _, group, host in sent_away(run(made, PlainPlane, assists=False, inputs=inputs).records)}
    crash = Crash(int(targets["a[0]"][-1]) + 1, 11_003 * MS, 300 * MS)
    outcome = run(made, PlainPlane, crash, assists=False, inputs=inputs)
    (row,) = rows(outcome.records)
    assert outcome.faults == []
    attempts: dict[str, list[dict[str, Any]]] = {group: [] for group in targets}
    for one in rows(outcome.records, "checkpoints"):
        group = f"{outcome.records.operators[one['operator']]}[{one['key_group']}]"
        before = attempts.get(group, [])
        there = group in targets and outcome.records.hosts[one["checkpoint_host"]] == targets[group]
        if there and one["taken_ns"] > 10 * S and all(other["stored_ns"] == NEVER for other in before):
            before.append(one)
    assert [one["stored_ns"] == NEVER for one in attempts["a[0]"]] == [True, False]
    assert row["bytes"] == sum(one["bytes"] for group in attempts.values() for one in group)
    assert row["stored"] == sum(group[-1]["stored_ns"] != NEVER for group in attempts.values() if group)


# -- random jobs, crashes, both planes


def maintained(seed: int) -> Scenario:
    """An elastic job that is maintained, often while key groups move."""
    made = elastic_job(seed)
    maintenance = Maintenance(
        every_s=(0.4, 0.7, 1.1)[seed % 3],
        theta=(0.0, 0.05)[seed % 2],
        window_s=(None, 2.0)[seed % 2],
        method=("exact", "expected-usable", "tie-band", "sensitive-first", "even")[seed % 5],
        zero_below=(0.0, 0.2)[seed % 2],
    )
    tolerance = made.fault_tolerance.model_copy(update={"maintenance": maintenance})
    return made.model_copy(update={"fault_tolerance": tolerance})


def ran(seed: int, plane: Any = PlainPlane, crash: Crash | None = None, more_ns: int = 0) -> Outcome:
    made = maintained(seed)
    return run(made, plane, crash, assists=False, more_ns=more_ns, inputs=RunInputs(planner=planner_of(made)))


def moments(outcome: Outcome) -> list[int]:
    """When checkpoints were sent elsewhere, were taken for there, and were stored."""
    at = [when for when, _, _ in sent_away(outcome.records)]
    for row in rows(outcome.records, "checkpoints"):
        near = any(0 <= row["taken_ns"] - when < S for when in at)
        at += [one for one in (row["taken_ns"], row["stored_ns"]) if near and row["full"] and one != NEVER]
    return sorted(set(at))


@pytest.mark.parametrize("seed", sample(2, 8))
def test_nothing_is_lost_or_done_twice_whichever_host_dies(seed: int) -> None:
    plain = ran(seed)
    for crash in [None, *crashes(seed, moments(plain), 1)]:
        assert ran(seed, PlainPlane, crash).faults == [], crash


@pytest.mark.parametrize("seed", sample(2, 6))
def test_both_planes_give_equal_rows(seed: int) -> None:
    first = ran(seed)
    for crash in [None, *crashes(seed, moments(first), 1)]:
        plain, fast = ran(seed, PlainPlane, crash), ran(seed, CompiledPlane, crash)
        assert differences(plain.records, fast.records) == [], crash


def test_checkpoints_only_go_to_hosts_that_are_not_suspected() -> None:
    class Checked(HistoryPlanner):
        def __call__(self, history: LoadHistory) -> FreshAllocation | None:
            found = super().__call__(history)
            if found is not None:
                assert history.takes[found.assignment].all()
                assert (found.assignment != history.host).all()
                seen.append(int(history.takes.sum()))
            return found

    seen: list[int] = []
    for seed in range(3):
        made = maintained(seed)
        given = planner_of(made)
        assert given is not None
        planner = Checked(given.maintenance, given.theta, given.seed)
        for crash in crashes(seed, moments(ran(seed)), 1):
            run(made, PlainPlane, crash, assists=False, inputs=RunInputs(planner=planner))
    assert len(set(seen)) >= 2  # hosts come, go and die


def test_the_random_jobs_do_what_they_are_for() -> None:
    found = [row for seed in range(6) for row in rows(ran(seed).records)]
    assert sum(row["moved"] for row in found) >= 40
    assert sum(row["stored"] for row in found) < sum(row["moved"] for row in found)
    assert len({row["groups"] for row in found}) >= 5
    assert any(row["moved"] == 0 for row in found)
    assert list(found[0]) == [column.name for column in TABLES["maintenance"]]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign(part: int) -> None:
    for seed in range(2000 + 100 * part, 2000 + 100 * (part + 1)):
        for crash in [None, *crashes(seed, moments(ran(seed)), 4)]:
            # Instances wait in the queues of hosts that are overloaded for long: these have time to empty.
            plain, fast = (ran(seed, plane, crash, more_ns=4 * S) for plane in (PlainPlane, CompiledPlane))
            assert plain.faults == differences(plain.records, fast.records) == [], (seed, crash)
