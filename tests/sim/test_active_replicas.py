"""Active replicas: both process all, one answers, and whoever dies nothing is lost or done twice; equal planes.

Oracles: the ledger, which follows every tuple from the sources; the plain plane.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from moves_beside import BESIDE
from reference.world import World
from replicated_jobs import drawn_crashes, replicated_job, run
from test_planes import differences

from sim.compiled.plane import CompiledPlane
from sim.recovery import Loss
from sim.replicas import Replica, Replicas

MORE_NS = 20 * 10**9  # for runs that are slow: what is stuck is stuck for ever


def campaign(what: str, seeds: range, count: int, compares: bool = True) -> dict[str, int]:
    """Runs without a crash and with some: planes agree, nothing is wrong; how often a replica came to which end."""
    ends: dict[str, int] = {}
    for seed in seeds:
        made = replicated_job(seed, what)
        for crashes in [[], *drawn_crashes(seed, count)]:
            outcome = run(made, CompiledPlane, crashes)
            if compares:
                plain = run(made, World, crashes)
                assert differences(plain.records, outcome.records) == [], (what, seed, crashes)
            tables = outcome.records.tables
            lost = any(text.startswith("state of") for text in tables["decisions"]["what"].tolist())
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


@pytest.mark.slow
@pytest.mark.parametrize("what", ["", *BESIDE])
def test_planes_agree_and_nothing_is_lost_in_many_jobs(what: str) -> None:
    assert {"took over", "lost", "called off", ""} <= campaign(what, range(1000, 1040), 3).keys()


@pytest.mark.slow
def test_nothing_is_lost_in_many_crashes() -> None:
    assert {"took over", "lost", "called off", ""} <= campaign("", range(2000, 2400), 5, compares=False).keys()


# -- broken on purpose


def sends_nothing_again(replicas: Replicas, replica: Replica, loss: Loss) -> None:
    """In place of `Replicas._take_over`: what the replica has kept is not sent."""
    runtime = replicas.control.migrations.runtime
    replicas._end(replica, "took over", loss)
    runtime.own(replica.unit)
    replicas._give_up(replica.group, loss.unit)
    replicas.control.plane.mute(replica.unit, False)


def new_tasks_send_to_owners_alone(replicas: Replicas, task: int) -> None:
    """In place of `Replicas.task_added`."""
    del replicas, task


@pytest.mark.parametrize(
    ("name", "mutant"), [("_take_over", sends_nothing_again), ("task_added", new_tasks_send_to_owners_alone)]
)
def test_a_broken_replica_is_noticed(name: str, mutant: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replicas, name, mutant)
    for seed in range(40):
        for crashes in drawn_crashes(seed, 4, 2):
            outcome = run(replicated_job(seed), CompiledPlane, crashes)
            legal = any(text.startswith("state of") for text in outcome.records.tables["decisions"]["what"].tolist())
            if not legal and any("lost" in fault for fault in outcome.faults):
                return
    pytest.fail(f"{name} was not missed")
