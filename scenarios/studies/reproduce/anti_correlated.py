"""The anti-correlated experiment at the level of rates: load shifts from one operator to another.

Two operators of ten key groups each on hosts 1 and 2, the input on host 0; others take 70 % of the CPU of hosts 0 and
2. Each second 1 % more of the work is that of operator 2, for 100 s. Source: Madsen and Zhou, CIKM 2015, section 7, as
reconstructed for "checkpoint-assisted" in docs/explanation/claims.md: with a threshold of 70 % only host 1 can take
anything.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from models.correlation import pearson
from models.planning.checkpoint_allocation import allocation_from_correlation
from optimizer.checkpoint_allocation import solve
from scenarios.studies.reproduce.airline import MOVES, Outcome
from scenarios.studies.reproduce.flight_rates import WINDOW_S
from sim.scaling.adaptation import Group, Host, Rules, balance

SECONDS, GROUPS, NODES = 100, 10, 3
OUTSIDE = (0.70, 0.0, 0.70)
Allocation = Literal["optimised", "even", "worst"]


def loads(work: float) -> np.ndarray:
    """Load [cores] of the groups of operator 1, then 2, in each second, (2 GROUPS, SECONDS); `work` in all."""
    # The share of the work that has moved to operator 2 by the end of each second.
    second = np.arange(1, SECONDS + 1) / SECONDS
    one, other = np.tile((1 - second) * work / GROUPS, (GROUPS, 1)), np.tile(second * work / GROUPS, (GROUPS, 1))
    return np.vstack([one, other])


def run(allocation: Allocation, work: float = 0.4, theta: float = 0.70) -> Outcome:
    """Return the manager's moves with one of the allocations; `work` is that of both operators together [cores]."""
    load = loads(work)
    host = np.repeat([1, 2], GROUPS)
    checkpoint_host = _checkpoint_hosts(allocation, load, host)
    totals = np.zeros(5, np.int64)
    hosts = [Host(1.0, outside=share) for share in OUTSIDE]
    for end in range(WINDOW_S, SECONDS + 1, WINDOW_S):
        now = load[:, end - WINDOW_S : end].mean(axis=1)
        groups = [Group(k, int(host[k]), float(now[k]), int(checkpoint_host[k])) for k in range(len(host))]
        made = balance(hosts, groups, Rules(high=theta, moves=MOVES))
        for move in made.moves:
            host[move.group], checkpoint_host[move.group] = move.target, move.origin
        assisted = sum(move.assisted for move in made.moves)
        totals += (made.groups, made.usable, assisted, len(made.moves) - assisted, len(made.unplaced))
    return Outcome(*totals.tolist())


def _checkpoint_hosts(allocation: Allocation, load: np.ndarray, host: np.ndarray) -> np.ndarray:
    """Return the solver's hosts for the whole shift; or operator 2 on hosts 0 and 1 in turn, or all on host 0."""
    if allocation == "optimised":
        problem = allocation_from_correlation(pearson(load), load.mean(axis=1), host, NODES)
        plan = solve(problem, method="exact")
        assert plan.assignment is not None
        return plan.assignment.copy()
    second = np.arange(GROUPS) % 2 if allocation == "even" else np.zeros(GROUPS, np.int64)
    return np.concatenate([np.full(GROUPS, 2), second])
