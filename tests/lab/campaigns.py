"""Schedules that seeds draw: of chains, and of the other shapes of a dataflow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from lab.job import Job, random_job
from lab.schedule import REPAIRS, ROLES, Ask, Crash, Schedule
from lab.shapes import CHAIN, SHAPES
from models.scenario.events import WITHOUT_CHECKPOINTS
from sim.control.replicas import REPLICATE
from sim.migration.protocols import REBALANCE_PROTOCOLS

METHODS_WITHOUT = ("upstream-backup", "source-backup", "active-replication")
"""Methods that take no checkpoints, by turns for the protocol of moves beside them."""
Draw = Callable[[str, int], Schedule]  # of a protocol and a seed
EARLY = (0, 1, 2, 5)  # how often a rebalance sends INIT again while an answer may still come


@dataclass(frozen=True)
class Campaign:
    """The aim of a part of the schedules."""

    roles: tuple[str, ...] = ROLES
    crashes: tuple[int, ...] = (0, 1, 1, 2)
    after: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 8, 11)
    saves: tuple[int, ...] = (1, 2, 3, 4)  # how often a checkpoint is taken
    meanwhile: float = 0.4  # share of these that wait until a move is going on
    stages: tuple[int, ...] = (1, 2, 2)  # of a chain
    sources: tuple[int, ...] = (1, 2, 2)
    groups: tuple[int, ...] = (1, 2, 2, 3)
    again: float = 0.3  # share in which a group moves a second time
    neighbours: bool = False  # groups of which one sends to the other are to move at once


CAMPAIGNS = {
    "anything": Campaign(),
    "orders": Campaign(crashes=(0,), sources=(2,)),
    "late crashes": Campaign(
        roles=("old owner", "new owner", "upstream", "downstream"), crashes=(1,), after=(3, 4, 5, 6, 7, 8, 9), again=0.0
    ),
    "one group": Campaign(
        roles=("old owner", "upstream", "checkpoint host"), crashes=(1,), saves=(8,), groups=(1,), stages=(1,)
    ),
    "upstream dies": Campaign(roles=("upstream",), crashes=(1, 1, 2), groups=(1,), stages=(2,), meanwhile=0.8),
    "downstream dies": Campaign(roles=("downstream",), crashes=(1, 2), stages=(2,), groups=(1, 2)),
    "two crashes": Campaign(crashes=(2,), groups=(1, 2)),
    "both owners die": Campaign(roles=("old owner", "new owner"), crashes=(2,), after=(2, 3, 4, 5, 6, 7), groups=(1,)),
    "neighbours": Campaign(crashes=(0, 0, 1), sources=(2,), stages=(2,), groups=(1, 1, 2), neighbours=True),
}
"""Aims of schedules of chains. Their order and number are part of what a seed draws: further aims go elsewhere."""

SHAPED = {
    "anything": Campaign(sources=(1, 1, 2), groups=(1, 2)),
    "orders": Campaign(crashes=(0,), sources=(1, 2), groups=(1, 2)),
    "late crashes": Campaign(
        roles=("old owner", "new owner", "upstream", "downstream"),
        crashes=(1,),
        after=(3, 4, 5, 6, 7, 8, 9),
        sources=(1,),
        groups=(1, 2),
        again=0.0,
    ),
    "upstream dies": Campaign(roles=("upstream",), crashes=(1, 1, 2), sources=(1,), groups=(1,), meanwhile=0.8),
    "downstream dies": Campaign(roles=("downstream",), crashes=(1, 2), sources=(1,), groups=(1, 2)),
    "two crashes": Campaign(crashes=(2,), sources=(1,), groups=(1, 2)),
    "neighbours": Campaign(crashes=(0, 0, 1), sources=(1, 2), groups=(1, 1, 2), neighbours=True),
    "both owners die": Campaign(
        roles=("old owner", "new owner"), crashes=(2,), after=(2, 3, 4, 5, 6, 7), sources=(1,), groups=(1,)
    ),
}
"""Aims of schedules of the other shapes."""


def drawn(protocol: str, seed: int) -> Schedule:
    """Return the schedule of a seed: a random subset of what can happen to a chain, of the campaigns by turns."""
    draw = Random(f"{protocol} {seed}")
    aim = [*CAMPAIGNS.values()][seed % len(CAMPAIGNS)]
    job = random_job(draw.randrange(24), draw.choice(aim.sources), draw.choice(aim.stages), draw.choice(aim.groups))
    return _schedule(draw, protocol, seed, aim, job)


def drawn_shaped(protocol: str, seed: int) -> Schedule:
    """Return the schedule of a seed on another dataflow than a chain: of shapes, then of campaigns, by turns."""
    draw = Random(f"shapes {protocol} {seed}")
    turn, shape = divmod(seed, len(SHAPES))
    aim = [*SHAPED.values()][turn % len(SHAPED)]
    job = random_job(draw.randrange(24), draw.choice(aim.sources), 1, draw.choice(aim.groups), tuples=(4, 6, 10))
    return _schedule(draw, protocol, seed, aim, replace(job, shape=[*SHAPES][shape]))


def draw_of(shape: str) -> Draw:
    """Return the function that draws schedules of such jobs."""
    return drawn if shape == CHAIN else drawn_shaped


def _schedule(draw: Random, protocol: str, seed: int, aim: Campaign, job: Job) -> Schedule:
    """Return the rest of a schedule: moves, crashes and checkpoints."""
    job = replace(job, replicated=protocol == REPLICATE, works=protocol in REBALANCE_PROTOCOLS and seed % 3 == 0)
    if protocol == WITHOUT_CHECKPOINTS:
        job = replace(job, method=METHODS_WITHOUT[seed % len(METHODS_WITHOUT)], store="remote")
    groups = job.groups * len(job.stateful)

    def ask() -> Ask:
        return Ask(draw.randrange(groups), draw.randrange(job.hosts), draw.random() < 0.85, draw.choice([1, 1, 1, 2]))

    moves = [ask()]
    if draw.random() < aim.again:
        moves.append(replace(ask(), group=moves[0].group))  # the same group again
    if draw.random() < aim.again:
        moves.append(ask())  # another one, perhaps
    if aim.neighbours:
        moves.append(replace(ask(), group=(moves[0].group + job.groups) % groups))
    # CPAL has more steps, one behind a state that travels too, and a whole dataflow many more.
    pace = 6.0 if protocol in REBALANCE_PROTOCOLS else 1.8 if protocol.startswith("cpal") else 1.0
    pace = 3.0 if protocol == "replication" else pace
    crashes = [
        Crash(draw.choice(aim.roles), draw.randrange(4), round(draw.choice(aim.after) * pace), draw.choice([*REPAIRS]))
        for _ in range(draw.choice(aim.crashes))
    ]
    if job.method == "active-replication":
        crashes = crashes[:1]  # a second one may take both instances
    late = [draw.randrange(1, 9) if draw.random() < aim.meanwhile else 0 for _ in range(draw.choice(aim.saves))]
    early = Random(f"early {protocol} {seed}").choice(EARLY) if protocol in REBALANCE_PROTOCOLS else 0
    return Schedule(protocol, seed, job, tuple(moves), tuple(crashes), (0, *late), early=early)
