"""The decisions of the adaptation manager on given loads.

Oracle: the manager once more, in exact fractions and without any shortcut, from the steps of the page
"Checkpoint-assisted migration", "Adaptation manager".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest
from seeds import parts

from sim.scaling import adaptation
from sim.scaling.adaptation import Group, Host, Prefer, Proposal, Rules, balance

PREFER: tuple[Prefer, ...] = ("sufficient", "quarter", "usable")


def exact(value: float) -> Fraction:
    """The decimal number that was meant."""
    return Fraction(round(value * 1000), 1000)


def shares(hosts: Sequence[Host], groups: Sequence[Group]) -> list[Fraction]:
    """Step 1: util[n] = outside[n] + sum of m[g on n] / speed[n]."""
    return [
        exact(host.outside)
        + (exact(host.fixed) + sum((exact(group.load) for group in groups if group.host == k), Fraction()))
        / exact(host.capacity)
        for k, host in enumerate(hosts)
    ]


def fits(hosts: Sequence[Host], groups: Sequence[Group], group: Group, host: int, high: Fraction) -> bool:
    """Whether the host would not be overloaded by the group."""
    there = shares(hosts, groups)[host] + exact(group.load) / exact(hosts[host].capacity)
    return hosts[host].accepts_work and host != group.host and there <= high


def plainly(
    hosts: Sequence[Host], given: Sequence[Group], rules: Rules
) -> tuple[list[tuple[int, int, bool]], list[int], int]:
    """(moves, hosts that stay overloaded, usable): all is computed again after each move."""
    groups, high = list(given), exact(rules.high)
    before = shares(hosts, groups)
    over = [k for k, host in enumerate(hosts) if host.member and before[k] > high]
    usable = 0
    for group in groups:
        if group.host in over and group.checkpoint_host is not None:
            usable += fits(hosts, groups, group, group.checkpoint_host, high)
    moves, stuck = [], []
    for host in sorted(over, key=lambda host: (-before[host], host)):
        for _ in range(rules.moves):
            now = shares(hosts, groups)[host]
            if now <= high:
                break
            rested = [group for group in groups if group.host == host and group.rested]
            found = _one_move(hosts, groups, rested, rules, (now - high) * exact(hosts[host].capacity))
            if found is None:
                stuck += [host] if rested else []
                break
            group, target, assisted = found
            moves.append((group.number, target, assisted))
            groups[groups.index(group)] = replace(group, host=target, checkpoint_host=host, rested=False)
    return moves, stuck, usable


def _one_move(
    hosts: Sequence[Host], groups: Sequence[Group], rested: Sequence[Group], rules: Rules, excess: Fraction
) -> tuple[Group, int, bool] | None:
    """Steps 3 to 5 for one move."""
    if not rested:
        return None
    enough = sorted((g for g in rested if exact(g.load) >= excess), key=lambda g: (g.load, g.number))
    others = sorted((g for g in rested if exact(g.load) < excess), key=lambda g: (-g.load, g.number))
    high, order = exact(rules.high), [*enough, *others]
    here = len([group for group in groups if group.host == rested[0].host])
    first = {"sufficient": 0, "quarter": (here + 3) // 4, "usable": here}[rules.prefer]
    for group in order[:first]:
        if group.checkpoint_host is not None and fits(hosts, groups, group, group.checkpoint_host, high):
            return group, group.checkpoint_host, True
    for group in order:
        if group.checkpoint_host is not None and fits(hosts, groups, group, group.checkpoint_host, high):
            return group, group.checkpoint_host, True
        now = shares(hosts, groups)
        least = [k for k in range(len(hosts)) if hosts[k].accepts_work and k != group.host]
        least.sort(key=lambda k: (now[k], k))
        if least and fits(hosts, groups, group, least[0], high):
            return group, least[0], False
    return None


def random_round(draw: Random) -> tuple[list[Host], list[Group]]:
    """Hosts and groups; loads are thousandths, and equal ones are common."""
    hosts = [
        Host(
            capacity=draw.choice([1.0, 1.0, 2.0, 0.5]),
            outside=draw.choice([0.0, 0.0, 0.1, 0.7]),
            fixed=draw.choice([0.0, 0.0, 0.05]),
            member=draw.random() < 0.9,
            accepts_work=draw.random() < 0.85,
        )
        for _ in range(draw.randint(2, 6))
    ]
    coarse = draw.random() < 0.5
    groups = [
        Group(
            number=k,
            host=draw.randrange(len(hosts)),
            load=draw.choice([0.1, 0.2]) if coarse else draw.randint(0, 300) / 1000,
            checkpoint_host=draw.choice([None, *range(len(hosts))]),
            rested=draw.random() < 0.8,
        )
        for k in range(draw.randint(0, 24))
    ]
    return hosts, groups


@pytest.mark.parametrize("prefer", PREFER)
@pytest.mark.parametrize("seeds", parts(200, 600))
def test_a_round_is_that_of_the_plain_manager(prefer: Prefer, seeds: range) -> None:
    seen_moves = seen_stuck = seen_assisted = 0
    for seed in seeds:
        draw = Random(f"{prefer} {seed}")
        hosts, groups = random_round(draw)
        rules = Rules(high=draw.choice([0.6, 0.7, 0.85]), moves=draw.randint(1, 4), prefer=prefer)
        found = balance(hosts, groups, rules)
        moves, stuck, usable = plainly(hosts, groups, rules)
        assert [(move.group, move.target, move.assisted) for move in found.moves] == moves, seed
        assert (list(found.unplaced), found.usable) == (stuck, usable), seed
        seen_moves += len(moves)
        seen_stuck += len(stuck)
        seen_assisted += sum(assisted for *_, assisted in moves)
    assert min(seen_moves - seen_assisted, seen_assisted, seen_stuck) > len(seeds) / 12


@pytest.mark.parametrize("seed", range(100))
def test_a_move_brings_no_host_above_the_threshold_and_leaves_resting_groups_alone(seed: int) -> None:
    hosts, groups = random_round(Random(seed))
    rules = Rules(high=0.7, moves=3)
    found, by_number = balance(hosts, groups, rules), {group.number: group for group in groups}
    after = applied(groups, found.moves)
    before, now = shares(hosts, groups), shares(hosts, after)
    for move in found.moves:
        assert by_number[move.group].rested
        assert hosts[move.target].accepts_work
        assert now[move.target] <= exact(0.7)
    left = [move.origin for move in found.moves]
    assert all(left.count(host) <= 3 for host in left)
    assert all(now[host] < before[host] for host in left)


def applied(groups: Sequence[Group], moves: Sequence[Proposal]) -> list[Group]:
    """The groups after the moves."""
    goal = {move.group: move.target for move in moves}
    return [replace(group, host=goal.get(group.number, group.host)) for group in groups]


def test_the_smallest_group_that_is_enough_goes_where_its_checkpoint_is() -> None:
    hosts = [Host(1.0), Host(1.0), Host(1.0)]
    loads = [0.5, 0.3, 0.2, 0.05]
    groups = [Group(k, 0, load, checkpoint_host=1) for k, load in enumerate(loads)]
    (move,) = balance(hosts, groups, Rules(high=0.85)).moves
    assert (move.group, move.target, move.assisted) == (2, 1, True)
    assert (move.origin_share, move.target_share) == (pytest.approx(1.05), 0.0)


def test_without_room_at_its_checkpoint_it_goes_to_the_least_loaded_host() -> None:
    hosts = [Host(1.0), Host(1.0, outside=0.8), Host(1.0, outside=0.5), Host(1.0, outside=0.4)]
    groups = [Group(k, 0, 0.3, checkpoint_host=1) for k in range(3)]
    (move,) = balance(hosts, groups, Rules(high=0.85)).moves
    assert (move.group, move.target, move.assisted) == (0, 3, False)


def test_a_moved_load_counts_at_both_hosts_at_once() -> None:
    # Two hosts are too full by one group each; there is room for just one of them.
    hosts = [Host(1.0), Host(1.0), Host(1.0, outside=0.5)]
    groups = [Group(k, k % 2, 0.3, checkpoint_host=2) for k in range(6)]
    found = balance(hosts, groups, Rules(high=0.85))
    assert [(move.group, move.target) for move in found.moves] == [(0, 2)]
    assert (found.overloaded, found.unplaced) == ((0, 1), (1,))
    assert (found.groups, found.usable) == (6, 6)  # each by itself would fit


def test_variants_look_further_for_a_checkpoint_that_helps() -> None:
    hosts = [Host(1.0), Host(1.0, outside=0.9), Host(1.0)]
    loads = [0.1] * 7 + [0.2]
    groups = [Group(k, 0, load, checkpoint_host=2 if k in (1, 7) else 1) for k, load in enumerate(loads)]
    chosen = {prefer: balance(hosts, groups, Rules(0.85, prefer=prefer)).moves[0] for prefer in PREFER}
    # 0.05 too much: the order is 0 .. 6, then 7.
    assert [(move.group, move.assisted) for move in chosen.values()] == [(0, False), (1, True), (1, True)]
    far = [replace(group, checkpoint_host=1 if group.number == 1 else group.checkpoint_host) for group in groups]
    chosen = {prefer: balance(hosts, far, Rules(0.85, prefer=prefer)).moves[0] for prefer in PREFER}
    assert [(move.group, move.assisted) for move in chosen.values()] == [(0, False), (0, False), (7, True)]


def test_a_host_is_drained_where_all_of_it_fits_below_the_middle_of_the_thresholds() -> None:
    hosts = [Host(1.0), Host(1.0), Host(1.0)]
    groups = [
        Group(0, 0, 0.1, checkpoint_host=1),
        Group(1, 0, 0.1, checkpoint_host=None),
        Group(2, 1, 0.45),
        Group(3, 2, 0.4),
    ]
    rules = Rules(high=0.9, low=0.3)
    found = adaptation.drain(hosts, groups, [0, 1, 2], rules)
    assert found is not None
    assert found.overloaded == (0,)
    assert [(move.group, move.target, move.assisted) for move in found.moves] == [(0, 1, True), (1, 2, False)]
    tight = [*groups[:2], replace(groups[2], load=0.55), replace(groups[3], load=0.55)]
    assert adaptation.drain(hosts, tight, [0, 1, 2], rules) is None
    resting = [replace(groups[0], rested=False), *groups[1:]]
    assert adaptation.drain(hosts, resting, [0, 1, 2], rules) is None
    assert adaptation.drain([replace(hosts[0], fixed=0.01), *hosts[1:]], groups, [0], rules) is None


def anti_correlated(checkpoint_hosts: Sequence[int], share: int) -> adaptation.Round:
    """The experiment of that name: two operators of ten groups on hosts 1 and 2, the input on host 0.

    So many percent of the data go to the second operator; hosts 0 and 2 are under 70 % of outside load at first.
    """
    hosts = [Host(1.0, outside=0.7), Host(1.0), Host(1.0, outside=0.7)]
    first, second = 0.8 * (100 - share) / 100, 0.8 * share / 100
    groups = [Group(k, 1 if k < 10 else 2, (first if k < 10 else second) / 10, checkpoint_hosts[k]) for k in range(20)]
    return balance(hosts, groups, Rules(high=0.7))


@pytest.mark.parametrize(
    ("checkpoint_hosts", "usable"),
    [
        ([1] * 20, 1.0),  # of the second operator where the first one falls
        ([1 if k % 2 else 0 for k in range(20)], 0.5),
        ([0] * 20, 0.0),  # with the input, which is loaded always
    ],
    ids=["optimised", "even", "worst"],
)
def test_usable_checkpoints_of_the_anti_correlated_experiment(checkpoint_hosts: list[int], usable: float) -> None:
    seen = 0
    for share in range(20, 101):
        found = anti_correlated(checkpoint_hosts, share)
        if found.overloaded == (2,):
            seen += 1
            assert found.groups == 10
            assert found.usable == usable * 10
    assert seen > 50
