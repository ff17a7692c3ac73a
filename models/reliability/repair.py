"""Hosts that wait for repair crews, and hosts that are taken down one by one for an upgrade.

With fewer crews than hosts the hosts are not independent any more, but equal hosts are alike: given that k of N are
down, every set of k is as likely. So

    P(broken) = sum_k P(k of N are down) P(broken | k down),

where the first factor comes from a Markov chain on numbers of hosts (equal hosts lumped; Kemeny and Snell, *Finite
Markov Chains*, 1960) and the second counts failure sets.

Hosts of several kinds may wait for the same crews (`class_law`, `broken_given_classes`). Hosts with the same times are
one class. A failed host gets min(1, crews / K) of a crew where K are failed: crews go round among them. Then the
numbers (k_1, .., k_m) of failed hosts by class are a Markov chain, and given them all sets of k_i of each class are as
likely, so that

    P(broken) = sum_k P(k) P(broken | k),   P(broken | k) = sum_j N_j prod_i C(n_i - s_i, k_i - j_i) / C(n_i, k_i)

with s_i hosts of class i that matter to the query, and N_j the number of sets of j_1, .., j_m of these that break it.

The stationary laws of these chains keep all digits of small probabilities. States are taken out one after the other,
the last first, and put back (Grassmann, Taksar and Heyman, *Regenerative analysis and steady state distributions for
Markov chains*, Operations Research 1985). Nothing is subtracted, so every probability is right to about the number of
states times the rounding error, however small it is (O'Cinneide, Numerische Mathematik 1993). Rates are kept sparse:
only neighbours of a state that is taken out are touched."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from models.checked_arrays import FloatArray
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.reliability.cuts import Cuts, elements, support
from models.reliability.exact import TooManyNodes, counts_by_size

Rate = float | FloatArray
MOST_WORK = 50_000_000  # pairs of neighbours that are touched


def stationary(n_states: int, rates: Mapping[tuple[int, int], Rate]) -> FloatArray:
    """Return P(state) in the long run, (n_states,), for `rates` (from, to) > 0.

    Rates that are arrays (n,) ask for n chains at once, (n_states, n); there a rate may be 0 in some of them.

    Number the states so that the frequent ones come first. State 0 has to be reached from all others; states that
    cannot be reached from it get 0. Raises InputError for a chain that has no such law, or that is too dense.

    >>> stationary(2, {(0, 1): 1.0, (1, 0): 9.0}).round(6).tolist()  # up for 1 s, down for 1 / 9 s on average
    [0.9, 0.1]
    """
    into: list[dict[int, Rate]] = [{} for _ in range(n_states)]
    out: list[dict[int, Rate]] = [{} for _ in range(n_states)]
    shape: tuple[int, ...] = ()
    for (start, end), rate in rates.items():
        shape = np.shape(rate)
        # For one chain a rate must be positive; an array may have 0 where that chain lacks the transition.
        good = np.all(np.isfinite(rate)) and (np.min(rate) >= 0 if shape else rate > 0)
        if not good:
            raise InputError.at(f"rates[{start}, {end}]", rate, "must be positive and finite")
        if start != end:
            out[start][end] = into[end][start] = rate if shape else float(rate)
    # Back substitution: each state from the states below it, in units of state 0.
    leaving = _taken_out(into, out)
    found = np.zeros((n_states, *shape))
    found[0] = 1.0
    for state in range(1, n_states):
        found[state] = sum(found[start] * rate for start, rate in into[state].items()) / leaving[state]
    # Normalised at the end: in units of state 0 nothing was subtracted.
    result: FloatArray = found / found.sum(axis=0)
    return result


def _taken_out(into: list[dict[int, Rate]], out: list[dict[int, Rate]]) -> list[Rate]:
    """Take out all states but 0, the last first; leaves the rates from lower states, and each one's rate to them."""
    leaving: list[Rate] = [0.0] * len(into)
    work = 0
    for state in range(len(into) - 1, 0, -1):
        targets, sources = out[state], into[state]
        total = sum(targets.values())
        if not np.all(total):
            raise InputError.at("rates", state, "a state from which state 0 is not reached", "the chain has no one law")
        leaving[state] = total
        # Fill-in grows with the product of neighbours: counted, so that a dense chain is refused and not waited for.
        work += len(sources) * len(targets)
        if work > MOST_WORK:
            raise InputError.at("states", len(into), "are linked too densely for an exact solution")
        # A path through the state becomes a rate of its own, weighted by where the state leads.
        for start, rate in sources.items():
            del out[start][state]
            for end, onward in targets.items():
                if start != end:
                    more = out[start].get(end, 0.0) + rate * onward / total
                    out[start][end] = into[end][start] = more
        for end in targets:
            del into[end][state]
    return leaving


def down_law(n_hosts: int, mttf_s: float, mttr_s: float, crews: int) -> FloatArray:
    """Return P(k hosts are down), k = 0 .. n_hosts: the machine repairman's birth and death chain, in closed form.

    Hosts fail at rate 1 / MTTF each, and min(k, crews) of k are repaired at rate 1 / MTTR. Raises InputError.

    With n crews for n hosts it is the binomial law. (Machine repairman problem: Feller, An Introduction to Probability
    Theory and Its Applications, vol. 1, section XVII.7.)

    >>> down_law(2, mttf_s=9.0, mttr_s=1.0, crews=2).round(6).tolist()
    [0.81, 0.18, 0.01]
    """
    _check(n_hosts, mttf_s, mttr_s, crews)
    # Balance between k - 1 and k, in logarithms: the product of the ratios would leave the range of floats.
    logs = np.zeros(n_hosts + 1)
    for k in range(1, n_hosts + 1):
        logs[k] = logs[k - 1] + math.log((n_hosts - k + 1) * mttr_s / (min(k, crews) * mttf_s))
    # Relative to the largest: the others may underflow to 0, the sum cannot.
    weights = np.exp(logs - logs.max())
    found: FloatArray = weights / weights.sum()
    return found


def upgrade_law(
    n_hosts: int,
    mttf_s: float,
    mttr_s: float,
    crews: int,
    every_s: float,
    upgrade_s: float,
    *,
    only_whole: bool = False,
) -> FloatArray:
    """Return P(k hosts are down), k = 0 .. n_hosts, while hosts are upgraded one at a time.

    After an exponential time of mean `every_s` the next host, any that is up, is taken down for a mean of `upgrade_s`;
    with `only_whole` only while no host has failed. Hosts in an upgrade do not fail. Raises InputError.
    """
    _check(n_hosts, mttf_s, mttr_s, crews)
    raise_if_any(
        InputFault(name, value, "must be longer than zero")
        for name, value in (("every_s", every_s), ("upgrade_s", upgrade_s))
        if not 0 < value < math.inf
    )
    # At most one host is in an upgrade: a second number of 0 or 1 says whether one is.
    states = [(failed, busy) for failed in range(n_hosts + 1) for busy in (0, 1) if failed + busy <= n_hosts]
    place = {state: index for index, state in enumerate(states)}
    rates: dict[tuple[int, int], float] = {}
    for failed, busy in states:
        here, up = place[failed, busy], n_hosts - failed - busy
        if up:
            rates[here, place[failed + 1, busy]] = up / mttf_s
        if failed:
            rates[here, place[failed - 1, busy]] = min(failed, crews) / mttr_s
        if busy:
            rates[here, place[failed, 0]] = 1 / upgrade_s
        elif up and (not only_whole or failed == 0):
            rates[here, place[failed, 1]] = 1 / every_s
    chances = stationary(len(states), rates)
    found = np.zeros(n_hosts + 1)
    # A host in an upgrade is as much down as a failed one.
    for (failed, busy), chance in zip(states, chances, strict=True):
        found[failed + busy] += chance
    return found


def pair_unavailability(mttf_s: float, mttr_s: float, crews: int, take_over_s: float, coverage: float) -> float:
    """Return P(nobody serves) of a primary with a standby on another host, both exponential, by its Markov chain.

    The serving host fails at 1 / MTTF: with probability `coverage` the standby takes over after an exponential time of
    mean `take_over_s`, else nobody serves until the repair. The host that comes back is the standby. Raises InputError.
    """
    _check(2, mttf_s, mttr_s, crews)
    if not 0 <= coverage <= 1:
        raise InputError.at("coverage", coverage, "must be between 0 and 1")
    if not 0 < take_over_s < math.inf:
        raise InputError.at("take_over_s", take_over_s, "must be longer than zero")
    # In the order of how often they occur, as `stationary` asks: most of the time both hosts are up.
    both, alone, switching, uncovered, none = range(5)
    fails, repairs = 1 / mttf_s, 1 / mttr_s
    rates = {
        (both, switching): coverage * fails,
        (both, uncovered): (1 - coverage) * fails,
        (both, alone): fails,  # the standby's own
        (switching, alone): 1 / take_over_s,
        (switching, both): repairs,
        (switching, none): fails,
        (uncovered, both): repairs,
        (uncovered, none): fails,
        (alone, both): repairs,
        (alone, none): fails,
        (none, alone): min(2, crews) * repairs,
    }
    found = stationary(5, {pair: rate for pair, rate in rates.items() if rate})
    return float(found[switching] + found[uncovered] + found[none])


def broken_given_down(cuts: Cuts, n_hosts: int) -> FloatArray:
    """Return P(broken | k of n_hosts are down, any k alike), k = 0 .. n_hosts; cuts of hosts alone.

    Raises InputError for cuts of other elements than hosts, and TooManyNodes where they cannot be counted.

    >>> broken_given_down((0b011,), n_hosts=3).round(6).tolist()  # one pair of the three
    [0.0, 0.0, 0.333333, 1.0]
    """
    n = support(cuts).bit_count()
    # Equal hosts may be lumped only if nothing else can fail.
    if support(cuts).bit_length() > n_hosts:
        raise InputError.at("cuts", NO_VALUE, f"must be of {n_hosts} hosts and nothing else")
    counts = counts_by_size(cuts)
    found = np.zeros(n_hosts + 1)
    for k in range(n_hosts + 1):
        # Sets of k: j of the hosts that matter in a breaking combination, the rest anywhere among the others.
        sets = sum(counts[j] * math.comb(n_hosts - n, k - j) for j in range(min(n, k) + 1))
        found[k] = sets / math.comb(n_hosts, k)
    return found


def _check(n_hosts: int, mttf_s: float, mttr_s: float, crews: int) -> None:
    """Raise InputError for times, crews or numbers of hosts that are not positive."""
    faults = [
        InputFault(name, value, "must be longer than zero")
        for name, value in (("mttf_s", mttf_s), ("mttr_s", mttr_s))
        if not 0 < value < math.inf
    ]
    faults += [InputFault("crews", crews, "must be at least 1")] if crews < 1 else []
    faults += [InputFault("n_hosts", n_hosts, "must be at least 1")] if n_hosts < 1 else []
    raise_if_any(faults)


MOST_STATES = 2500
MOST_HOSTS = 16  # that matter to one query: all sets of them are gone through


def class_law(sizes: Sequence[int], mttf_s: Sequence[float], mttr_s: Sequence[float], crews: int) -> FloatArray:
    """Return P(k_1, .., k_m of each class are down), (n_1 + 1, .., n_m + 1).

    `sizes`, `mttf_s`, `mttr_s`: hosts of each class, and their mean up and repair times [s]. `crews`: shared by all.
    Raises InputError if the chain has more than 2,500 states.
    """
    shape = tuple(size + 1 for size in sizes)
    if math.prod(shape) > MOST_STATES:
        rule = f"make {math.prod(shape)} states of hosts with times of their own, {MOST_STATES} at most"
        raise InputError.at("times.crews", NO_VALUE, rule, "fewer kinds of hosts, or fewer hosts")
    # Few failures first: the frequent states have low numbers, as `stationary` asks.
    states = sorted(itertools.product(*map(range, shape)), key=lambda state: (sum(state), state))
    place = {state: index for index, state in enumerate(states)}
    rates: dict[tuple[int, int], float] = {}
    for state in states:
        failed = sum(state)
        for kind, (size, down) in enumerate(zip(sizes, state, strict=True)):
            above = (*state[:kind], down + 1, *state[kind + 1 :])
            if down < size:
                rates[place[state], place[above]] = (size - down) / mttf_s[kind]
                # Crews go round among all failed hosts, so a class gets them in proportion to its failed hosts.
                repairing = min(failed + 1, crews) * (down + 1) / (failed + 1)
                rates[place[above], place[state]] = repairing / mttr_s[kind]
    chances = stationary(len(states), rates)
    found = np.zeros(shape)
    for state, index in place.items():
        found[state] = chances[index]
    return found


def broken_given_classes(cuts: Cuts, classes: Sequence[Sequence[int]]) -> FloatArray:
    """Return P(broken | k_1, .., k_m down), shaped as the law; raises TooManyNodes if queries have too many hosts."""
    of_query = list(elements(support(cuts)))
    if len(of_query) > MOST_HOSTS:
        raise TooManyNodes
    kind_of = {host: kind for kind, hosts in enumerate(classes) for host in hosts}
    # All sets of the hosts that matter, as bits; the other hosts enter by `_spread` alone.
    sets = np.arange(1 << len(of_query))
    broken = np.zeros(sets.size, dtype=bool)
    for cut in cuts:
        own = sum(1 << bit for bit, host in enumerate(of_query) if cut >> host & 1)
        broken |= (sets & own) == own
    used = [sum(kind_of[host] == kind for host in of_query) for kind in range(len(classes))]
    counts = np.zeros(tuple(size + 1 for size in used))
    numbers = [
        # Adding zeros keeps the array when a class has no host in the query.
        sum((sets[broken] >> bit & 1) for bit, host in enumerate(of_query) if kind_of[host] == kind) + 0 * sets[broken]
        for kind in range(len(classes))
    ]
    np.add.at(counts, tuple(numbers), 1.0)
    for kind, hosts in enumerate(classes):
        # One class after the other: the axis of sets becomes that of failed hosts.
        counts = np.moveaxis(np.tensordot(counts, _spread(len(hosts), used[kind]), axes=(kind, 0)), -1, kind)
    return counts


def _spread(size: int, used: int) -> FloatArray:
    """Return (used + 1, size + 1): of k failed hosts of `size`, the chance of one set of j among those that matter."""
    return np.array(
        [
            [math.comb(size - used, k - j) / math.comb(size, k) if k >= j else 0.0 for k in range(size + 1)]
            for j in range(used + 1)
        ]
    )
