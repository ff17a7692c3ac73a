"""Usable checkpoints, on rates alone: how many are, how many migrations they assist, how likely one is to be usable.

Every window is looked at by itself, from the same placement, by the rules of the adaptation manager ("Balance" in
docs/explanation/elasticity.md). Nothing is carried from one window to the next.

An estimate says how likely a checkpoint is to be usable on each host when its key group needs it. A checkpoint is
usable when its group's host is overloaded and the group would fit on the checkpoint's host. That is judged over futures
made of measured windows: the total load goes up by a step, each key group follows along its regression on the total,
and keeps what the total does not explain of some measured window. The steps go from 0.7 of the one that overloads the
first host to 1.3 of the one that overloads the ninth of ten hosts, as far as these follow the total at all, and never
below the least total that was measured: a host that is overloaded already, by others perhaps, would let the total fall
to nothing. So speeds, other load, thresholds and sizes count, which a correlation does not see. Source:
docs/explanation/expected-usable.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.checked_arrays import CheckedArrays, FloatArray, IntArray
from models.errors import raise_if_any
from models.planning.checkpoint_allocation import CheckpointAllocation


@dataclass(frozen=True)
class UsableShares:
    """Counts (windows,) and the shares they make; a share of nothing is None.

    at_risk: key groups on overloaded nodes; usable: of them, those whose checkpoint's node has room for
    them. assisted, direct: moves that one round of the manager makes; stuck: nodes that it leaves overloaded
    though moves were left.
    """

    at_risk: IntArray
    usable: IntArray
    assisted: IntArray
    direct: IntArray
    stuck: IntArray

    @property
    def usable_share(self) -> float | None:
        """The average over the windows, each with the weight of its groups on overloaded nodes."""
        return _share(self.usable, self.at_risk)

    @property
    def assisted_share(self) -> float | None:
        """Assisted moves of all moves of all windows."""
        return _share(self.assisted, self.assisted + self.direct)


@dataclass(frozen=True)
class _Cluster:
    """Hosts and checkpoints of groups (G,), load by others and speed of nodes (N,), threshold, most moves per node."""

    host: IntArray
    checkpoint: IntArray
    outside: FloatArray
    speed: FloatArray
    theta: float
    most_moves: int


def usable_shares(
    load: npt.ArrayLike,
    host: npt.ArrayLike,
    checkpoint_host: npt.ArrayLike,
    *,
    outside: npt.ArrayLike,
    speed: npt.ArrayLike,
    theta: float = 0.85,
    moves_per_node: int = 4,
) -> UsableShares:
    """Return the shares for loads (groups, windows) in units of speed.

    host, checkpoint_host (groups,): nodes, -1 for a group without a checkpoint; outside (nodes,): utilisation
    by others; speed (nodes,): load that fills a node. With loads in utilisation speed is 1. A node is
    overloaded above theta. Raises InputError with all faults, among them a checkpoint on its group's own
    node.
    """
    check = CheckedArrays()
    loads = check.floats("load", load, (None, None), low=0.0)
    speeds = check.floats("speed", speed, (None,), low=0.0)
    groups, nodes = (None if loads is None else len(loads)), (None if speeds is None else len(speeds))
    others = check.floats("outside", outside, (nodes,), low=0.0)
    at = check.indices("host", host, (groups,), (nodes,))
    # Indices are checked from 0: shifted by one, -1 (no checkpoint) is valid.
    shifted = np.asarray(checkpoint_host) + 1 if np.ndim(checkpoint_host) else checkpoint_host
    held = check.indices("checkpoint_host + 1", shifted, (groups,), (None if nodes is None else nodes + 1,))
    if not theta > 0:
        check.add("theta", theta, "must be positive")
    if isinstance(moves_per_node, bool) or not isinstance(moves_per_node, int) or moves_per_node < 0:
        check.add("moves_per_node", moves_per_node, "must be a whole number, at least 0")
    if speeds is not None and (speeds <= 0).any():
        check.add("speed", float(speeds.min()), "must be positive")
    if at is not None and held is not None and (at == held - 1).any():
        group = int(np.argmax(at == held - 1))
        check.add(f"checkpoint_host[{group}]", int(at[group]), "must be another node than the group's own")
    raise_if_any(check.faults)
    assert loads is not None and at is not None and held is not None and others is not None and speeds is not None
    return _shares(loads, _Cluster(at, held - 1, others, speeds, theta, moves_per_node))


def _shares(load: FloatArray, cluster: _Cluster) -> UsableShares:
    """Return the counts of all windows; windows are independent of each other."""
    # 1. the utilisation of every node in every window
    sums = np.zeros((len(cluster.speed), load.shape[1]))
    np.add.at(sums, cluster.host, load)
    util = cluster.outside[:, None] + sums / cluster.speed[:, None]
    # 2. which groups are on overloaded nodes, and which of them fit where their checkpoint is
    at_risk = util[cluster.host] > cluster.theta
    # -1 would index the last node; the last factor of `usable` drops these groups.
    there = np.maximum(cluster.checkpoint, 0)
    fits = util[there] + load / cluster.speed[there][:, None] <= cluster.theta
    usable = at_risk & fits & (cluster.checkpoint >= 0)[:, None]
    moves = np.zeros((3, load.shape[1]), dtype=np.int64)
    for window in np.flatnonzero(at_risk.any(axis=0)):
        # A copy: every window starts from the measured placement.
        moves[:, window] = _round(load[:, window], util[:, window].copy(), cluster)
    return UsableShares(at_risk.sum(axis=0), usable.sum(axis=0), *moves)


def _round(load: FloatArray, util: FloatArray, cluster: _Cluster) -> tuple[int, int, int]:
    """Return assisted moves, direct moves and nodes left overloaded of one round. Changes `util`."""
    assisted = direct = stuck = 0
    over = np.flatnonzero(util > cluster.theta)
    # 3. each overloaded node, highest utilisation first
    for node in over[np.argsort(-util[over], kind="stable")]:
        # Groups that were on the node at the beginning: those that come in this round stay.
        resting = [int(g) for g in np.flatnonzero(cluster.host == node)]
        left = cluster.most_moves
        while util[node] > cluster.theta and left > 0:
            move = _first_move(resting, load, util, cluster)
            if move is None:
                stuck += 1
                break
            group, target = move
            assisted += target == cluster.checkpoint[group]
            direct += target != cluster.checkpoint[group]
            util[node] -= load[group] / cluster.speed[node]
            util[target] += load[group] / cluster.speed[target]
            resting.remove(group)
            left -= 1
    return int(assisted), int(direct), stuck


def _first_move(resting: list[int], load: FloatArray, util: FloatArray, cluster: _Cluster) -> tuple[int, int] | None:
    """Return the first group that fits on its checkpoint's node, or on the least loaded, and that node: step 4."""
    if not resting:
        return None
    node = cluster.host[resting[0]]
    excess = (util[node] - cluster.theta) * cluster.speed[node]
    # Those whose move is enough by rising load, then the rest by falling load.
    order = sorted(resting, key=lambda g: (load[g] < excess, load[g] if load[g] >= excess else -load[g], g))
    # The first of equals, so that the round is the same everywhere.
    least = int(np.argmin(util))
    for group in order:
        for target in (int(cluster.checkpoint[group]), least):
            fits = target >= 0 and util[target] + load[group] / cluster.speed[target] <= cluster.theta
            if fits and target != node:
                return group, target
    return None


def _share(part: IntArray, whole: IntArray) -> float | None:
    total = int(whole.sum())
    return int(part.sum()) / total if total else None


EXPECTED = "expected-usable"  # the method that minimises this
FUTURES = 200
_FIRST, _LAST, _SHARE = 0.7, 1.3, 0.9
_GREATEST = 2.0  # a host that is not overloaded by this many times the total does not follow it


@dataclass(frozen=True)
class Cluster:
    """Node of each key group (G,); speed, and the share that others take, of each node (N,); the threshold."""

    host: IntArray
    speed: FloatArray
    outside: FloatArray
    theta: float

    def per_node(self, values: FloatArray) -> FloatArray:
        """Return values of key groups (G,) added up by node and in units of its speed, (N,)."""
        sums: FloatArray = np.bincount(self.host, weights=values, minlength=len(self.speed)) / self.speed
        return sums


def expected_allocation(
    load: npt.ArrayLike,
    host: npt.ArrayLike,
    *,
    speed: npt.ArrayLike,
    outside: npt.ArrayLike,
    theta: float,
    seed: int = 0,
    futures: int = FUTURES,
    group: tuple[str | int, ...] | None = None,
) -> CheckpointAllocation:
    """Return the problem that minimises the expected number of key groups in need without a usable checkpoint.

    load (G, windows) in units of speed; host (G,); speed, outside (N,). Its cost (G, N) is the chance that the group's
    host is overloaded and the group would not fit on the node: a whole number of futures over their number, so that
    nodes that are equally good cost exactly the same. Raises InputError.
    """
    check = CheckedArrays()
    loads = check.floats("load", load, (None, None), low=0.0)
    speeds = check.floats("speed", speed, (None,), low=0.0)
    groups, nodes = (None if loads is None else len(loads)), (None if speeds is None else len(speeds))
    others = check.floats("outside", outside, (nodes,), low=0.0)
    at = check.indices("host", host, (groups,), (nodes,))
    if not theta > 0:
        check.add("theta", theta, "must be positive")
    if futures < 1:
        check.add("futures", futures, "must be at least 1")
    if loads is not None and loads.shape[1] < 2:
        check.add("load", loads.shape, "must have at least two windows")
    if speeds is not None and (speeds <= 0).any():
        check.add("speed", float(speeds.min()), "must be positive")
    raise_if_any(check.faults)
    assert loads is not None and speeds is not None and others is not None and at is not None
    need, usable = chances(loads, Cluster(at, speeds, others, theta), np.random.default_rng(seed), futures)
    return CheckpointAllocation(
        cost=(need[:, None] - usable) / futures,
        load=loads.mean(axis=1),
        forbidden=np.column_stack([np.arange(len(loads)), at]),
        group=group,
    )


def chances(
    load: FloatArray, cluster: Cluster, rng: np.random.Generator, futures: int
) -> tuple[FloatArray, FloatArray]:
    """Return in how many futures each group's host is overloaded (G,), and it also fits on each node (G, N)."""
    host, theta, groups = cluster.host, cluster.theta, len(load)
    need, usable = np.zeros(groups), np.zeros((groups, len(cluster.speed)))
    for future in _futures(load, cluster, rng, futures).T:
        # One future at a time: all at once would take (futures, G, N) numbers.
        share = cluster.outside + cluster.per_node(future)
        over = share[host] > theta
        need += over
        usable += over[:, None] & (share[None, :] + future[:, None] / cluster.speed[None, :] <= theta)
    # Its own host is no place for a checkpoint, though `forbidden` says so as well.
    usable[np.arange(groups), host] = 0.0
    return need, usable


def _futures(load: FloatArray, cluster: Cluster, rng: np.random.Generator, futures: int) -> FloatArray:
    """Return loads (G, futures): mean, a step of the total along each group's regression, and a window's residual."""
    mean, total = load.mean(axis=1), load.sum(axis=0)
    around = total - total.mean()
    square = float(around @ around)
    # Least squares on the total; where the total never changed each group has its share of a step.
    slope = (load - mean[:, None]) @ around / square if square > 0 else mean / max(float(mean.sum()), 1e-300)
    rest = load - mean[:, None] - slope[:, None] * around[None, :]
    low, high = _steps(mean, slope, cluster, total)
    # Evenly spread rather than drawn: less noise for the same number of futures. Only the residuals are drawn.
    steps = low + (high - low) * (np.arange(futures) + 0.5) / futures
    windows = rng.integers(load.shape[1], size=futures)
    # One window for all groups of a future: residuals of different groups keep their correlation.
    made: FloatArray = np.maximum(0.0, mean[:, None] + slope[:, None] * steps[None, :] + rest[:, windows])
    return made


def _steps(mean: FloatArray, slope: FloatArray, cluster: Cluster, totals: FloatArray) -> tuple[float, float]:
    """Return the least and the greatest step of the total load, of which `totals` (windows,) were measured."""
    total = float(totals.mean())
    room = cluster.theta - cluster.outside - cluster.per_node(mean)
    rise = cluster.per_node(slope)
    overloads = np.sort([r / s for r, s in zip(room, rise, strict=True) if s > 0 and r / s <= _GREATEST * total])
    if not overloads.size:
        return 0.0, _GREATEST * total
    first, last = float(overloads[0]), float(overloads[math.ceil(_SHARE * overloads.size) - 1])
    least = _FIRST * first if first > 0 else max(first, float(totals.min()) - total)
    return least, max(_LAST * last, 0.0)
