"""The costs of checkpoint allocation from the correlation of key-group loads.

c[j, n] = l[j] * mean over the key groups h on node n of r(g(j), h): a checkpoint is cheap on a node whose
key groups have spare capacity when its own key group needs it. [Madsen and Zhou, CIKM 2015] leave open how pairs
are combined: here it is by their mean. An empty node and a constant series have correlation 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from models.checked_arrays import CheckedArrays, FloatArray
from models.errors import raise_if_any
from models.planning.checkpoint_allocation import CheckpointAllocation


def node_correlation(
    correlation: FloatArray,
    host: Any,
    n_nodes: int,
    *,
    zero_below: float = 0.0,
    tie_band: float = 0.0,
) -> FloatArray:
    """Return the mean correlation of each key group with the key groups on each node, (G, N).

    correlation (G, G) of the load series; host (G,) node of each key group. Pairs with |r| < zero_below
    count as 0 (noise). With tie_band > 0 every node within best + tie_band counts as exactly the best, so
    that the tie rule "lowest checkpoint load" acts; best = the smallest value away from home.
    """
    check = CheckedArrays()
    r = check.floats("correlation", correlation, (None, None))
    groups = None if r is None else len(r)
    at = check.indices("host", host, (groups,), (n_nodes,))
    if r is not None and r.shape[0] != r.shape[1]:
        check.add("correlation", r.shape, "must be square: one row and one column per key group")
    if r is not None and (np.abs(r) > 1 + 1e-9).any():
        check.add("correlation", float(r.flat[int(np.argmax(np.abs(r)))]), "must lie between -1 and 1")
    for name, value in (("zero_below", zero_below), ("tie_band", tie_band)):
        if not 0 <= value < math.inf:
            check.add(name, value, "must be at least 0")
    raise_if_any(check.faults)
    assert r is not None and at is not None
    # Noise counts as none: small correlations of short series would decide by chance.
    r = np.where(np.abs(r) < zero_below, 0.0, r)
    counts = np.bincount(at, minlength=n_nodes)
    # Sums by node over the key groups there; a node without any has correlation 0 with everything.
    sums = np.zeros((n_nodes, len(r)))
    np.add.at(sums, at, r.T)
    rho: FloatArray = (sums / np.maximum(counts, 1)[:, None]).T
    return _tied(rho, at, tie_band) if tie_band > 0 and n_nodes > 1 else rho


def allocation_from_correlation(
    correlation: FloatArray,
    load: FloatArray,
    host: Any,
    n_nodes: int,
    *,
    copies: int = 1,
    kappa: float = math.inf,
    group: Any = None,
    zero_below: float = 0.0,
    tie_band: float = 0.0,
) -> CheckpointAllocation:
    """Return the allocation problem of all key groups' checkpoints, home nodes forbidden.

    load (G,) of the key groups; host (G,) their nodes; `copies` checkpoints per key group on different
    nodes, the copies of key group g being rows g * copies .. g * copies + copies - 1. With a finite kappa
    every node may store at most (1 + kappa) * copies * sum(load) / N (constraint 2). group (G,): the
    operator of each key group, for `even`. Raises InputError.
    """
    check = CheckedArrays()
    loads = check.floats("load", load, (len(correlation),), low=0.0)
    if isinstance(copies, bool) or not isinstance(copies, int) or copies < 1:
        check.add("copies", copies, "must be a whole number, at least 1")
    if not kappa >= 0:
        check.add("kappa", kappa, "must be at least 0")
    raise_if_any(check.faults)
    assert loads is not None
    rho = node_correlation(correlation, host, n_nodes, zero_below=zero_below, tie_band=tie_band)
    # One row for each copy: copies of a key group have equal costs, and must be on different nodes.
    row = np.repeat(np.arange(len(rho)), copies)
    homes = np.asarray(host, dtype=np.int64)[row]
    # (1 + kappa) times the mean load of a node, over all copies.
    capacity = np.full(n_nodes, (1 + kappa) * copies * math.fsum(loads.tolist()) / n_nodes)
    return CheckpointAllocation(
        cost=(rho * loads[:, None])[row],
        load=loads[row],
        capacity=capacity if math.isfinite(kappa) else None,
        forbidden=np.column_stack([np.arange(len(row)), homes]),
        anti_affinity=_pairs_of_copies(len(rho), copies),
        group=None if group is None else tuple(np.asarray(group)[row].tolist()),
    )


def _tied(rho: FloatArray, home: Any, band: float) -> FloatArray:
    # The home node is forbidden for the checkpoint, so it must not be the best one.
    away = rho.copy()
    away[np.arange(len(rho)), home] = np.inf
    best = away.min(axis=1, keepdims=True)
    return np.where(away <= best + band, best, rho)


def _pairs_of_copies(groups: int, copies: int) -> Any:
    a, b = np.triu_indices(copies, k=1)
    first = np.arange(groups)[:, None] * copies
    return np.stack([(first + a).ravel(), (first + b).ravel()], axis=1)
