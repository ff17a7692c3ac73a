"""The states of NEXMark's queries grow as the queries say: bytes per event, by the sizes of Megaphone's harness.

Oracle: bytes for each event of the mix (1 person, 3 auctions, 46 bids of 50), derived by hand from the sizes of its
structures and confirmed by 2e7 generated events (`docs/explanation/claims.md`). Tolerance: 2 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.scenario.reading import scenario_with
from models.scenario.scenario import Scenario
from models.steady_state.load import expected_load
from scenarios.files.scenario import read_scenario, resolve
from sim.engine import simulate

EVENTS, SECONDS = 2000, 12  # in a second; the state is that of the last sample
DAY = {"distribution": "uniform", "low": "1 ms", "high": "24 h"}
# A bid is kept until its auction closes: 32 bytes, and 32 for the list of an auction. An open auction has 104 and 32.
MANY = 10_000  # events in a second: of few auctions, some bids come before the first ones
OF_THE_HARNESS: dict[str, Any] = {
    "operators.close.postpone": DAY,
    "workload.bids.keys.in_flight": 2592 * MANY,  # auctions of 12 h
}


def query(name: str, events: int = EVENTS, **changes: Any) -> Scenario:
    loaded = read_scenario(resolve(name)).scenario
    shares = {"auctions": 0.06, "bids": 0.92, "persons": 0.02}
    rates = {f"workload.{source}.rate": f"{events * shares[source]} /s" for source in loaded.workload}
    common = {"events": {}, "duration": f"{SECONDS} s", "recording.memory": True}
    return scenario_with(loaded, {**common, **rates, **changes})


def states(made: Scenario) -> dict[str, tuple[float, float]]:
    """Operator -> (the last sample [s], bytes of all its tasks by then)."""
    found = simulate(made)
    rows = found.tables["memory"]
    last = rows["at_ns"] == rows["at_ns"].max()
    operator = np.array(found.task_operator)[rows["task"][last]]
    size = np.bincount(operator, weights=rows["state_bytes"][last], minlength=len(found.operators))
    return {name: (rows["at_ns"].max() / 1e9, float(size[k])) for k, name in enumerate(found.operators)}


@pytest.mark.parametrize("name", ["nexmark-q4", "nexmark-q6"])
def test_open_auctions_and_their_bids_take_39_bytes_per_event(name: str) -> None:
    at_s, size = states(query(name, MANY, **OF_THE_HARNESS))["close"]
    assert at_s > SECONDS / 2
    assert size / (MANY * at_s) == pytest.approx(39.3, rel=0.02)


# Lives that no second is a multiple of: hot auctions come by the clock, and a sample would always meet one of one age.
# Hot auctions are few, of which each has hundreds of bids: with lives at random a sample is off by a quarter.
LIVES: list[tuple[dict[str, Any], int, float]] = [
    (DAY, 12, 0.01),
    ({"distribution": "deterministic", "value": "1.93 s"}, 12, 0.02),
    ({"distribution": "uniform", "low": "1 ms", "high": "1.3 s"}, 60, 0.1),  # three standard deviations of 56 samples
]


@pytest.mark.parametrize(("life", "seconds", "tolerance"), LIVES)
def test_open_auctions_and_their_bids_are_as_many_as_expected(
    life: dict[str, Any], seconds: int, tolerance: float
) -> None:
    changes = {"operators.close.postpone": life, "workload.bids.keys.in_flight": 1000, "duration": f"{seconds} s"}
    made = query("nexmark-q4", MANY, **changes)
    rows = simulate(made).tables["memory"]
    at_s = np.unique(rows["at_ns"])[4:] / 1e9
    found = rows["state_bytes"][(rows["at_ns"] >= at_s[0] * 1e9) & (rows["task"] < 10) & (rows["task"] >= 6)].sum()
    ends = (scenario_with(made, {"duration": f"{one} s"}) for one in at_s.tolist())
    expected = sum(expected_load(one).operators["close"].state_bytes for one in ends)
    assert at_s.size > 5
    assert found == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize(("w", "life"), [(10, {"distribution": "deterministic", "value": "1.93 s"}), (100, DAY)])
def test_one_record_for_several_has_the_same_open_auctions_and_bids(w: int, life: dict[str, Any]) -> None:
    """As many bytes within 2 %: ids that one id stands for open, and close, together."""
    changes = {"operators.close.postpone": life, "workload.bids.keys.in_flight": 1000}
    (_, whole), (_, coarse) = (
        states(query("nexmark-q4", MANY, **changes, resolution=each))["close"] for each in (1, w)
    )
    assert coarse == pytest.approx(whole, rel=0.02)


def test_closed_auctions_leave_nothing() -> None:
    """With all bids kept the state would have 29 bytes for each event: 60 times as much."""
    at_s, size = states(query("nexmark-q4"))["close"]
    assert at_s > SECONDS / 2
    assert 0 < size < 0.05 * 29 * EVENTS * at_s


def test_each_seller_of_a_closed_auction_has_ten_prices() -> None:
    """An auction is by the hot person with 3 of 4; the other quarter has a thousand persons to choose from."""
    (half_s, half), (_, whole) = (states(query("nexmark-q6", duration=f"{s} s"))["average"] for s in (6, 12))
    assert half % 80 == whole % 80 == 0
    closed = 0.06 * EVENTS * half_s
    assert 0.1 * closed < half / 80 < 0.3 * closed
    assert whole > 1.5 * half


def test_persons_and_the_last_auction_of_each_seller_take_2_bytes_per_event() -> None:
    """Half of the persons take 154 bytes each; 0.149 sellers for each person have an auction of category 10, of 112."""
    events, many = 10_000, {"duration": "100 s", "fault_tolerance.interval": "100 s"}
    at_s, size = states(query("nexmark-q3", events, **many))["match"]
    assert at_s > 90
    assert size / (events * at_s) == pytest.approx(1.87, rel=0.02)


def test_new_persons_of_query_8_take_16_bytes_each_and_auctions_none() -> None:
    """In the 12 h of the experiment nobody is forgotten before the end: 0.32 bytes per event."""
    kept = {"model": "per-key", "bytes": {"persons": "16 bytes", "auctions": "0 bytes"}}
    long = {"operators.match.window.length": "547 s", "fault_tolerance.interval": "12 s"}
    at_s, size = states(query("nexmark-q8", **long, **{"operators.match.state": kept}))["match"]
    assert size / (EVENTS * at_s) == pytest.approx(0.02 * 16, rel=0.02)


@pytest.mark.parametrize(("name", "operator", "seconds"), [("nexmark-q3", "match", 40), ("nexmark-q6", "average", 12)])
def test_the_expected_state_is_what_a_run_has(name: str, operator: str, seconds: int) -> None:
    made = query(name, duration=f"{seconds} s", **{"fault_tolerance.interval": "10 s"} if name == "nexmark-q3" else {})
    at_s, size = states(made)[operator]
    expected = expected_load(made).operators[operator].state_bytes
    assert size == pytest.approx(expected * at_s / seconds, rel=0.05)  # a binomial number of a few hundred keys


@pytest.mark.parametrize(("name", "operator", "share", "size"), [("5", "count", 0.92, 48), ("8", "match", 0.08, 16)])
def test_windows_of_the_library_have_the_tuples_of_ten_seconds(
    name: str, operator: str, share: float, size: int
) -> None:
    few = {f"operators.{operator}.key_groups": 8, "fault_tolerance.interval": "100 s", "duration": "25 s"}
    at_s, found = states(query(f"nexmark-q{name}", **few))[operator]
    assert at_s > 20
    assert found == pytest.approx(EVENTS * share * 10 * size, rel=0.02)


def test_bids_of_the_last_minute_take_48_bytes_each_and_no_more() -> None:
    kept = {"operators.count.state": {"model": "window", "bytes": "48 bytes", "length": "4 s"}}
    few = {"operators.count.key_groups": 8, "fault_tolerance": {"method": "none"}}  # each has bids all the time
    at_s, size = states(query("nexmark-q5", **kept, **few))["count"]
    assert at_s > 8
    assert size / (EVENTS * 4) == pytest.approx(0.92 * 48, rel=0.02)
