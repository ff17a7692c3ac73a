"""Hosts that die, or are fenced, in every phase of every protocol: whoever has a part in a move, and beside it.

Oracles: the ledger; the plain plane. A phase is the handling of a kind of message; each is met with each part.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from moving_jobs import MS, Crash, Outcome, moving_job, run
from test_planes import differences

from models.records.decisions import Action
from models.records.tables import NEVER
from models.scenario.scenario import Scenario
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.protocols import PROTOCOLS
from sim.plain.plane import PlainPlane

PHASES = {
    "cpa": {"move", "to_state", "to_checkpoint", "replayed"},
    "cpal": {"move", "to_state", "to_checkpoint", "replayed", "processed_all_replay", "sync_group", "caught_up"},
    "direct": {"stored", "loaded", "move", "to_state", "to_checkpoint", "replayed"},
    "lazy_move": {"stored", "move", "to_state", "to_checkpoint", "replayed"},
}
PHASES["cpal_caught_up"] = PHASES["cpal"] | {"drained"}
PHASES["replication"] = PHASES["cpal_caught_up"] | {"stored", "loaded"}
PARTS = ("source", "upstream", "moved", "sink", "origin", "target", "two at once")
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def hosts_of(calm: Outcome, part: str, draw: Random) -> list[int]:
    """Hosts that have this part, in the run without a crash."""
    cluster, moves = calm.control.cluster, calm.records.tables["migrations"]
    move = draw.randrange(len(moves["origin"]))
    if part in ("origin", "target"):
        return [int(moves[part][move])]
    if part == "two at once":
        first = draw.randrange(len(cluster.host_alive))
        return [first, (first + 1 + draw.randrange(len(cluster.host_alive) - 1)) % len(cluster.host_alive)]
    operator = {"source": 0, "upstream": 1, "moved": 2, "sink": 3}[part]
    return [draw.choice([cluster.task_host[t] for t, its in enumerate(cluster.task_operator) if its == operator])]


def crashes_in(calm: Outcome, phase: str, part: str, draw: Random) -> list[Crash]:
    """These hosts die as a message of this kind is handled, or just after; or they are fenced."""
    at, fenced = draw.choice(calm.phases[phase]) + draw.randrange(2), draw.random() < 0.5
    repair = draw.choice([30, 400]) * MS if fenced else draw.choice([None, 400 * MS, 30 * MS])
    return [Crash(host, at, repair, fenced) for host in hosts_of(calm, part, draw)]


def campaign(protocol: str, seeds: range, count: int) -> Iterator[tuple[Scenario, str, str, list[Crash]]]:
    """(job, phase, part, crashes), `count` for each phase and part."""
    calms = [(job, run(job, CompiledPlane)) for job in (moving_job(seed, protocol) for seed in seeds)]
    draw = Random(seeds.start)
    for phase in sorted(PHASES[protocol]):
        met = [(job, calm) for job, calm in calms if phase in calm.phases]
        for part in PARTS:
            for _ in range(count):
                job, calm = draw.choice(met)
                yield job, phase, part, crashes_in(calm, phase, part, draw)


def faults(outcome: Outcome) -> list[str]:
    """What is wrong; state that crashes of owner and checkpoint host have taken may be lost, and is said to be."""
    said = Action.LOSE_STATE in outcome.records.tables["decisions"]["action"].tolist()
    return [fault for fault in outcome.faults if not (said and fault.startswith("lost"))]


@every_protocol
def test_nothing_is_lost_whoever_dies_in_whatever_phase(protocol: str) -> None:
    kinds, called_off = set(), 0
    for job, phase, part, crashes in [*campaign(protocol, range(300, 305), 1)][
        ::2
    ]:  # each phase, with half of the parts
        outcome = run(job, CompiledPlane, crashes)
        assert faults(outcome) == [], (job.seed, phase, part, crashes)
        kinds.update(outcome.records.tables["failures"]["cause"].tolist())
        called_off += int((outcome.records.tables["migrations"]["completed_ns"] == NEVER).sum())
    assert kinds == {"crash", "suspicion"}
    assert called_off


@every_protocol
def test_planes_agree_whoever_dies_in_whatever_phase(protocol: str) -> None:
    chosen = [*campaign(protocol, range(310, 313), 1)]
    for job, phase, part, crashes in Random(1).sample(chosen, 3):
        plain, compiled = (run(job, plane, crashes) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain.records, compiled.records) == [], (job.seed, phase, part, crashes)


@pytest.mark.slow
@every_protocol
def test_nothing_is_lost_in_many_crashes_in_every_phase(protocol: str) -> None:
    for job, phase, part, crashes in campaign(protocol, range(400, 460), 40):
        assert faults(run(job, CompiledPlane, crashes)) == [], (job.seed, phase, part, crashes)
