"""Instances of checkpoint allocation by stated rules and seeds: what `plan_reach.py` measures on.

`random_correlations`: rho[j, n] uniform in [-1, 1], load lognormal(0, 0.5), cost = load * rho.
`factor_correlations`: the load of key groups and nodes follows four factors, rho is the cosine of their weights with
noise of 0.1: rows are alike, and some nodes are everybody's choice.
`mean_correlations`: the paper's own costs: rho[j, n] is the mean correlation of key group j with those on n,
over 60 windows of series that follow four factors (half of the variance); load lognormal(0, 1), at most half a mean
load per node.
In all three the checkpoint's own node, drawn at random, is forbidden; capacity is (1 + kappa) * mean load per node.

`assignment_c`, `_d`, `_e`: the published rules of the generalised assignment problem (Chu and Beasley 1997; type E:
Laguna, Kelly, Gonzalez-Velarde and Glover 1995), m nodes and n checkpoints, integers, load per (checkpoint, node):

    C  cost uniform 10 .. 50,  load uniform 5 .. 25,   capacity 0.8 * sum_j load[j, n] / m
    D  load uniform 1 .. 100,  cost 111 - load + uniform -10 .. 10,  the same capacity
    E  load 1 - 10 log(u),  cost 1000 / load - 10 u' with u, u' uniform in (0, 1],  the same capacity
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from models.planning.checkpoint_allocation import CheckpointAllocation


def random_correlations(
    nodes: int, checkpoints: int, kappa: float, seed: int, *, equal: bool = False, single: bool = False
) -> CheckpointAllocation:
    """Costs load * rho with independent rho; `equal` loads of 1; `single`: in float32."""
    random = np.random.default_rng(seed)
    load = _loads(random, checkpoints, equal)
    kind = np.float32 if single else np.float64
    cost = np.empty((checkpoints, nodes), dtype=kind)
    for first in range(0, checkpoints, 1000):
        rows = slice(first, first + 1000)
        cost[rows] = random.uniform(-1, 1, cost[rows].shape) * load[rows, None]
    return _problem(random, cost, load, kappa)


def factor_correlations(
    nodes: int, checkpoints: int, kappa: float, seed: int, *, equal: bool = False, single: bool = False
) -> CheckpointAllocation:
    """Costs load * rho with rho from four factors that key groups and nodes share."""
    random = np.random.default_rng(seed)
    load = _loads(random, checkpoints, equal)
    groups, hosts = random.normal(size=(checkpoints, 4)), random.normal(size=(nodes, 4))
    groups /= np.linalg.norm(groups, axis=1, keepdims=True)
    hosts /= np.linalg.norm(hosts, axis=1, keepdims=True)
    cost = np.empty((checkpoints, nodes), dtype=np.float32 if single else np.float64)
    for first in range(0, checkpoints, 1000):
        rows = slice(first, first + 1000)
        rho = 0.8 * groups[rows] @ hosts.T + 0.1 * random.normal(size=cost[rows].shape)
        cost[rows] = np.clip(rho, -1, 1) * load[rows, None]
    return _problem(random, cost, load, kappa)


def mean_correlations(nodes: int, checkpoints: int, kappa: float, seed: int) -> CheckpointAllocation:
    """Costs load * rho with rho the mean correlation with the key groups of a node, as the paper has it."""
    random = np.random.default_rng(seed)
    load = random.lognormal(0, 1, checkpoints)
    load = np.minimum(load, load.sum() / nodes / 2)
    home = np.arange(checkpoints) % nodes
    series = random.normal(size=(checkpoints, 4)) @ random.normal(size=(4, 60)) / 2
    series += random.normal(size=series.shape)
    series -= series.mean(axis=1, keepdims=True)
    series /= np.linalg.norm(series, axis=1, keepdims=True)
    means = np.stack([series[home == n].mean(axis=0) for n in range(nodes)])
    return _with_homes(load[:, None] * (series @ means.T), load, kappa, home)


def assignment(kind: str, nodes: int, checkpoints: int, seed: int) -> CheckpointAllocation:
    """An instance of the generalised assignment problem of type C, D or E."""
    random = np.random.default_rng(seed)
    cost, load = GENERALISED[kind](random, (checkpoints, nodes))
    return CheckpointAllocation(cost=cost, load=load, capacity=np.floor(0.8 * load.sum(axis=0) / nodes))


def _type_c(random: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    return random.integers(10, 51, shape) * 1.0, random.integers(5, 26, shape) * 1.0


def _type_d(random: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    load = random.integers(1, 101, shape) * 1.0
    return 111 - load + random.integers(-10, 11, shape), load


def _type_e(random: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    load = np.round(1 - 10 * np.log(1 - random.random(shape)))
    return np.round(1000 / load - 10 * (1 - random.random(shape))), load


GENERALISED: dict[str, Callable[[np.random.Generator, tuple[int, int]], tuple[np.ndarray, np.ndarray]]] = {
    "C": _type_c,
    "D": _type_d,
    "E": _type_e,
}


def _loads(random: np.random.Generator, checkpoints: int, equal: bool) -> np.ndarray:
    drawn = random.lognormal(0, 0.5, checkpoints)
    return np.ones(checkpoints) if equal else drawn


def _problem(random: np.random.Generator, cost: np.ndarray, load: np.ndarray, kappa: float) -> CheckpointAllocation:
    return _with_homes(cost, load, kappa, random.integers(0, cost.shape[1], len(load)))


def _with_homes(cost: np.ndarray, load: np.ndarray, kappa: float, home: np.ndarray) -> CheckpointAllocation:
    nodes = cost.shape[1]
    cost.setflags(write=False)
    capacity = None if math.isinf(kappa) else np.full(nodes, (1 + kappa) * load.sum() / nodes)
    forbidden = np.column_stack([np.arange(len(load)), home])
    return CheckpointAllocation(cost=cost, load=load, capacity=capacity, forbidden=forbidden)
