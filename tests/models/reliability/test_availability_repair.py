"""Repair by Markov chains against closed forms, fractions and the static formulas where these hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from plain_availability import close

from models.errors import InputError
from models.reliability.cuts import query_cuts
from models.reliability.exact import unavailability
from models.reliability.queries import Failures, Queries, equal_hosts
from models.reliability.repair import broken_given_down, down_law, pair_unavailability, stationary, upgrade_law
from models.reliability.times import DAY_S, MONTH_S, day_average_rule, downtime_s, end_of_day, not_taken_over, steady

RING = Queries(5, tuple((k, (k + 1) % 5) for k in range(5)), (tuple(range(5)),))


def solved(n: int, rates: dict[tuple[int, int], Fraction]) -> list[Fraction]:
    """The stationary law by Gauss in fractions: pi Q = 0, sum 1."""
    rows = [[Fraction(0)] * (n + 1) for _ in range(n)]
    for (i, j), rate in rates.items():
        rows[j][i] += rate
        rows[i][i] -= rate
    rows[n - 1] = [Fraction(1)] * (n + 1)
    for k in range(n):
        pivot = next(r for r in range(k, n) if rows[r][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for r in range(n):
            if r != k and rows[r][k]:
                rows[r] = [a - rows[r][k] * b for a, b in zip(rows[r], rows[k], strict=True)]
    return [row[n] for row in rows]


def test_the_stationary_law_of_any_chain_keeps_twelve_digits_of_what_is_rare() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        n = int(rng.integers(2, 9))
        rates = {
            (i, j): 10.0 ** rng.uniform(-9, 2) for i in range(n) for j in range(n) if i != j and rng.random() < 0.6
        }
        rates |= {(i, (i + 1) % n): 10.0 ** rng.uniform(-9, 2) for i in range(n)}
        exact = solved(n, {pair: Fraction(rate) for pair, rate in rates.items()})
        assert all(close(x, y) for x, y in zip(stationary(n, rates), exact, strict=True))


def test_two_repairable_hosts_with_one_and_two_crews() -> None:
    """Both down: with r = MTTR / MTTF it is r^2 / (1 + r)^2 with two crews, 2 r^2 / (1 + 2 r + 2 r^2) with one."""
    r = Fraction(6, 720)
    for crews, both in ((2, r**2 / (1 + r) ** 2), (1, 2 * r**2 / (1 + 2 * r + 2 * r**2))):
        assert close(down_law(2, 720.0, 6.0, crews)[2], both)


def test_a_crew_for_each_host_is_the_static_formula() -> None:
    (cuts,) = query_cuts(RING, equal_hosts(0.1, 5))
    p = steady(1000.0, 3.0)
    static = unavailability(RING, equal_hosts(p, 5)).low[0, 0]
    for n_hosts in (5, 40):
        given = broken_given_down(cuts, n_hosts)
        assert np.isclose(down_law(n_hosts, 1000.0, 3.0, n_hosts) @ given, static, rtol=1e-12)


def test_fewer_crews_are_worse_and_agree_with_a_chain_over_sets_of_hosts() -> None:
    """The unlumped chain: every set of failed hosts is a state, each failed host is as likely to be in repair."""
    (cuts,) = query_cuts(RING, equal_hosts(0.1, 5))
    given = broken_given_down(cuts, 5)
    found = []
    for crews in (1, 2, 5):
        rates = {}
        for state in range(32):
            down = state.bit_count()
            for host in range(5):
                if state >> host & 1:
                    rates[state, state ^ 1 << host] = min(crews, down) / down / 6
                else:
                    rates[state, state | 1 << host] = 1 / 50
        by_sets = stationary(32, rates)
        broken = sum(by_sets[state] for state in range(32) if any(cut & state == cut for cut in cuts))
        found.append(down_law(5, 50.0, 6.0, crews) @ given)
        assert np.isclose(found[-1], broken, rtol=1e-12)
    assert found[0] > found[1] > found[2]


def test_a_large_cluster_with_one_crew_is_erlangs_loss_in_reverse() -> None:
    """With one crew P(k up) is a truncated Poisson law of mean MTTF / MTTR (the machine repairman)."""
    law = down_law(100, 400.0, 5.0, 1)
    up = [80.0**k / math.factorial(k) for k in range(101)]
    assert np.allclose(law[::-1], np.array(up) / sum(up), rtol=1e-11)


def test_upgrades_without_failures_are_a_share_of_time() -> None:
    law = upgrade_law(4, 1e15, 1.0, 4, every_s=900.0, upgrade_s=100.0)
    assert np.allclose(law[:2], [0.9, 0.1], rtol=1e-11)


def test_upgrades_agree_with_a_chain_over_sets_of_hosts() -> None:
    n, fails, repairs, crews, every, lasts = 3, 1 / 50, 1 / 4, 1, 30.0, 5.0
    for only_whole in (False, True):
        states = [(down, host) for down in range(8) for host in (-1, 0, 1, 2) if host < 0 or not down >> host & 1]
        states.sort(key=lambda state: (state[0].bit_count(), state[1] >= 0))
        place = {state: index for index, state in enumerate(states)}
        rates = {}
        for down, host in states:
            here, failed = place[down, host], down.bit_count()
            up = [k for k in range(n) if not down >> k & 1 and k != host]
            rates |= {(here, place[down | 1 << k, host]): fails for k in up}
            rates |= {
                (here, place[down ^ 1 << k, host]): repairs * min(crews, failed) / failed
                for k in range(n)
                if down >> k & 1
            }
            if host >= 0:
                rates[here, place[down, -1]] = 1 / lasts
            elif not (only_whole and failed):
                rates |= {(here, place[down, k]): 1 / every / len(up) for k in up}
        by_sets = stationary(len(states), rates)
        expected = np.zeros(n + 1)
        for (down, host), chance in zip(states, by_sets, strict=True):
            expected[down.bit_count() + (host >= 0)] += chance
        found = upgrade_law(n, 50.0, 4.0, crews, every, lasts, only_whole=only_whole)
        assert np.allclose(found, expected, rtol=1e-12)


def test_waiting_until_all_hosts_are_up_before_an_upgrade_is_safer() -> None:
    (cuts,) = query_cuts(RING, equal_hosts(0.1, 5))
    given = broken_given_down(cuts, 20)
    hasty, careful = (
        float(upgrade_law(20, 5e6, 2e4, 2, 86_400.0, 1800.0, only_whole=only) @ given) for only in (False, True)
    )
    assert careful < hasty


def test_a_standby_costs_its_take_overs_and_what_it_does_not_cover() -> None:
    """To first order take-over / MTTF + (1 - coverage) q + both down, for two crews 2 x q^2 / 2."""
    mttf, mttr, take_over, coverage = 3e7, 3600.0, 1.0, 0.999
    q = steady(mttf, mttr)
    expected = coverage * take_over / mttf + (1 - coverage) * q + q * q
    assert np.isclose(pair_unavailability(mttf, mttr, 2, take_over, coverage), expected, rtol=1e-3)
    assert pair_unavailability(mttf, mttr, 1, 1e-9, 1.0) > 1.9 * pair_unavailability(mttf, mttr, 2, 1e-9, 1.0)


def test_the_chain_of_a_pair_is_solved_right() -> None:
    """The same five states in fractions."""
    f, m, t, c = Fraction(1, 100), Fraction(1, 7), Fraction(1, 2), Fraction(3, 4)
    rates = {(0, 2): c * f, (0, 3): (1 - c) * f, (0, 1): f, (2, 1): t, (2, 0): m, (2, 4): f, (3, 0): m, (3, 4): f}
    rates |= {(1, 0): m, (1, 4): f, (4, 1): m}
    exact = solved(5, rates)
    assert close(pair_unavailability(100.0, 7.0, 1, 2.0, 0.75), exact[2] + exact[3] + exact[4])


def test_late_take_overs_in_the_static_model_agree_with_the_chain_to_first_order() -> None:
    mttf, mttr, take_over, coverage = 1e7, 3600.0, 5.0, 0.99
    q, late = steady(mttf, mttr), not_taken_over(mttf, mttr, take_over, coverage)
    pair = Queries(2, ((0, 1),), ((0,),))
    static = unavailability(pair, Failures(np.full((1, 2), q), late=np.full((1, 2), late))).low[0, 0]
    assert np.isclose(static, pair_unavailability(mttf, mttr, 2, take_over, coverage), rtol=2e-3)
    assert np.isclose(late, q * (1 - coverage) + coverage * take_over / mttf, rtol=1e-3)
    assert np.isclose(not_taken_over(mttf, mttr, take_over, 0.0), q, rtol=1e-14)


def test_the_average_over_a_day_of_a_pair_is_its_integral() -> None:
    """(1/T) integral of (1 - exp(-t/m))^2 = 1 - 2 (m/T)(1 - e^(-T/m)) + (m/2T)(1 - e^(-2T/m))."""
    m = 30 * DAY_S
    x = DAY_S / m
    expected = 1 + 2 * math.expm1(-x) / x - math.expm1(-2 * x) / (2 * x)
    p, weights = day_average_rule(m)
    assert np.isclose(weights @ p**2, expected, rtol=1e-10)
    assert end_of_day(m) ** 2 > weights @ p**2
    assert np.isclose(weights @ p, 1 + math.expm1(-x) / x, rtol=1e-12)


def test_downtime_budgets_of_a_month() -> None:
    assert downtime_s(0.001) / 60 == pytest.approx(43.83, abs=0.005)
    assert downtime_s(0.0001) / 60 == pytest.approx(4.383, abs=0.0005)
    assert downtime_s(0.00001) == pytest.approx(26.298, abs=0.0005)
    assert downtime_s(0.5, 10.0) == 5
    assert MONTH_S == 2_629_800


@pytest.mark.parametrize(
    "make",
    [
        lambda: down_law(0, 1.0, 1.0, 1),
        lambda: down_law(2, 1.0, 1.0, 0),
        lambda: down_law(2, 0.0, 1.0, 1),
        lambda: down_law(2, 1.0, math.inf, 1),
        lambda: upgrade_law(2, 1.0, 1.0, 1, 0.0, 1.0),
        lambda: pair_unavailability(1.0, 1.0, 1, 1.0, 1.5),
        lambda: pair_unavailability(1.0, 1.0, 1, 0.0, 1.0),
        lambda: stationary(2, {(0, 1): 1.0}),
        lambda: stationary(2, {(0, 1): 1.0, (1, 0): -1.0}),
        lambda: broken_given_down((0b100,), 2),
    ],
)
def test_bad_times_rates_and_cuts_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError):
        make()
