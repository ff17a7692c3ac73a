"""The airline experiment at the level of rates: how many moves find a checkpoint where they go.

Statistics of the first 15 of 48 minutes decide who holds the checkpoints; then the adaptation manager
(`sim.scaling.adaptation`) looks at every window of 8 s and moves key groups off overloaded hosts. After a move the
checkpoint is where the group was. Source: Madsen and Zhou, CIKM 2015, section 7, as reconstructed for
"checkpoint-assisted" in docs/explanation/claims.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.usable import EXPECTED, expected_allocation
from models.correlation import pearson
from models.planning.checkpoint_allocation import CheckpointAllocation, CheckpointPlan, allocation_from_correlation
from models.scenario.inputs import compare
from optimizer.checkpoint_allocation.ties import level_ties
from scenarios.planning.checkpoints import solve_by
from scenarios.planning.maintenance import TIE_BAND
from scenarios.studies.reproduce.flight_rates import (
    SAMPLERS,
    TRAINING_S,
    WINDOW_S,
    WORKERS,
    Airline,
    Flights,
    FloatArray,
    IntArray,
    homes,
    loads,
    operators,
)
from sim.scaling.adaptation import Group, Host, Prefer, Rules, balance

TRAINING = TRAINING_S // WINDOW_S
_RESTS = 2  # windows that a group that was moved is left alone
MOVES = 4  # per host and round
NODES = WORKERS + SAMPLERS
NOISE = 0.2  # correlations below this count as none: statistics of 112 windows have as much by chance


@dataclass(frozen=True)
class Outcome:
    """The manager's moves in one run."""

    groups: int  # on overloaded hosts, summed over rounds
    usable: int  # of these, with a checkpoint where they would fit
    assisted: int
    direct: int
    unplaced: int
    maintained: int = 0  # checkpoints that moved because a fresh allocation was better

    @property
    def share(self) -> float:
        """Assisted moves of all moves."""
        return self.assisted / max(1, self.assisted + self.direct)

    @property
    def usable_share(self) -> float:
        """Usable checkpoints, each round by its groups on overloaded hosts."""
        return self.usable / max(1, self.groups)


@dataclass(frozen=True)
class Upkeep:
    """Maintenance by theta, a share of the fresh score: the optimised allocation once more, every so many seconds.

    From all windows so far, with correlations below `zero_below` as none.
    """

    theta: float
    every_s: float = 60.0
    zero_below: float = NOISE


@dataclass(frozen=True)
class Training:
    """The knowledge of a policy: loads (groups, windows) before the decision, hosts of groups, and the threshold."""

    load: FloatArray
    host: IntArray
    operator: IntArray
    theta: float


def problem(training: Training, zero_below: float = 0.0, tie_band: float = 0.0) -> CheckpointAllocation:
    """Return the paper's allocation problem with kappa = infinity."""
    return allocation_from_correlation(
        pearson(training.load),
        training.load.mean(axis=1),
        training.host,
        NODES,
        group=[str(one) for one in training.operator],
        zero_below=zero_below,
        tie_band=tie_band,
    )


def _solved(method: str, zero_below: float = 0.0) -> Policy:
    """Return the paper's costs, by a method."""
    return lambda training, seed: _checkpoint_hosts(solve_by(method, problem(training, zero_below), seed=seed))


def _checkpoint_hosts(plan: CheckpointPlan) -> IntArray:
    assert plan.assignment is not None  # with kappa = infinity every group has somewhere to go
    return plan.assignment


def least_used(training: Training, seed: int) -> IntArray:
    """Return a control that knows nothing of correlation: the four least used hosts, balanced by load."""
    used = np.bincount(training.host, weights=training.load.mean(axis=1), minlength=NODES)
    # Stable sorts throughout: ties are resolved in the same way on every machine.
    few = np.argsort(used, kind="stable")[:SAMPLERS]
    held = np.zeros(NODES)
    found = np.empty(len(training.host), np.int64)
    mean = training.load.mean(axis=1)
    for group in np.argsort(-mean, kind="stable"):
        others = [node for node in few if node != training.host[group]]
        found[group] = min(others, key=lambda node: (held[node], node))
        held[found[group]] += mean[group]
    return found


def tie_band(training: Training, seed: int) -> IntArray:
    """Return the plan by the paper's correlations; of hosts within TIE_BAND of the best the least loaded is taken."""
    made = problem(training, tie_band=TIE_BAND)
    return level_ties(made, _checkpoint_hosts(solve_by("exact", made)))


def expected(training: Training, seed: int) -> IntArray:
    """Return the plan by another objective: least expected key groups in need without a usable checkpoint."""
    made = expected_allocation(
        training.load,
        training.host,
        speed=np.ones(NODES),
        outside=np.zeros(NODES),
        theta=training.theta,
        seed=seed,
    )
    return _checkpoint_hosts(solve_by(EXPECTED, made))


Policy = Callable[[Training, int], IntArray]

POLICIES: dict[str, Policy] = {
    "baseline": _solved("baseline"),
    "even": _solved("even"),
    "optimised": _solved("exact", zero_below=NOISE),
    "literal": _solved("exact"),
    "least-used": least_used,
    "tie-band": tie_band,
    "expected-usable": expected,
}


def run(
    setting: Airline,
    load: FloatArray,
    policy: Policy,
    seed: int,
    prefer: Prefer = "sufficient",
    upkeep: Upkeep | None = None,
) -> Outcome:
    """Return the manager's moves under the policy's allocation, for loads as `loads` gives them.

    With `upkeep` the allocation is maintained; a checkpoint that moves is at once where it goes to.
    """
    host = homes(setting)
    # Copies: a policy may keep what it gets, and both arrays change below.
    checkpoint_host = policy(Training(load[:, :TRAINING], host.copy(), operators(setting), setting.theta), seed).copy()
    hosts = [Host(1.0)] * NODES
    rules = Rules(high=setting.theta, moves=MOVES, prefer=prefer)
    rested_at = np.zeros(len(host), np.int64)
    totals = np.zeros(6, np.int64)
    for window in range(TRAINING, load.shape[1]):
        now = load[:, window]
        if upkeep is not None and _is_due(window, upkeep):
            totals[5] += _maintain(Training(load[:, :window], host, operators(setting), 0.0), checkpoint_host, upkeep)
        # Most windows have no overloaded host, and so nothing to decide.
        if np.bincount(host, weights=now, minlength=NODES).max() <= setting.theta:
            continue
        groups = [
            Group(k, int(host[k]), float(now[k]), int(checkpoint_host[k]), bool(rested_at[k] <= window))
            for k in range(len(host))
        ]
        made = balance(hosts, groups, rules)
        for move in made.moves:
            # The state stays behind at the origin, and is the checkpoint from now on.
            host[move.group], checkpoint_host[move.group] = move.target, move.origin
            # Without a rest a group near the threshold would go to and fro in every window.
            rested_at[move.group] = window + _RESTS
        assisted = sum(move.assisted for move in made.moves)
        totals += (made.groups, made.usable, assisted, len(made.moves) - assisted, len(made.unplaced), 0)
    return Outcome(*totals.tolist())


def _is_due(window: int, upkeep: Upkeep) -> bool:
    """Return whether a multiple of the period, counted from the first allocation, came with the begin of the window."""
    before_s, now_s = (WINDOW_S * (one - TRAINING) for one in (window - 1, window))
    return now_s > 0 and now_s // upkeep.every_s > before_s // upkeep.every_s


def _maintain(seen: Training, checkpoint_host: IntArray, upkeep: Upkeep) -> int:
    """Move checkpoints until the score is near the fresh one; how many."""
    made = problem(seen, upkeep.zero_below)
    found = compare(made.cost, checkpoint_host, _checkpoint_hosts(solve_by("exact", made)), upkeep.theta)
    for move in found.moves:
        checkpoint_host[move.checkpoint] = move.target
    return len(found.moves)


def experiment(
    setting: Airline,
    year: Flights,
    policies: dict[str, Policy],
    seeds: range,
    prefer: Prefer = "sufficient",
    upkeep: Upkeep | None = None,
) -> dict[str, list[Outcome]]:
    """Return policy -> one outcome for each seed, all policies with the same loads."""
    found: dict[str, list[Outcome]] = {name: [] for name in policies}
    for seed in seeds:
        # Once for all policies: they are compared on common random numbers.
        load = loads(setting, year, seed)
        for name, policy in policies.items():
            found[name].append(run(setting, load, policy, seed, prefer, upkeep))
    return found
