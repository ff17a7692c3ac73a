"""`operators.X.selectivity` for each input, and keys of sellers: each thing that is wrong is said once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from changed_keys import changed

from models.errors import InputError
from models.scenario.reading import raw_of, scenario_from
from models.steady_state.load import expected_load
from models.topology import layout
from models.topology.job_graph import operator_graph

AUCTION, BID = ({"distribution": "nexmark", "field": field} for field in ("auction.id", "bid.auction"))
RAW: dict[str, Any] = {
    "duration": "10 s",
    "workload": {"auctions": {"rate": "60 /s", "keys": AUCTION}, "bids": {"rate": "920 /s", "keys": BID}},
    "operators": {
        "auctions": {"kind": "source"},
        "bids": {"kind": "source"},
        "close": {
            "kind": "aggregate",
            "inputs": {"auctions": "key", "bids": "key"},
            "selectivity": {"auctions": 0.9, "bids": 0.25},
            "service": {"distribution": "exponential", "mean": "0.2 ms"},
            "output": {"keys": {"distribution": "nexmark", "field": "auction.seller"}},
        },
        "mean": {
            "kind": "aggregate",
            "inputs": {"close": "key"},
            "key_groups": 4,
            "service": {"distribution": "exponential", "mean": "1 ms"},
            "state": {"model": "per-key", "bytes": "80 bytes"},
        },
        "out": {"kind": "sink", "inputs": {"mean": "shuffle"}},
    },
    "hosts": {"h": {"count": 2}},
}


def test_it_is_written_as_it_was_read() -> None:
    scenario = scenario_from(RAW)
    assert raw_of(scenario)["operators"]["close"]["selectivity"] == {"auctions": 0.9, "bids": 0.25}
    assert scenario_from(raw_of(scenario)) == scenario


def test_each_input_counts_by_its_own_in_rates_loads_keys_and_graphs() -> None:
    scenario = scenario_from(RAW)
    load = expected_load(scenario)
    assert load.operators["mean"].flow.rate_in.mean_per_s == pytest.approx(0.9 * 60 + 0.25 * 920)
    assert load.operators["close"].utilisation == pytest.approx(980 * 0.2e-3)
    # 600 auctions of 200 persons, and ten that are not created yet at either place.
    assert 200 < layout.keys_seen(scenario, "mean") < 230
    graph = operator_graph(scenario)
    assert graph.nodes["close"]["selectivity"] == pytest.approx((0.9 * 60 + 0.25 * 920) / 980)
    assert graph.edges["bids", "close"]["selectivity"] == 0.25
    assert graph.nodes["mean"]["selectivity"] == 1.0


def test_tasks_downstream_get_their_share_of_what_leaves() -> None:
    """Forward from tasks of which each reads mostly one source: the quiet input makes most of the outputs."""
    forward = {"kind": "map", "parallelism": 2, "service": {"distribution": "exponential", "mean": "1 us"}}
    zipf = {"distribution": "zipf", "count": 2, "exponent": 5.0}
    raw = changed(
        RAW,
        {
            "workload/auctions/keys": {"distribution": "uniform", "count": 1000},
            "workload/bids/keys": zipf,
            "operators/close/output": {"tuple": "10 bytes"},
            "operators/close/parallelism": 2,
            "operators/close/selectivity": {"auctions": 1.0, "bids": 0.0},
            "operators/next": {**forward, "inputs": {"close": "forward"}},
            "operators/mean/inputs": {"next": "key"},
        },
    )
    load = expected_load(scenario_from(raw))
    assert load.operators["close"].task_shares.max() > 0.9  # of the input: one key has nearly all bids
    assert np.abs(load.operators["next"].task_shares - 0.5).max() < 0.05


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        (
            {"operators/close/selectivity": {"auctions": 1.0}},
            "operators.close.selectivity.bids",
            "each input needs one",
        ),
        (
            {"operators/close/selectivity": {"auctions": 1.0, "bids": 0.0, "bid": 1.0}},
            "operators.close.selectivity.bid",
            "is not one of the inputs",
        ),
        ({"operators/close/selectivity": {"auctions": 1.0, "bids": -0.5}}, "operators.close.selectivity.bids", "0"),
        ({"operators/close/selectivity": -0.5}, "operators.close.selectivity", "0"),
        ({"operators/close/selectivity": "all"}, "operators.close.selectivity", "number"),
        ({"operators/close/window": {"length": "1 s"}}, "operators.close.selectivity", "must be one number: a window"),
        (
            {"operators/close/kind": "filter", "operators/close/selectivity": {"auctions": 1.5, "bids": 0.5}},
            "operators.close.selectivity.auctions",
            "at most 1 for a filter",
        ),
        ({"operators/out/selectivity": {"mean": 0.5}}, "operators.out.selectivity", "a sink has no output"),
        ({"operators/bids/selectivity": {"x": 0.5}}, "operators.bids.selectivity", "must be 1 for a source"),
        (
            {"workload/bids/keys": {"distribution": "uniform", "count": 3}},
            "operators.close.output.keys.field",
            "needs inputs whose keys are auctions",
        ),
        (
            {"operators/mean/output": {"keys": {"distribution": "nexmark", "field": "auction.seller"}}},
            "operators.mean.output.keys.field",
            "needs inputs whose keys are auctions",
        ),
        (
            {"operators/close/output/keys": {"distribution": "nexmark", "field": "bid.bidder"}},
            "operators.close.output.keys.field",
            "auction.seller",
        ),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, object], path: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed(RAW, changes))
    (fault,) = caught.value.faults
    assert fault.path == path
    assert words in f"{fault.rule} {fault.hint}"


def test_a_join_has_one_selectivity_for_its_pairs() -> None:
    raw = changed(RAW, {"operators/close/kind": "join", "operators/close/window": {"length": "1 s"}})
    with pytest.raises(InputError) as caught:
        scenario_from(raw)
    assert "a join makes its outputs of pairs" in str(caught.value)
