"""Expected load against sums by hand and a slow reference; estimates and limits."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from models.errors import InputError
from models.scenario.inputs import RateSeries, RunInputs
from models.scenario.key_groups import crc32_group, group_shares, groups_of_keys
from models.scenario.reading import scenario_from
from models.scenario.rules import warnings
from models.scenario.scenario import Scenario
from models.scenario.workload import UniformKeys, ZipfKeys
from models.steady_state.estimate import (
    BYTES_PER_STEP,
    SECONDS_PER_EVENT,
    SECONDS_PER_RUN,
    SECONDS_PER_SCANNED,
    SECONDS_PER_STEP,
    check_limits,
    estimate,
)
from models.steady_state.flow import flows, source_rate
from models.steady_state.load import expected_load
from models.topology import layout

ZIPF = {"distribution": "zipf", "count": 300, "exponent": 1.2}


def word_count(**changes: Any) -> Scenario:
    raw: dict[str, Any] = {
        "duration": "100 s",
        "workload": {"text": {"rate": "10 /s", "tuple": "200 B"}},
        "operators": {
            "text": {"kind": "source"},
            "split": {
                "kind": "map",
                "inputs": {"text": "shuffle"},
                "parallelism": 2,
                "selectivity": 4.0,
                "service": {"distribution": "deterministic", "value": "20 ms"},
                "output": {"tuple": "20 B", "keys": ZIPF},
            },
            "count": {
                "kind": "aggregate",
                "inputs": {"split": "key"},
                "parallelism": 3,
                "key_groups": 16,
                "service": {"distribution": "exponential", "mean": "5 ms"},
                "state": {"model": "per-key", "bytes": "50 B"},
            },
            "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
        },
        "hosts": {"worker": {"count": 2, "cores": 2, "cpu": "shared", "network": "1 MB/s"}},
    }
    for path, value in changes.items():
        here = raw
        *above, last = path.split("__")
        for step in above:
            here = here.setdefault(step, {})
        here[last] = value
    return scenario_from(raw)


def test_rates_follow_selectivity() -> None:
    found = flows(word_count())
    assert {name: flow.rate_in.mean_per_s for name, flow in found.items()} == {
        "text": 10, "split": 10, "count": 40, "out": 40,
    }  # fmt: skip
    assert found["out"].rate_out.mean_per_s == 0


def test_each_reader_gets_everything_and_broadcast_a_copy_for_each_task() -> None:
    service = {"distribution": "deterministic", "value": "1 ms"}
    more = {"kind": "map", "inputs": {"split": "broadcast"}, "parallelism": 3, "service": service}
    found = flows(word_count(operators__audit=more, operators__end={"kind": "sink", "inputs": {"audit": "shuffle"}}))
    assert found["audit"].rate_in.mean_per_s == 120
    assert found["count"].rate_in.mean_per_s == 40


def test_takes_thins_one_edge_by_a_number_or_a_measured_share() -> None:
    assert flows(word_count(operators__count__takes={"split": 0.25}))["count"].rate_in.mean_per_s == 10
    rate = {"profile": "p", "span": "100 s", "mean": "10 /s"}
    scenario = word_count(workload__text__rate=rate, operators__count__takes={"split": "delayed"})
    assert flows(scenario, RunInputs(shares={"delayed": 0.5}))["count"].rate_in.mean_per_s == 20


def test_key_shares_equal_a_loop_over_all_keys() -> None:
    scenario = word_count()
    weights = [1 / k**1.2 for k in range(1, 301)]
    shares = [0.0, 0.0, 0.0]
    for key, weight in enumerate(weights):
        shares[crc32_group(str(key), 16) % 3] += weight / sum(weights)
    load = expected_load(scenario).operators["count"]
    assert np.allclose(load.task_shares, shares, rtol=1e-12)
    assert np.allclose(load.utilisation, [40 * share * 0.005 for share in shares], rtol=1e-12)


def test_key_shares_follow_the_hash_and_the_ranges_of_the_operator() -> None:
    scenario = word_count(operators__count__key_hash="flink-string", operators__count__key_group_assignment="ranges")
    weights = [1 / k**1.2 for k in range(1, 301)]
    shares = [0.0, 0.0, 0.0]
    for group, weight in zip(groups_of_keys(300, 16, "flink-string").tolist(), weights, strict=True):
        shares[group * 3 // 16] += weight / sum(weights)
    assert np.allclose(expected_load(scenario).operators["count"].task_shares, shares, rtol=1e-12)
    assert not np.allclose(expected_load(word_count()).operators["count"].task_shares, shares)


def test_load_of_hosts_is_that_of_their_tasks_over_their_cores() -> None:
    scenario = word_count()
    load = expected_load(scenario)
    placed = layout.placement(scenario)
    for host, found in load.hosts.items():
        busy = sum(
            float(load.operators[operator].utilisation[index])
            for operator, index in layout.tasks(scenario)
            if placed[layout.task_name(operator, index)] == host
        )
        assert math.isclose(found.utilisation, busy / 2)


def test_on_dedicated_cores_a_host_is_as_busy_as_its_busiest_task() -> None:
    load = expected_load(word_count(hosts__worker__cpu="dedicated"))
    busiest = max(float(load.operators[name].utilisation.max()) for name in ("split", "count"))
    assert max(host.utilisation for host in load.hosts.values()) == busiest


def test_threads_and_speed_divide_the_load() -> None:
    plain = expected_load(word_count()).operators["split"].utilisation
    assert np.allclose(expected_load(word_count(operators__split__threads=4)).operators["split"].utilisation, plain / 4)
    assert np.allclose(expected_load(word_count(hosts__worker__speed=2.0)).operators["split"].utilisation, plain / 2)
    # Of 100 s others take nothing for 20, half for 30, three quarters for 50: 47.5 % are left.
    steps = [{"at": "20 s", "share": 0.5}, {"at": "50 s", "share": 0.75}, {"at": "200 s", "share": 0.0}]
    others = expected_load(word_count(hosts__worker__load={"steps": steps})).operators["split"].utilisation
    assert np.allclose(others, plain / 0.475)


def test_bytes_on_links_equal_a_loop_over_pairs_of_tasks() -> None:
    scenario = word_count()
    load = expected_load(scenario)
    placed = layout.placement(scenario)
    sizes = {"text": 200.0, "split": 20.0, "count": 20.0}
    sent: dict[str, float] = defaultdict(float)
    received: dict[str, float] = defaultdict(float)
    for name, operator in scenario.operators.items():
        for upstream in operator.inputs:
            rate = load.operators[upstream].flow.rate_out.mean_per_s * sizes[upstream]
            for i, share_i in enumerate(load.operators[upstream].task_shares):
                for j, share_j in enumerate(load.operators[name].task_shares):
                    start, end = placed[f"{upstream}-{i}"], placed[f"{name}-{j}"]
                    if start != end:
                        sent[start] += rate * share_i * share_j
                        received[end] += rate * share_i * share_j
    for host, found in load.hosts.items():
        assert math.isclose(found.sent_bytes_per_s, sent[host])
        assert math.isclose(found.received_bytes_per_s, received[host])
        assert found.link_utilisation == max(found.sent_bytes_per_s, found.received_bytes_per_s) / 1e6


def test_what_one_host_sends_another_receives() -> None:
    hosts = expected_load(word_count(hosts__worker__count=3)).hosts.values()
    assert math.isclose(sum(h.sent_bytes_per_s for h in hosts), sum(h.received_bytes_per_s for h in hosts))


def test_acks_over_links_go_back_to_the_sources_of_their_roots() -> None:
    raw: dict[str, Any] = {
        "duration": "10 s",
        "workload": {"s": {"rate": "10 /s", "tuple": "100 B"}, "t": {"rate": "30 /s", "tuple": "100 B"}},
        "operators": {
            "s": {"kind": "source"},
            "t": {"kind": "source"},
            "out": {"kind": "sink", "inputs": {"s": "shuffle", "t": "shuffle"}},
        },
        "hosts": {name: {"network": "100 kB/s"} for name in "abc"},
        "placement": {"operators": {"s": "a", "t": "b", "out": "c"}},
        "fault_tolerance": {
            "method": "acker", "guarantee": "at-least-once", "acker": {"transport": "links", "ack": "5 kB"},
        },
    }  # fmt: skip
    scenario = scenario_from(raw)
    hosts = expected_load(scenario).hosts
    # 10 and 30 tuples a second of 100 B to the sink, and as many acks of 5 kB from it.
    assert [hosts[name].sent_bytes_per_s for name in ("a-0", "b-0", "c-0")] == [1000, 3000, 200_000]
    assert [hosts[name].received_bytes_per_s for name in ("a-0", "b-0", "c-0")] == [50_000, 150_000, 4000]
    advice = [str(one) for one in warnings(scenario)]
    assert advice == [
        "hosts.b.network: the link of b-0 would need 1.5 times its bandwidth",
        "hosts.c.network: the link of c-0 would need 2 times its bandwidth",
    ]
    raw["fault_tolerance"]["acker"]["transport"] = "latency"
    assert expected_load(scenario_from(raw)).hosts["c-0"].sent_bytes_per_s == 0


def test_forward_sends_nothing_between_tasks_on_one_host() -> None:
    scenario = word_count(
        operators__split__parallelism=1, operators__split__inputs={"text": "forward"}, hosts__worker__count=1
    )
    (host,) = expected_load(scenario).hosts.values()
    assert (host.sent_bytes_per_s, host.received_bytes_per_s) == (0, 0)


# state, bytes at the end: 300 keys, 16 groups, 4000 tuples in 100 s
STATES = [
    ({"model": "per-key", "bytes": "50 B"}, 300 * 50),
    ({"model": "fixed", "bytes": "1 kB"}, 16_000),
    ({"model": "per-tuple", "bytes": "2 B"}, 8000),
    ({"model": "window", "bytes": "2 B", "length": "10 s"}, 800),
]


@pytest.mark.parametrize(("state", "expected"), STATES)
def test_state_at_the_end_follows_its_model(state: dict[str, str], expected: float) -> None:
    load = expected_load(word_count(operators__count__state=state))
    assert math.isclose(load.operators["count"].state_bytes, expected)


RATES = [
    ("7 /s", 7, 7),
    (
        {"steps": [{"at": "0 s", "rate": "10 /s"}, {"at": "75 s", "rate": "50 /s"}, {"at": "200 s", "rate": "99 /s"}]},
        20,
        50,
    ),
    ({"ramp": {"start": "0 /s", "end": "10 /s", "over": "50 s"}}, 7.5, 10),
    ({"ramp": {"start": "0 /s", "end": "10 /s", "over": "200 s"}}, 2.5, 5),
    ({"profile": "p", "span": "50 s", "mean": "8 /s"}, 4, 8),
    ({"series": "s.csv", "step": "1 s"}, 0, 0),
]


@pytest.mark.parametrize(("rate", "mean", "peak"), RATES)
def test_the_mean_rate_is_the_integral_over_the_run(rate: object, mean: float, peak: float) -> None:
    found = source_rate(word_count(workload__text__rate=rate), "text")
    assert (found.mean_per_s, found.peak_per_s) == (pytest.approx(mean), pytest.approx(peak))


def test_a_recorded_series_overrules_what_is_assumed_and_may_end_early() -> None:
    scenario = word_count(workload__text__rate={"series": "s.csv", "step": "1 s"})
    series = RateSeries(np.array([0.0, 20.0, 50.0]), np.array([10.0, 20.0]))
    found = source_rate(scenario, "text", RunInputs(rates={"text": series}))
    assert (found.mean_per_s, found.peak_per_s) == (8, 20)
    assert expected_load(scenario).assumptions == ("the series of text was not read: its rate counts as zero",)
    assert expected_load(scenario, RunInputs(rates={"text": series})).assumptions == ()


def test_key_groups_of_a_profile_get_its_weights() -> None:
    rate = {"profile": "p", "span": "100 s", "mean": "10 /s"}
    scenario = word_count(workload__text={"rate": rate, "keys": {"distribution": "profile"}},
        operators__split__output={"tuple": "20 B"})  # fmt: skip
    weights = np.zeros((16, 2))
    weights[5] = [30, 10]
    weights[6] = [0, 60]
    series = RateSeries(np.array([0.0, 50.0, 100.0]), np.array([10.0, 10.0]), weights)
    load = expected_load(scenario, RunInputs(rates={"text": series}))
    assert np.allclose(load.operators["count"].task_shares, [0.6, 0, 0.4])


@pytest.mark.parametrize("groups", [1, 7, 64])
def test_vectorised_key_groups_equal_crc32_of_each_key(groups: int) -> None:
    assert groups_of_keys(12_345, groups).tolist() == [crc32_group(str(key), groups) for key in range(12_345)]


def test_group_shares_sum_to_one_and_count_uniform_keys() -> None:
    counts = Counter(crc32_group(str(key), 8) for key in range(100))
    assert np.allclose(group_shares(UniformKeys(count=100), 8), [counts[group] / 100 for group in range(8)])
    assert math.isclose(group_shares(ZipfKeys(count=1000, exponent=1.5), 8).sum(), 1)


def test_an_estimate_counts_tuples_steps_and_events_of_all_replications() -> None:
    found = estimate(word_count(replications=3))
    assert (found.tuples, found.steps) == (3000, 3 * 100 * (10 + 10 + 40 + 40))
    assert found.events == 3 * 7 * 100  # seven tasks are looked at every second of 100
    assert found.memory_bytes >= found.steps * BYTES_PER_STEP
    of_steps = found.steps * SECONDS_PER_STEP[found.detail]
    assert found.time_s == pytest.approx(of_steps + found.events * SECONDS_PER_EVENT + 3 * SECONDS_PER_RUN)


def test_the_event_loop_takes_longer_and_what_is_never_served_takes_no_time() -> None:
    def steps_s(rate: str, cpu: str) -> float:
        service = {"distribution": "deterministic", "value": "25 ms"}
        made = word_count(
            workload__text={"rate": rate, "keys": {"distribution": "uniform", "count": 10}},
            operators__split__service=service,
            hosts__worker__cpu=cpu,
        )
        found = estimate(made)
        assert found.detail == "tuples"
        return found.time_s - found.events * SECONDS_PER_EVENT - SECONDS_PER_RUN

    scanned, shared = steps_s("10 /s", "dedicated"), steps_s("10 /s", "shared")
    assert shared / scanned == pytest.approx(SECONDS_PER_STEP["tuples"] / SECONDS_PER_SCANNED["tuples"])
    two_tasks = 80  # tuples/s that the operator serves
    beyond = steps_s("1000 /s", "dedicated") - steps_s(f"{two_tasks} /s", "dedicated")
    assert beyond == pytest.approx(100 * (1000 - two_tasks) * SECONDS_PER_SCANNED["tuples"])  # arrivals alone


def test_checkpoints_count_as_events() -> None:
    plain = estimate(word_count()).events
    saved = estimate(word_count(fault_tolerance={"method": "checkpoint", "interval": "2 s"})).events
    assert saved - plain == pytest.approx(100 * (1 + 2 + 16 + 1) / 2)


def test_a_long_run_is_looked_at_a_thousand_times() -> None:
    assert estimate(word_count(duration="10 d")).events == 7 * 1000


def test_a_checkpoint_every_nanosecond_is_refused_before_it_starts() -> None:
    scenario = word_count(fault_tolerance={"method": "checkpoint", "interval": "1 ns"})
    with pytest.raises(InputError, match=r"limits\.time"):
        check_limits(scenario, estimate(scenario))


# limits, the path that is refused
LIMITS = [
    ({"steps": 9999}, "limits.steps"),
    ({"memory": "1 MB"}, "limits.memory"),
    ({"time": "1 ms"}, "limits.time"),
]


@pytest.mark.parametrize(("limits", "path"), LIMITS)
def test_a_run_above_a_limit_is_refused_with_estimate_and_limit(limits: dict[str, object], path: str) -> None:
    scenario = word_count(limits=limits)
    with pytest.raises(InputError) as caught:
        check_limits(scenario, estimate(scenario))
    (fault,) = caught.value.faults
    assert fault.path == path
    assert fault.rule.startswith("the run needs about")
    assert str(next(iter(limits.values()))) in str(fault)


@pytest.mark.parametrize(("replications", "advice"), [(1, "make the run shorter"), (3, "give it fewer replications")])
def test_fewer_replications_are_advised_where_there_are_several(replications: int, advice: str) -> None:
    scenario = word_count(limits={"memory": "1 MB"}, replications=replications)
    with pytest.raises(InputError) as caught:
        check_limits(scenario, estimate(scenario))
    assert advice in str(caught.value)


def test_a_run_within_its_limits_is_not_refused() -> None:
    scenario = word_count()
    assert check_limits(scenario, estimate(scenario)) is None  # type: ignore[func-returns-value]
