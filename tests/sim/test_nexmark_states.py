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
OF_THE_HARNESS: dict[str, Any] = {
    "operators.close.postpone": DAY,
    "operators.close.state": {"model": "per-tuple", "bytes": "32 bytes"},
    "workload.bids.keys.in_flight": 2592 * EVENTS,  # auctions of 12 h
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
    at_s, size = states(query(name, **OF_THE_HARNESS))["close"]
    assert at_s > SECONDS / 2
    assert size / (EVENTS * at_s) == pytest.approx(39.3, rel=0.02)


def test_open_auctions_alone_do_not_grow_beyond_their_lives() -> None:
    at_s, size = states(query("nexmark-q4"))["close"]
    mean_life_s = 0.167
    assert size == pytest.approx(136 * 0.06 * EVENTS * mean_life_s, rel=0.25)  # Little's law, of some 20 auctions
    assert at_s > 10 * mean_life_s


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
