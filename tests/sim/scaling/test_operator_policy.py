"""Operators that get more tasks, or fewer, by themselves: decisions on given reports, then runs.

The runs are the paper's: 50,000, then 120,000, then 40,000 events/s at a sentiment operator of 10 tasks (SPATE, figure
12), a thousand times slower.
"""

from __future__ import annotations

from typing import Any

import pytest
from test_planes import differences

from models.records.tables import NEVER, RunRecords
from models.scenario.rules import faults
from models.scenario.rules.support import not_simulated
from models.scenario.scenario import Scenario
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane
from sim.scaling.operator_policy import POLICIES, Report, ReportsInARow, Thresholds

S = 1_000_000_000
RULES = Thresholds(high=0.7, low=0.2)


def decided(*shares: float, tasks: int = 4, most: int = 100, rules: Thresholds = RULES) -> int | None:
    """The number of tasks after these reports."""
    found = ReportsInARow(rules).decide([Report(tasks, share) for share in shares], most)
    return None if found is None else found.tasks


@pytest.mark.parametrize(
    ("shares", "tasks"),
    [
        ((), None),
        ((0.9,), None),
        ((0.9, 0.9), 8),
        ((0.5, 0.9, 0.9), 8),
        ((0.9, 0.5), None),
        ((0.9, 0.5, 0.9), None),
        ((0.7, 0.7), None),  # at the threshold is not above it
        ((0.1, 0.1), 2),
        ((0.1, 0.9), None),
        ((0.2, 0.2), None),
    ],
)
def test_reports_in_a_row_decide(shares: tuple[float, ...], tasks: int | None) -> None:
    assert decided(*shares) == tasks


def test_there_are_as_many_reports_as_asked_for() -> None:
    rules = Thresholds(high=0.7, low=0.2, reports=3)
    assert decided(0.9, 0.9, rules=rules) is None
    assert decided(0.9, 0.9, 0.9, rules=rules) == 8


@pytest.mark.parametrize(("tasks", "grow", "after"), [(1, 1.1, 2), (4, 1.5, 6), (5, 1.5, 8), (3, 10.0, 12)])
def test_up_goes_to_the_multiple_and_by_one_at_least_up_to_the_most(tasks: int, grow: float, after: int) -> None:
    rules = Thresholds(high=0.7, low=0.2, grow=grow)
    assert decided(0.9, 0.9, tasks=tasks, rules=rules, most=12) == after


@pytest.mark.parametrize(("tasks", "shrink", "after"), [(1, 0.5, None), (2, 0.9, 1), (20, 0.25, 5), (3, 0.5, 1)])
def test_down_goes_to_the_share_and_by_one_at_least(tasks: int, shrink: float, after: int | None) -> None:
    assert decided(0.1, 0.1, tasks=tasks, rules=Thresholds(high=0.7, low=0.2, shrink=shrink)) == after


def test_an_operator_at_the_most_stays() -> None:
    assert decided(0.9, 0.9, tasks=4, most=4) is None


def test_a_decision_says_why() -> None:
    found = POLICIES["operators"](RULES).decide([Report(4, 0.96), Report(4, 0.75)], most=9)
    assert found is not None
    assert found.why == "its tasks use 96 %, 75 % of their CPU, above 70 %"


# -- runs


def job(**elasticity: Any) -> dict[str, Any]:
    """The load goes up at 60 s and down at 120 s; one task carries 12.5 events/s."""
    service = {"distribution": "deterministic", "value": "80 ms"}
    steps = [{"at": "0 s", "rate": "50 /s"}, {"at": "60 s", "rate": "120 /s"}, {"at": "120 s", "rate": "40 /s"}]
    keys = {"distribution": "uniform", "count": 400}
    rate = {"steps": steps}
    return {
        "duration": "180 s",
        "workload": {"src": {"rate": rate, "arrivals": "deterministic", "keys": keys}},
        "operators": {
            "src": {"kind": "source"},
            "sentiment": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "service": service,
                "key_groups": 200,
                "parallelism": 10,
                "state": {"model": "per-key", "bytes": "25 kB"},
            },
            "out": {"kind": "sink", "inputs": {"sentiment": "shuffle"}},
        },
        "hosts": {"h": {"count": 24, "cpu": "shared"}},
        "network": {"latency": "1 ms"},
        "placement": {"tasks": {"src-0": "h-22", "out-0": "h-23", **{f"sentiment-{k}": f"h-{k}" for k in range(10)}}},
        "fault_tolerance": {
            "method": "elastic-upstream-backup",
            "interval": "5 s",
            "store": "remote",
            # From the last checkpoints up to five seconds would be processed again, which counts as load.
            "adjustment": {"checkpoint": "new"},
        },
        "elasticity": {"policy": "operators", "period": "5 s", "high": 0.7, "low": 0.2, "shrink": 0.25} | elasticity,
    }


def scenario(raw: dict[str, Any]) -> Scenario:
    """The scenario, which has no fault and is simulated."""
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    assert [*faults(made), *not_simulated(made)] == []
    return made


def changes(records: RunRecords) -> list[tuple[float, int, int]]:
    """(instant [s], tasks before, tasks after) of each rescaling."""
    rows = records.tables["rescales"]
    at = [one / S for one in rows["at_ns"].tolist()]
    return list(zip(at, rows["before"].tolist(), rows["after"].tolist(), strict=True))


def test_the_sentiment_operator_goes_from_10_to_20_to_5_tasks() -> None:
    records = simulate(scenario(job()))
    # Utilisation 0.40, 0.96, 0.48, 0.16, 0.64: two reports after each step of the load.
    assert changes(records) == [(70.0, 10, 20), (130.0, 20, 5)]
    assert NEVER not in records.tables["rescales"]["completed_ns"].tolist()
    assert not records.tables["ledger"]["lost"].any()
    assert not records.tables["ledger"]["duplicated"].any()


def test_both_planes_agree_on_it() -> None:
    made = scenario(job() | {"duration": "80 s"})
    plain, compiled = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))
    assert differences(plain, compiled) == []
    assert changes(plain) == [(70.0, 10, 20)]


def test_more_reports_take_longer_and_other_operators_stay() -> None:
    assert changes(simulate(scenario(job(reports=4) | {"duration": "100 s"}))) == [(80.0, 10, 20)]
    made = job(operators=["counts"])
    made["operators"]["counts"] = made["operators"]["sentiment"] | {"parallelism": 1, "service": NO_WORK}
    made["operators"]["out"]["inputs"]["counts"] = "shuffle"
    made["placement"]["tasks"]["counts-0"] = "h-21"
    assert changes(simulate(scenario(made | {"duration": "100 s"}))) == []


NO_WORK = {"distribution": "deterministic", "value": "1 ms"}


def test_no_decision_is_taken_before_it_is_to_begin() -> None:
    assert changes(simulate(scenario(job(begin="90 s") | {"duration": "110 s"}))) == [(90.0, 10, 20)]


def refused(raw: dict[str, Any]) -> str:
    """All faults of a scenario."""
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    return "\n".join(map(str, [*faults(made), *not_simulated(made)]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"low": 0.7}, "elasticity.low = 0.7: must be less than elasticity.high = 0.7"),
        ({"operators": ["sentimet"]}, "sentiment"),
        ({"operators": ["src"]}, "has no key groups that can move"),
        ({"scale_out": True}, "elasticity.scale_out"),
        ({"scale_in": True}, 'with elasticity.policy = "threshold" it is'),
    ],
)
def test_what_the_policy_cannot_do_is_refused(change: dict[str, Any], said: str) -> None:
    assert said in refused(job(**change))


def test_one_fault_is_one_error() -> None:
    assert refused(job(low=0.7)).count("\n") == 0
    raw = job() | {"events": {"up": {"kind": "rescale", "at": "5 s", "operator": "sentiment", "parallelism": 12}}}
    assert refused(raw) == ""
    raw["events"]["up"]["protocol"] = "OAP"
    said = refused(raw)
    assert said.count("\n") == 0
    assert said.startswith("events.up.protocol = OAP: not simulated yet (direct, ")
    assert said.endswith(", oap are)")


def test_the_policy_needs_the_protocol() -> None:
    raw = job()
    raw["fault_tolerance"]["method"] = "checkpoint"
    assert "elastic-upstream-backup" in refused(raw)


@pytest.mark.parametrize("key", ["grow", "shrink"])
def test_a_factor_that_changes_nothing_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        scenario(job(**{key: 1.0}))
