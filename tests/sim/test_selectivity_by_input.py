"""A selectivity for each input: equal planes, what is exact by hand, and planes that are broken on purpose.

Oracles: `sim.plain`, by equality of all columns; numbers of outputs by hand; expected rates by the binomial law. No
tolerance else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from full_jobs import KINDS
from scipy import stats
from test_full_jobs import ran
from test_planes import differences, noticed

from models.records.tables import EVENT_LOOP
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.scenario.rules import not_simulated
from models.scenario.scenario import Scenario
from models.steady_state.flow import flows
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.operator_plan import OperatorPlan
from sim.plain.plane import PlainPlane

PAIRS = [(1.0, 0.0), (0.0, 1.0), (0.3, 1.7), (2.5, 0.5), (1.0, 1.0)]


def job_with_crashes(kind: str, seed: int) -> Scenario:
    """A job with all features in which an aggregate makes other numbers of outputs of each of its inputs."""
    draw = Random(f"selectivity {kind} {seed}")
    raw = KINDS[kind](Random(f"{kind} {seed}"), seed)
    one = raw["operators"]["one"]
    one.pop("window", None)
    one["selectivity"] = dict(zip(one["inputs"], draw.choice(PAIRS), strict=True))
    raw["operators"]["pool"]["selectivity"] = {"in": draw.choice([0.5, 1.3])}
    return scenario_from(raw)


def auctions(**changes: Any) -> dict[str, Any]:
    """A job in which auctions close after a while, and bids close nothing."""
    return {
        "duration": "4 s",
        "seed": 5,
        "workload": {
            "auctions": {
                "rate": "60 /s",
                "arrivals": "deterministic",
                "keys": {"distribution": "nexmark", "field": "auction.id"},
            },
            "bids": {
                "rate": "920 /s",
                "arrivals": "deterministic",
                "keys": {"distribution": "nexmark", "field": "bid.auction"},
            },
        },
        "operators": {
            "auctions": {"kind": "source"},
            "bids": {"kind": "source", "parallelism": 2},
            "close": {
                "kind": "aggregate",
                "inputs": {"auctions": "key", "bids": "key"},
                "parallelism": 2,
                "key_groups": 8,
                "selectivity": {"auctions": 1.0, "bids": 0.0},
                "postpone": {"distribution": "uniform", "low": "1 ms", "high": "900 ms"},
                "service": {"distribution": "exponential", "mean": "0.4 ms"},
                "output": {"keys": {"distribution": "nexmark", "field": "auction.seller"}, "tuple": "40 bytes"},
            }
            | changes,
            "mean": {
                "kind": "aggregate",
                "inputs": {"close": "key"},
                "parallelism": 2,
                "key_groups": 4,
                "service": {"distribution": "exponential", "mean": "1 ms"},
                "state": {"model": "per-key", "bytes": "80 bytes"},
            },
            "out": {"kind": "sink", "inputs": {"mean": "shuffle"}},
        },
        "hosts": {"h": {"count": 3, "network": "1 MB/s"}},
        "network": {"latency": "2 ms", "sharing": "fifo"},
        "fault_tolerance": {"method": "none"},
    }


MOVED = {"half": {"kind": "reconfigure", "at": "2 s", "operator": "close", "strategy": "batched", "size": 2}}


def on_both(made: Scenario) -> list[str]:
    return differences(simulate(made, plane=PlainPlane), simulate(made, plane=CompiledPlane))


@pytest.mark.parametrize("kind", ["moving", "replicated"])
def test_both_planes_give_equal_rows_beside_crashes(kind: str) -> None:
    made_of: Counter[str] = Counter()
    for seed in range(4):
        made = job_with_crashes(kind, seed)
        plain, compiled = ran(made, PlainPlane), ran(made, CompiledPlane)
        assert differences(plain.records, compiled.records) == [], seed
        made_of["expected"] += int(plain.records.tables["ledger"]["expected"].sum())
        made_of["failures"] += len(plain.records.tables["failures"]["host"])
    assert made_of["expected"] > 1000
    assert made_of["failures"] > 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["moving", "replicated"])
def test_a_long_campaign_of_equal_rows(kind: str) -> None:
    for seed in range(100, 300):
        made = job_with_crashes(kind, seed)
        assert differences(ran(made, PlainPlane).records, ran(made, CompiledPlane).records) == [], seed


@pytest.mark.parametrize("events", [{}, MOVED], ids=["at rest", "moved"])
def test_each_auction_is_closed_once_and_no_bid_closes_anything(events: dict[str, Any]) -> None:
    made = scenario_from(auctions(postpone={"distribution": "deterministic", "value": "100 ms"}) | {"events": events})
    assert not_simulated(made) == []
    assert kernel_for(RunPlan.of(made, RunInputs(), 0)).name == EVENT_LOOP
    plain, compiled = simulate(made, plane=PlainPlane), simulate(made, plane=CompiledPlane)
    assert differences(plain, compiled) == []
    visits = plain.tables["visits"]
    closed = int((visits["operator"] == plain.operators.index("mean")).sum())
    # 60 auctions are opened in a second; those of the last 100 ms are open at the end, a few are on their way.
    assert 60 * 3.9 - 3 <= closed <= 60 * 3.9
    assert int(plain.tables["ledger"]["lost"].sum()) == 0
    assert int(plain.tables["ledger"]["duplicated"].sum()) == 0


@pytest.mark.parametrize("pair", PAIRS)
def test_planes_agree_with_any_pair_of_selectivities(pair: tuple[float, float]) -> None:
    made = auctions(selectivity=dict(zip(("auctions", "bids"), pair, strict=True)))
    made["operators"]["mean"]["service"]["mean"] = "0.1 ms"
    assert on_both(scenario_from(made | {"events": MOVED})) == []


def test_numbers_of_outputs_are_those_of_each_input() -> None:
    raw = auctions(selectivity={"auctions": 0.7, "bids": 0.2})
    del raw["operators"]["close"]["postpone"]
    raw["operators"]["mean"]["service"]["mean"] = "0.1 ms"
    made = scenario_from(raw)
    found = simulate(made)
    rows = np.bincount(found.tables["visits"]["operator"], minlength=5)
    auction, bid, came = (int(rows[found.operators.index(name)]) for name in ("auctions", "bids", "mean"))
    mean, variance = 0.7 * auction + 0.2 * bid, 0.21 * auction + 0.16 * bid
    assert abs(came - mean) < stats.norm.isf(5e-7) * variance**0.5 + 5  # a few are on their way
    assert flows(made)["close"].rate_out.mean_per_s == pytest.approx(0.7 * 60 + 0.2 * 920)
    assert flows(made)["mean"].rate_in.peak_per_s == pytest.approx(0.7 * 60 + 0.2 * 920)


# -- broken on purpose

Patch = pytest.MonkeyPatch
right = OperatorPlan.outputs


def of_the_first_input(plan: OperatorPlan, tuple_id: int, key: int, upstream: int | None = None) -> Any:
    return right(plan, tuple_id, key, next(iter(plan.counts)) if plan.counts else upstream)


def the_most_of_all(plan: OperatorPlan, tuple_id: int, key: int, upstream: int | None = None) -> list[tuple[int, int]]:
    counts, plan.counts = plan.counts, None
    made = right(plan, tuple_id, key, upstream)
    plan.counts = counts
    return made


@pytest.mark.parametrize("wrong", [of_the_first_input, the_most_of_all])
def test_a_plane_that_mixes_inputs_up_is_noticed(monkeypatch: Patch, wrong: Callable[..., Any]) -> None:
    monkeypatch.setattr(OperatorPlan, "outputs", wrong)
    assert noticed(lambda _: on_both(scenario_from(auctions())), [0])


def test_an_audit_that_takes_all_inputs_alike_is_noticed(monkeypatch: Patch) -> None:
    def made(operator: OperatorPlan, tuple_id: int, key: int, _: int) -> list[tuple[int, int]]:
        return the_most_of_all(operator, tuple_id, key) if operator.edges and operator.windows is None else []

    found = simulate(scenario_from(auctions()), plane=PlainPlane)
    assert int(found.tables["ledger"]["lost"].sum()) == 0
    monkeypatch.setattr("sim.plain.audit._made", made)
    found = simulate(scenario_from(auctions()), plane=PlainPlane)
    assert int(found.tables["ledger"]["lost"].sum()) > 0
