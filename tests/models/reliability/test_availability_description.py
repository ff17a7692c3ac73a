"""Availability files: what they mean in numbers, and every fault with its path, value, rule and hint."""

from __future__ import annotations

import numpy as np
import pytest

from models.errors import InputError
from models.reliability.description import availability_from
from models.reliability.exact import unavailability
from models.reliability.problem import queries_of, settings_of

BASE = {"hosts": ["a", "b"], "operators": {"x": ["a"], "y": ["a", "b"]}, "queries": {"q": ["x", "y"]}, "p": 0.1}
LONG_RUN = {"mttf": "9 d", "mttr": "1 d"}


def made(**changes):  # type: ignore[no-untyped-def]
    raw = {key: value for key, value in {**BASE, **changes}.items() if value is not None}
    return availability_from(raw)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"operators": {"x": ["a", "a"], "y": ["b"]}},
            "operators.x[1] = a: has an instance of this operator already "
            "(a replica on the host of its primary goes down with it)",
        ),
        ({"operators": {"x": ["c"], "y": ["bb"]}}, "operators.x[0] = c: is not a host (known here: a, b)"),
        ({"operators": {"x": ["a"], "y": ["bb"]}}, "operators.y[0] = bb: is not a host (did you mean b?)"),
        ({"operators": {"x": [], "y": ["a"]}}, "operators.x = []: must have at least 1 entry"),
        ({"p": 1.5}, "p = 1.5: must be at most 1"),
        ({"p": [0.1, -1]}, "p[1] = -1: must be at least 0"),
        ({"p": []}, "p = []: must have at least 1 entry"),
        ({"p": True}, "p = true: must be a number"),
        ({"p": float("nan")}, "p = nan: must be finite"),
        ({"p": None}, "p: is missing: nothing says how often a is down (p = 0.01, or times)"),
        ({"queries": {"q": []}}, "queries.q = []: must have at least 1 entry"),
        ({"queries": {}}, "queries: must have an entry at least"),
        ({"queries": {"q": ["x", "x"]}}, "queries.q[1] = x: is there twice"),
        ({"queries": {"q": ["z"]}}, "queries.q[0] = z: is not an operator (known here: x, y)"),
        ({"queries": {"q": {"operators": ["x"], "weight": 0}}}, "queries.q.weight = 0: must be more than 0"),
        ({"hosts": ["a", "a", "b"]}, "hosts[1] = a: is there twice"),
        ({"hosts": {"a": {"p": 2}, "b": {}}}, "hosts.a.p = 2: must be at most 1"),
        ({"hosts": {"a": {"mttf": "1 d"}, "b": {}}}, "hosts.a: must have both mttf and mttr, or neither"),
        (
            {"hosts": {"a": {"mttf": "1 d", "mttr": "1 h", "p": 0.1}, "b": {}}},
            "hosts.a.p = 0.1: must not be given beside mttf",
        ),
        ({"times": LONG_RUN}, "p = 0.1: must not be given beside times (leave out one of them)"),
        ({"p": None, "times": {"mttf": "1 d"}}, "times: must have mttr or day (mttr for the long run, day for a day)"),
        ({"p": None, "times": {**LONG_RUN, "crews": 0}}, "times.crews = 0: must be at least 1"),
        (
            {"p": None, "times": {**LONG_RUN, "crews": 1}, "beta": 0.1},
            "times.crews: is solved for equal hosts: no p of a host, no domains, no beta",
        ),
        (
            {"p": None, "times": {"mttf": "1 d", "day": "1 d", "crews": 1}},
            "times.crews: needs times.mttr: repairs last",
        ),
        (
            {"p": None, "times": {**LONG_RUN, "crews": 1}, "standby": {}},
            "standby: is not solved together with crews or upgrades (of two hosts with all operators they are)",
        ),
        (
            {"p": None, "times": {**LONG_RUN, "day": "1 d"}, "standby": {}},
            "times.day = 86400.0: is solved for equal hosts that nobody repairs or upgrades",
        ),
        ({"standby": {}}, "standby: needs times.mttr: it is about the moments after a failure"),
        ({"upgrades": {"every": "1 d", "lasts": "1 h"}}, "upgrades: needs times.mttr: repairs last"),
        ({"domains": {"r": {"hosts": ["z"]}}}, "domains.r.hosts[0] = z: is not a host (known here: a, b)"),
        ({"hosts": {"a": {"p": 0.2}, "b": {}}, "beta": 0.1}, "beta = 0.1: is defined for hosts that are alike"),
        (
            {"domains": {"r": {"hosts": ["a"]}, "s": {"hosts": ["a"]}}, "beta": 0.1},
            "beta = 0.1: needs domains that share no host: a failure has one common cause",
        ),
        ({"qeries": {}}, "qeries: unknown key (did you mean queries?)"),
    ],
)
def test_faults_have_path_value_rule_and_hint(changes: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as error:
        made(**changes)
    assert says in str(error.value).splitlines()


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InputError) as error:
        made(operators={"x": ["c"], "y": ["a", "a"]}, queries={"q": ["z"]})
    assert len(error.value.faults) == 3


def test_what_is_not_a_table_is_refused() -> None:
    with pytest.raises(InputError, match="file = 3: must be a table"):
        availability_from(3)


def test_names_become_numbers_in_the_order_of_the_file() -> None:
    queries = queries_of(made(queries={"q": ["y", "x"], "r": {"operators": ["x"], "weight": 3}}))
    assert queries.instances == ((0,), (0, 1))
    assert queries.operators == ((1, 0), (0,))
    assert queries.weights == (1.0, 3.0)


def chances(description, p=()):  # type: ignore[no-untyped-def]
    return [(one.label, one.failures.down.tolist()) for one in settings_of(description, p)]


def test_settings_are_the_values_of_p_the_file_s_or_the_command_s() -> None:
    description = made(p=[0.1, 0.2], hosts={"a": {}, "b": {"p": 0.5}})
    assert chances(description) == [("p = 0.1", [[0.1, 0.5]]), ("p = 0.2", [[0.2, 0.5]])]
    assert chances(description, [0.3]) == [("p = 0.3", [[0.3, 0.5]])]
    own = made(p=None, hosts={"a": {"p": 0.1}, "b": {"mttf": "9 d", "mttr": "1 d"}})
    assert chances(own) == [("as given", [[0.1, 0.1]])]
    with pytest.raises(InputError, match="is for hosts without a chance of their own: none is"):
        settings_of(own, [0.1])


@pytest.mark.parametrize("p", [1.1, -0.1, float("nan")])
def test_a_p_of_the_command_is_a_probability(p: float) -> None:
    with pytest.raises(InputError, match=r"--p = .*: must be a probability, between 0 and 1"):
        settings_of(made(), [p])


def test_a_p_says_nothing_of_times() -> None:
    with pytest.raises(InputError, match="says nothing of times"):
        settings_of(made(p=None, times={**LONG_RUN, "crews": 1}), [0.1])


def test_times_ask_for_the_long_run_and_for_a_day() -> None:
    run, end, mean = settings_of(made(p=None, times={**LONG_RUN, "day": "1 d"}))
    assert np.allclose(run.failures.down, 0.1, rtol=1e-14)
    assert np.allclose(end.failures.down, 1 - np.exp(-1 / 9), rtol=1e-14)
    assert mean.failures.down.shape == (64, 2)
    assert np.isclose(mean.weights @ mean.failures.down[:, 0], 1 + 9 * (np.exp(-1 / 9) - 1), rtol=1e-12)


def test_late_take_overs_follow_the_times_of_each_host() -> None:
    hosts = {"a": {}, "b": {"mttf": "90 d", "mttr": "1 d"}, "c": {"p": 0.05}}
    (run,) = settings_of(made(p=None, hosts=hosts, times=LONG_RUN, standby={"coverage": 0.9}))
    assert run.failures.late is not None
    assert np.allclose(run.failures.late / run.failures.down, 0.1, rtol=1e-12)


def test_a_domain_s_own_shock_and_its_common_cause_add_up() -> None:
    domains = {"r": {"hosts": ["a", "b"], "p": 0.01}}
    (setting,) = settings_of(made(domains=domains, beta=0.2, operators={"x": ["a", "b"], "y": ["a"]}))
    shock = 1 - (1 - 0.01) * (1 - 0.2 * 0.1)
    own = 0.1 * 0.8 / (1 - 0.02)
    queries = queries_of(
        made(domains=domains, operators={"x": ["a", "b"], "y": ["a"]}, queries={"q": ["x"], "r": ["y"]})
    )
    found = unavailability(queries, setting.failures).low[0]
    assert np.isclose(found[0], shock + (1 - shock) * own**2, rtol=1e-12)
    assert np.isclose(found[1], 1 - (1 - 0.01) * (1 - 0.1), rtol=1e-12)


def test_beta_without_domains_is_about_all_hosts() -> None:
    (setting,) = settings_of(made(beta=0.2))
    assert setting.failures.groups == ((0, 1),)
