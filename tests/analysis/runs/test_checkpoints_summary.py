"""Whether checkpoints kept up with their interval, and what it cost: counts and times worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from analysis.documents import to_document
from analysis.runs.checkpoint_summary import Checkpoints, HostCheckpoints, MeanAndMax, OperatorCheckpoints
from analysis.runs.checkpoints import checkpoints, delay_series
from analysis.runs.metrics import metrics_of
from analysis.runs.summary import summarise
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.steady_state.checkpoint_traffic import LinkSharing
from sim.engine import simulate


def made(duration: str = "3.5 s", crashes: dict[str, str] | None = None, **changes: Any) -> Scenario:
    """A state that takes a second on its link is saved each second; a tuple takes 10 ms on the same link."""
    return scenario_from(
        {
            "format": 1,
            "duration": duration,
            "workload": {"src": {"rate": "1 /s", "arrivals": "deterministic", "tuple": "10 B"}},
            "operators": {
                "src": {"kind": "source"},
                "sum": {
                    "kind": "aggregate",
                    "inputs": {"src": "key"},
                    "key_groups": 1,
                    "service": {"distribution": "deterministic", "value": "1 ms"},
                    "state": {"model": "fixed", "bytes": "1 kB"},
                },
                "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
            },
            "hosts": {"near": {}, "far": {"network": "1 kB/s"}, "third": {}},
            "network": {"latency": "30 ms", "sharing": "fifo"},
            "placement": {"operators": {"src": "near", "sum": "far", "out": "near"}},
            "fault_tolerance": {"method": "checkpoint", "interval": "1 s"},
            "detector": {"heartbeat": "10 ms", "timeout": "30 ms"},
            "events": {host: {"kind": "host-failure", "at": at, "host": host} for host, at in (crashes or {}).items()},
        }
        | changes
    )


def found(scenario: Scenario, checkpoint_host: str = "third-0") -> Checkpoints:
    records = simulate(scenario, RunInputs(checkpoint_hosts={("sum", 0): checkpoint_host}))
    made = checkpoints(scenario, [records])
    assert made is not None
    return made


def counts(one: Checkpoints | OperatorCheckpoints) -> tuple[int, ...]:
    return tuple(getattr(one, name) for name in ("begun", "completed", "late", "skipped"))


def test_a_checkpoint_that_takes_longer_than_the_interval_is_late_and_the_next_one_is_skipped() -> None:
    # Taken at 1 s, stored at 2.03 s; the one due at 2 s is skipped; that of 3 s is on its way at the end.
    one = found(made())
    assert counts(one) == counts(one.operators["sum"]) == (2, 1, 1, 1)
    assert one.hosts == (HostCheckpoints("far-0", 2, 1, 1, 1),)
    assert (one.upload_s.mean, one.upload_s.max) == (pytest.approx(1.03), pytest.approx(1.03))
    assert one.longest_between_s == pytest.approx(2.03)
    assert one.age_at_failure_s == MeanAndMax(None, None)


def test_the_end_of_the_run_counts_as_the_end_of_a_time_without_a_checkpoint() -> None:
    records = simulate(made("4.9 s"), RunInputs(checkpoint_hosts={("sum", 0): "third-0"}))
    first = {name: column[:1] for name, column in records.tables["checkpoints"].items()}
    alone = replace(records, tables={**records.tables, "checkpoints": first})
    one = checkpoints(made("4.9 s"), [alone])
    assert one is not None
    assert one.longest_between_s == pytest.approx(4.9 - 2.03)


def test_delays_of_records_are_those_of_the_links() -> None:
    # By 969 and 989 ms; the tuple between them is not delayed.
    delay = {"carried": 3, "records": 2, "mean_s": pytest.approx(0.979), "max_s": pytest.approx(0.989)}
    assert to_document(found(made()).delayed) == {**delay, "hosts": [{"host": "far-0", **delay}]}


def test_replications_are_pooled() -> None:
    scenario = made()
    records = simulate(scenario, RunInputs(checkpoint_hosts={("sum", 0): "third-0"}))
    twice = checkpoints(scenario, [records, records])
    assert twice is not None
    assert counts(twice) == (4, 2, 2, 2)
    assert (twice.delayed.records, twice.delayed.max_s) == (4, pytest.approx(0.989))  # type: ignore[union-attr]
    assert twice.longest_between_s == pytest.approx(2.03)


@pytest.mark.parametrize(
    ("crashes", "age_s"),
    [
        ({"far-0": "1900 ms"}, 1.9),  # nothing is stored yet
        ({"far-0": "2900 ms"}, 1.9),  # taken at 1 s
        ({"third-0": "2500 ms", "far-0": "2900 ms"}, 2.9),  # it was lost with its checkpoint host
    ],
)
def test_the_age_at_a_failure_is_that_of_the_newest_checkpoint_that_is_left(
    crashes: dict[str, str], age_s: float
) -> None:
    assert found(made(crashes=crashes)).age_at_failure_s.max == pytest.approx(age_s)


def test_what_was_under_way_when_its_owner_died_is_not_skipped_from_then_on() -> None:
    # Far dies at 1.9 s: the checkpoint of 1 s is lost, and the group goes on elsewhere, at once, from 1.93 s on.
    one = found(made(crashes={"far-0": "1900 ms"}))
    assert counts(one)[2:] == (0, 0)


def test_without_checkpoints_nothing_is_said() -> None:
    scenario = made(fault_tolerance={"method": "none"})
    assert summarise(scenario, [simulate(scenario)]).checkpoints is None


def test_the_summary_says_how_links_are_shared_and_sweeps_can_compare_all_of_it() -> None:
    scenario = made(network={"latency": "30 ms"})
    records = simulate(scenario, RunInputs(checkpoint_hosts={("sum", 0): "third-0"}))
    summary = summarise(scenario, [records])
    why = "far-0 has a bandwidth and sends both records and checkpoints"
    assert summary.network == LinkSharing("fair", why)
    metrics = metrics_of(summary)
    assert metrics["checkpoints.skipped"] == metrics["checkpoints.operators.sum.skipped"] == 1
    assert metrics["checkpoints.delayed.max_s"] == pytest.approx(0.01)


def test_delays_over_time_are_means_of_the_records_of_each_interval() -> None:
    scenario = made()
    records = simulate(scenario, RunInputs(checkpoint_hosts={("sum", 0): "third-0"}))
    series = delay_series(records, 10**9, 8)
    assert series.names == ("far-0",)
    assert series.values.tolist() == [pytest.approx([0, 0.969, 0, 0.989])]
    assert delay_series(records, 10**9, 0).names == ()


@pytest.mark.parametrize("seed", range(12))
def test_every_checkpoint_that_is_due_is_begun_or_skipped_where_nothing_fails(seed: int) -> None:
    draw = Random(seed)
    groups, staggered = draw.randint(1, 5), draw.random() < 0.7
    store = {"store": draw.choice(["nodes", "remote"]), "remote": draw.choice(["3 kB/s", "1 MB/s"])}
    interval_ns = draw.choice([300, 500, 1000]) * 10**6
    tolerance = {"method": "checkpoint", "interval": f"{interval_ns} ns", "staggered": staggered, **store}
    scenario = made("4.9 s", fault_tolerance=tolerance, network={"latency": draw.choice(["0 s", "100 ms"])})
    operators = dict(scenario.operators) | {"sum": scenario.operators["sum"].model_copy(update={"key_groups": groups})}
    scenario = scenario.model_copy(update={"operators": operators})
    one = checkpoints(scenario, [simulate(scenario)])
    offsets = [k * interval_ns // (groups + 1) if staggered else 0 for k in range(groups)]  # the sink comes last
    due = sum(len(range(interval_ns + offset, 4_900_000_000, interval_ns)) for offset in offsets)
    assert one is not None
    assert one.begun + one.skipped == due
    assert one.skipped > 0
