"""Evaluate checkpoints on rates alone: how many are usable, and how many migrations they assist.

Every window is looked at by itself, from the same placement: steps 1 to 4 of "Adaptation manager" on the page
"Checkpoint-assisted migration and checkpoint allocation". Nothing is carried from one window to the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.checked_arrays import CheckedArrays, FloatArray, IntArray
from models.errors import raise_if_any


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
