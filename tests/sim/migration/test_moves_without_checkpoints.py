"""Key groups that move beside methods of recovery without checkpoints: nothing is lost, whoever dies when.

Oracles: the ledger and the owners at the end, and the plain plane, by equality of all columns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from elastic_jobs import elastic_keys
from moves_beside import joins_that_move
from moving_jobs import HOSTS, MS, Crash, Outcome, crashes, moving_keys, run
from seeds import sample
from small_jobs import scenario
from test_planes import differences

from models.records.tables import NEVER
from models.scenario.scenario import Scenario
from scenarios.studies.reproduce.elastic_runs import Recovered
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

PROTOCOL = "pause_drain_resume"
METHODS = ("upstream-backup", "source-backup", "active-replication")
REST_NS = 4_000 * MS  # a history that is sent again takes its time


def job(seed: int, method: str, windows: bool = False) -> Scenario:
    """A job whose key groups move one by one, or whose operators are rescaled; the history is longer than the run."""
    draw = Random(f"{seed} {method}")
    raw: dict[str, Any] = (elastic_keys if seed % 2 else moving_keys)(*(seed,) if seed % 2 else (seed, PROTOCOL))
    raw["hosts"]["h"] = {key: value for key, value in raw["hosts"]["h"].items() if key != "spare"}
    if seed % 2 and not raw["events"]:
        raw["events"] = {"up": {"kind": "rescale", "at": "1700 ms", "operator": "one", "parallelism": 3}}
    for event in raw["events"].values():
        event.pop("protocol", None)
    if windows:
        raw = joins_that_move(draw, raw)
        for operator in raw["operators"].values() if method == "active-replication" else ():
            operator.pop("timer", None)
    tolerance: dict[str, Any] = {"method": method}
    if method != "active-replication":
        tolerance["history"] = {"length": "60 s", "every": draw.choice(["100 ms", "1 s"])}
    return scenario({key: value for key, value in raw.items() if key != "elasticity"} | {"fault_tolerance": tolerance})


def some(seed: int, method: str, moments: list[int]) -> list[Crash]:
    """A crash at an instant of a move, or two that are so far apart that all is over between them."""
    found = sorted(crashes(seed, moments, 2), key=lambda crash: crash.at_ns)
    apart = 1_500 * MS if method == "active-replication" else 700 * MS
    if seed % 3 or len(found) < 2:
        return found[:1]
    first, second = found
    second = replace(second, host=(first.host + 1 + seed // 3 % (HOSTS - 1)) % HOSTS, at_ns=first.at_ns + apart)
    return [first, second]


def outcomes(seed: int, method: str, windows: bool = False) -> list[Outcome]:
    """The run of a job without a crash, and with crashes at instants of its moves."""
    made = job(seed, method, windows)
    calm = run(made, PlainPlane, assists=False, more_ns=REST_NS)
    return [calm, run(made, PlainPlane, some(seed, method, calm.moments), assists=False, more_ns=REST_NS)]


def problems(seed: int, method: str, windows: bool) -> list[str]:
    """What is wrong in the runs of a seed, and differences between the planes."""
    made, found = job(seed, method, windows), list[str]()
    calm = run(made, PlainPlane, assists=False, more_ns=REST_NS)
    for crash in ([], some(seed, method, calm.moments)):
        plain = run(made, PlainPlane, crash, assists=False, more_ns=REST_NS)
        compiled = run(made, CompiledPlane, crash, assists=False, more_ns=REST_NS)
        found += [*plain.faults, *differences(plain.records, compiled.records)]
    return found


def note(outcome: Outcome, seen: Counter[str]) -> None:
    """Count what happened in a run, so that a test sees that the jobs meet it."""
    runs = outcome.control.migrations.runs
    seen["completed"] += sum(run.completed_ns is not None for run in runs)
    seen["called off"] += sum(run.over and run.completed_ns is None for run in runs)
    seen["drained and called off"] += sum(run.drained and run.over and run.completed_ns is None for run in runs)
    seen["switchovers"] += sum(run.name == "switchover" for run in runs)
    seen["taken over"] += sum(one.end == "took over" for one in outcome.control.replicas.all)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("seed", sample(1, 400))
def test_nothing_is_lost_and_both_planes_agree(seed: int, windows: bool, method: str) -> None:
    assert problems(seed, method, windows) == []


def test_jobs_meet_all_that_can_happen() -> None:
    seen: Counter[str] = Counter()
    wanted = ("completed", "called off", "drained and called off", "switchovers", "taken over")
    for seed in range(9):
        for method in METHODS:
            for outcome in outcomes(seed, method):
                assert outcome.faults == [], (method, seed)
                note(outcome, seen)
        if min(seen[what] for what in wanted) > 0:
            return
    pytest.fail(f"not all was met: {seen}")


# -- beside synchronous checkpoints, which roll the whole job back


def rolled_back(seed: int) -> Scenario:
    """A job whose key groups move, and which is rolled back as a whole."""
    protocol = ("direct", "cpa", "cpal", "lazy_move")[seed // 2 % 4]
    raw: dict[str, Any] = elastic_keys(seed) if seed % 2 else moving_keys(seed, protocol)
    raw["hosts"]["h"] = {key: value for key, value in raw["hosts"]["h"].items() if key != "spare"}
    if seed % 2 and not raw["events"]:
        raw["events"] = {"up": {"kind": "rescale", "at": "1700 ms", "operator": "one", "parallelism": 3}}
    raw["fault_tolerance"] |= {"method": "synchronous-checkpoints", "store": "remote"}
    return scenario({key: value for key, value in raw.items() if key != "elasticity"})


@pytest.mark.parametrize("seed", sample(3, 400))
def test_a_job_that_is_rolled_back_in_a_move_loses_nothing(seed: int) -> None:
    made = rolled_back(seed)
    crash = crashes(seed, run(made, PlainPlane, assists=False, more_ns=REST_NS).moments, 1)
    plain, compiled = (run(made, plane, crash, assists=False, more_ns=REST_NS) for plane in (PlainPlane, CompiledPlane))
    assert [*plain.faults, *differences(plain.records, compiled.records)] == []


class Roomy(CompiledPlane):
    """Refuses to go on where a state that was copied found no room: compiled code does not notice."""

    def adopt(self, instance: int, partition: int) -> None:
        super().adopt(instance, partition)
        pools = ("chunk", "node", "note", "visit")
        assert all(int(getattr(self.state, f"{pool}_pool")["left"]) >= 0 for pool in pools)


def test_there_is_room_for_the_state_that_is_sent() -> None:
    # The replica of the counter is made anew while the pool of ids is nearly full.
    rows = simulate(Recovered("AR", 4).scenario(), plane=Roomy)
    assert NEVER not in rows.tables["recoveries"]["caught_up_ns"].tolist()
