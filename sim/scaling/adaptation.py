"""Decisions of the adaptation manager: pure functions from loads to moves, one round at a time.

Source: the manager of Madsen and Zhou (CIKM 2015), as reconstructed under "Balance" in docs/explanation/elasticity.md.
Loads are in cores of speed 1, utilisations in shares of the CPU of a host. Nothing here knows of time, of a data plane
or of names.

All functions are deterministic: hosts and groups come in the order of their numbers, and ties go to the lower one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

_DIGITS = 9  # sums of the same loads in another order are the same utilisation
_TIE = 10.0**-_DIGITS  # as a margin: a host exactly at a limit is neither overloaded nor too full
ANYWHERE = -1  # in place of a checkpoint host: every host can have the checkpoint

Prefer = Literal["sufficient", "quarter", "usable"]


@dataclass(frozen=True)
class Host:
    """A host as the manager sees it.

    `capacity`: cores times speed. `outside`: share of the CPU that others take, 0 to 1. `fixed`: load that cannot move
    [cores]. `member`: whether its load is checked. `accepts_work`: whether key groups may move there.
    """

    capacity: float
    outside: float = 0.0
    fixed: float = 0.0
    member: bool = True
    accepts_work: bool = True


@dataclass(frozen=True)
class Group:
    """A key group that can move, and where it is.

    `number`: its identity. `host`: index of its host, or of the one that it is moving to. `load` [cores of speed 1].
    `checkpoint_host`: host of its newest checkpoint; None if there is none, ANYWHERE where checkpoints are in a remote
    store, which every host can fetch them from. `rested`: whether it may move now.
    """

    number: int
    host: int
    load: float
    checkpoint_host: int | None = None
    rested: bool = True


@dataclass(frozen=True)
class Rules:
    """Thresholds of a round, as shares of a host's CPU.

    `high`: above it a host is overloaded, and none is filled above it. `low`: below it a host may be emptied. `moves`:
    how many key groups may leave one host. `prefer`: how many groups are tried at the host of their checkpoint before
    any is moved elsewhere: the first one ("sufficient"), a quarter of those on the host, or all ("usable").
    """

    high: float
    low: float = 0.0
    moves: int = 4
    prefer: Prefer = "sufficient"


@dataclass(frozen=True)
class Proposal:
    """A proposed move of a key group.

    `assisted`: the target has its checkpoint, so only what changed since has to be replayed. `origin_share`,
    `target_share`: utilisations before the move.
    """

    group: int
    origin: int
    target: int
    assisted: bool
    origin_share: float
    target_share: float


@dataclass(frozen=True)
class Round:
    """The outcome of one check.

    `overloaded`: hosts above the threshold, most utilised first (or the host that `drain` empties). `groups`: number of
    key groups on them before any move; `usable` of these would fit on the host of their checkpoint. `moves`: in the
    order to carry them out. `unplaced`: hosts that stay overloaded because none of their rested groups fits anywhere.
    """

    overloaded: tuple[int, ...] = ()
    groups: int = 0
    usable: int = 0
    moves: tuple[Proposal, ...] = ()
    unplaced: tuple[int, ...] = ()


@dataclass
class _TentativePlacement:
    """Utilisations and places while a round is being decided: a move counts at both hosts at once."""

    hosts: Sequence[Host]
    groups: dict[int, Group]
    limit: float
    share: list[float] = field(default_factory=list)

    def fits(self, group: Group, host: int) -> bool:
        """Return True if the group fits: the host accepts work and stays within the limit with it."""
        one = self.hosts[host]
        return (
            one.accepts_work
            and host != group.host
            and self.share[host] + group.load / one.capacity <= self.limit + _TIE
        )

    def helper(self, group: Group) -> int | None:
        """Return the host of the group's checkpoint if the group fits there; of all hosts the least loaded one."""
        host = self.least(group) if group.checkpoint_host == ANYWHERE else group.checkpoint_host
        return host if host is not None and self.fits(group, host) else None

    def least(self, group: Group) -> int | None:
        """Return the least loaded host that the group could go to, whether it fits there or not."""
        others = [host for host, one in enumerate(self.hosts) if one.accepts_work and host != group.host]
        return min(others, key=lambda host: _rank(self.share, host), default=None)

    def move(self, group: Group, target: int, assisted: bool) -> Proposal:
        """Move the group to the target; its checkpoint stays at the host that it leaves."""
        origin, shares = group.host, self.share
        made = Proposal(group.number, origin, target, assisted, shares[origin], shares[target])
        shares[origin] -= group.load / self.hosts[origin].capacity
        shares[target] += group.load / self.hosts[target].capacity
        # The group leaves its state behind as checkpoint, so a move back would be assisted; but it must rest first.
        checkpoint_host = ANYWHERE if group.checkpoint_host == ANYWHERE else origin
        self.groups[group.number] = replace(group, host=target, checkpoint_host=checkpoint_host, rested=False)
        return made


def utilisation(hosts: Sequence[Host], groups: Sequence[Group]) -> list[float]:
    """Return the share of each host's CPU (n_hosts,) that others take and its load needs; it may be above 1."""
    load = [host.fixed for host in hosts]
    for group in groups:
        load[group.host] += group.load
    return [host.outside + own / host.capacity for host, own in zip(hosts, load, strict=True)]


def balance(hosts: Sequence[Host], groups: Sequence[Group], rules: Rules) -> Round:
    """Return the moves off overloaded hosts, highest utilisation first (steps 2 to 5 of the page).

    A host is relieved until it is at `rules.high`, has used up its moves, or nothing fits elsewhere.

    >>> groups = [Group(0, 0, 0.5), Group(1, 0, 0.4), Group(2, 0, 0.2, checkpoint_host=1)]
    >>> found = balance([Host(1.0), Host(1.0)], groups, Rules(high=0.9))  # host 0 needs 1.1 of its core
    >>> [(move.group, move.target, move.assisted) for move in found.moves]
    [(2, 1, True)]
    """
    tentative = _tentative_placement(hosts, groups, rules.high)
    over = [host for host, one in enumerate(hosts) if one.member and tentative.share[host] > rules.high + _TIE]
    over.sort(key=lambda host: (-_rank(tentative.share, host)[0], host))
    on_them = [group for group in groups if group.host in over]
    usable = sum(tentative.helper(group) is not None for group in on_them)
    moves: list[Proposal] = []
    unplaced = []
    # Shares change with every move of the round, so each host is checked again at its turn.
    for host in over:
        left = rules.moves
        while left and tentative.share[host] > rules.high + _TIE:
            rested = [group for group in tentative.groups.values() if group.host == host and group.rested]
            made = _best(tentative, host, rested, rules)
            if made is None:
                # Without a rested group the host only has to wait: that is no reason to acquire one.
                unplaced += [host] if rested else []
                break
            moves.append(made)
            left -= 1
    return Round(tuple(over), len(on_them), usable, tuple(moves), tuple(unplaced))


def drain(hosts: Sequence[Host], groups: Sequence[Group], candidates: Sequence[int], rules: Rules) -> Round | None:
    """Return the moves that empty one of the candidates below the lower threshold, least utilised first; else None.

    All its load must be rested groups that fit elsewhere, each at its checkpoint or else on the least loaded host. No
    host may exceed the middle of the thresholds (hysteresis): otherwise the next check might acquire a host again.
    """
    share = utilisation(hosts, groups)
    for host in sorted(candidates, key=lambda host: _rank(share, host)):
        if share[host] >= rules.low or hosts[host].fixed:
            continue
        found = empty(hosts, groups, host, (rules.low + rules.high) / 2)
        if found is not None:
            return Round(overloaded=(host,), moves=found)
    return None


def empty(hosts: Sequence[Host], groups: Sequence[Group], host: int, limit: float) -> tuple[Proposal, ...] | None:
    """Return moves of all groups off a host, largest first, with no host above the limit; None if one cannot move."""
    tentative = _tentative_placement(hosts, groups, limit)
    moves = []
    # Largest first, as in first-fit decreasing: small ones still fit when room is scarce.
    for group in sorted((one for one in groups if one.host == host), key=lambda one: (-one.load, one.number)):
        made = _place(tentative, group) if group.rested else None
        if made is None:
            return None
        moves.append(made)
    return tuple(moves)


def _rank(share: Sequence[float], host: int) -> tuple[float, int]:
    """Return the rank by utilisation, of equal ones by number."""
    return round(share[host], _DIGITS), host


def _tentative_placement(hosts: Sequence[Host], groups: Sequence[Group], limit: float) -> _TentativePlacement:
    """Return the utilisations before any move of the round."""
    return _TentativePlacement(hosts, {group.number: group for group in groups}, limit, utilisation(hosts, groups))


def _best(tentative: _TentativePlacement, host: int, rested: Sequence[Group], rules: Rules) -> Proposal | None:
    """Make the first move in the order of preference, and return it; None where nothing fits."""
    excess = (tentative.share[host] - rules.high) * tentative.hosts[host].capacity
    ordered = sorted(rested, key=lambda group: _preference(group, excess))
    for group in ordered[: _tried_first(tentative, host, rules.prefer)]:
        helper = tentative.helper(group)
        if helper is not None:
            return tentative.move(group, helper, True)
    return next(_placed(tentative, ordered), None)


def _preference(group: Group, excess: float) -> tuple[bool, float, int]:
    """Return the rank of a group: those that suffice alone by rising load, then the others by falling load.

    So as little load as possible moves if one move is enough, and as few groups as possible otherwise."""
    enough = group.load >= excess - _TIE
    return (not enough, group.load if enough else -group.load, group.number)


def _tried_first(tentative: _TentativePlacement, host: int, prefer: Prefer) -> int:
    """Return how many groups are tried first at the host of their checkpoint."""
    here = sum(group.host == host for group in tentative.groups.values())
    return {"sufficient": 1, "quarter": -(-here // 4), "usable": here}[prefer]


def _placed(tentative: _TentativePlacement, ordered: Sequence[Group]) -> Iterator[Proposal]:
    """Yield, and make, the move of each group that fits somewhere."""
    for group in ordered:
        made = _place(tentative, group)
        if made is not None:
            yield made


def _place(tentative: _TentativePlacement, group: Group) -> Proposal | None:
    """Move the group to where its checkpoint is if it fits there, else to the least loaded host if it fits there."""
    helper = tentative.helper(group)
    if helper is not None:
        return tentative.move(group, helper, True)
    least = tentative.least(group)
    if least is not None and tentative.fits(group, least):
        return tentative.move(group, least, False)
    return None
