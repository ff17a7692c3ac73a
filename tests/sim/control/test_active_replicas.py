"""Active replicas: both process all, one answers, and whoever dies nothing is lost or done twice; equal planes.

Oracles: the ledger, which follows every tuple from the sources; the plain plane.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from moves_beside import BESIDE
from moving_jobs import MS, Crash
from replicated_jobs import drawn_crashes, replicated_job, replicated_keys, run
from small_jobs import scenario
from test_planes import differences

from analysis.runs.recoveries import broken
from models.records.decisions import Action
from models.records.tables import RunRecords
from models.scenario.scenario import Scenario
from sim.clock import Clock, Process
from sim.control.cluster import Cluster, LostPartition, RunPlan
from sim.control.replicas import Replica, Replicas
from sim.data_plane import DataPlane, Listener
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

MORE_NS = 20 * 10**9  # for runs that are slow: what is stuck is stuck for ever

TAKEN_OVER = (Action.TAKE_OVER, Action.FINISH_EARLY)


def campaign(what: str, seeds: range, count: int, compares: bool = True) -> dict[str, int]:
    """Runs without a crash and with some: planes agree, nothing is wrong; how often a replica came to which end."""
    ends: dict[str, int] = {}
    for seed in seeds:
        made = replicated_job(seed, what)
        for crashes in [[], *drawn_crashes(seed, count)]:
            outcome = run(made, CompiledPlane, crashes)
            if compares:
                plain = run(made, PlainPlane, crashes)
                assert differences(plain.records, outcome.records) == [], (what, seed, crashes)
            tables = outcome.records.tables
            lost = Action.LOSE_STATE in tables["decisions"]["action"].tolist()
            assert not (lost and len(crashes) <= 1), (what, seed, crashes)
            if outcome.faults and not lost:
                assert run(made, CompiledPlane, crashes, MORE_NS).faults == [], (what, seed, crashes)
            for end in tables["replicas"]["end"].tolist():
                ends[end] = ends.get(end, 0) + 1
    return ends


def test_planes_agree_and_nothing_is_lost() -> None:
    ends = campaign("", range(4), 3)
    assert {"took over", "lost", "called off", ""} <= ends.keys()


@pytest.mark.parametrize("what", BESIDE)
def test_planes_agree_beside_other_features(what: str) -> None:
    assert "took over" in campaign(what, range(20, 21), 2)


def test_statistics_are_kept_of_instances_that_a_replica_has_replaced() -> None:
    raw = replicated_keys(0) | {"recording": {"statistics": True}, "elasticity": {"period": "400 ms"}}
    outcome = run(scenario(raw), CompiledPlane, [Crash(1, 900 * MS, None)])
    replicas, statistics = (outcome.records.tables[name] for name in ("replicas", "statistics"))
    assert "took over" in replicas["end"]
    after = statistics["at_ns"] > 1_300 * MS
    assert after.any()
    assert 1 not in statistics["host"][after]
    assert (statistics["tuples"] >= 0).all()


CHECK_NS = 10**6


def watched(made: Scenario, crashes: list[Crash]) -> tuple[RunRecords, int]:
    """The records, and at how many of the checks, one each ms, the owner of some key group or task was not live."""
    checks = [0]

    def plane(plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener) -> DataPlane:
        def check() -> Process:
            while True:
                yield clock.sleep(clock.now_ns() + CHECK_NS)
                checks[0] += not all(
                    cluster.partition_live[cluster.owner_of(k)] for k in range(plan.first_partition[-1])
                )

        clock.process(check())
        return CompiledPlane(plan, cluster, clock, listener)

    return run(made, plane, crashes).records, checks[0]


def check_broken(seeds: range, count: int) -> None:
    """What is said to be broken is what was, whoever was thought to live: several crashes soon after one another."""
    unfinished = dead_successors = 0
    for seed in seeds:
        made = replicated_job(seed, Random(seed).choice(["", "remote"]))
        for crashes in drawn_crashes(seed, count, 4):
            records, checks = watched(made, crashes)
            found = broken([records])
            assert found is not None
            assert found.total_s == pytest.approx(checks * CHECK_NS / 1e9, abs=1.1e-3 * int(found.times))
            table = records.tables["replicas"]
            paused = table["failed_ns"][table["end"] == "took over"]
            assert (paused >= 0).all()  # also where the replica was not finished
            unfinished += int(((table["end"] == "took over") & (table["from_ns"] < 0)).sum())
            heard = [one for one in records.tables["decisions"]["action"].tolist() if one in TAKEN_OVER]
            dead_successors += len(heard) > paused.size
    assert unfinished > 0
    assert dead_successors > 0


def test_what_is_broken_is_what_nobody_answers_for() -> None:
    check_broken(range(500, 512), 2)


@pytest.mark.slow
def test_what_is_broken_is_what_nobody_answers_for_in_many_jobs() -> None:
    check_broken(range(5000, 5200), 3)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["", *BESIDE])
def test_planes_agree_and_nothing_is_lost_in_many_jobs(what: str) -> None:
    assert {"took over", "lost", "called off", ""} <= campaign(what, range(1000, 1040), 3).keys()


@pytest.mark.slow
def test_nothing_is_lost_in_many_crashes() -> None:
    assert {"took over", "lost", "called off", ""} <= campaign("", range(2000, 2400), 5, compares=False).keys()


# -- broken on purpose


def sends_nothing_again(replicas: Replicas, replica: Replica, loss: LostPartition) -> None:
    """In place of `Replicas._take_over`: what the replica has kept is not sent."""
    replicas._end(replica, "took over", loss.failed_ns)
    replicas.instances.own(replica.partition)
    replicas._give_up(replica.group, loss.partition)
    replicas.state.plane.mute(replica.partition, False)


def new_tasks_send_to_owners_alone(replicas: Replicas, task: int) -> None:
    """In place of `Replicas.task_added`."""
    del replicas, task


@pytest.mark.parametrize(
    ("name", "mutant"), [("_take_over", sends_nothing_again), ("task_added", new_tasks_send_to_owners_alone)]
)
def test_a_broken_replica_is_noticed(name: str, mutant: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replicas, name, mutant)
    for seed in (13 if name == "task_added" else 0, *range(40)):  # 13 is the first that shows it
        for crashes in drawn_crashes(seed, 4, 2):
            outcome = run(replicated_job(seed), CompiledPlane, crashes)
            legal = Action.LOSE_STATE in outcome.records.tables["decisions"]["action"].tolist()
            if not legal and any("lost" in fault for fault in outcome.faults):
                return
    pytest.fail(f"{name} was not missed")
