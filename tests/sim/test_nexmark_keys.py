"""The keys of NEXMark's events are those of a generator that goes through the events one by one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from small_jobs import queue
from test_planes import on_both

from models.scenario.nexmark import Field, ids_within, most_ids
from models.scenario.scenario import Scenario
from models.scenario.workload import NexmarkKeys
from scenarios.files.scenario import read_scenario, resolve
from scenarios.runs.run import run
from sim.arrival_stream import ArrivalStream
from sim.arrivals import draw_arrivals
from sim.kernel.tools import draws as draws_of
from sim.nexmark_keys import nexmark_keys, seller_of

FIELDS: list[Field] = ["person.id", "auction.id", "auction.seller", "bid.auction", "bid.bidder"]
KIND = {"person.id": "person", "bid.auction": "bid", "bid.bidder": "bid"}  # else auction
LAW = {"distribution": "exponential", "mean": "1 ms"}


def by_event(field: Field, draws: list[float], in_flight: int) -> list[int]:
    """Return the keys of the first events of a kind, from counters of what each event of the cycle creates."""
    kind, found = KIND.get(field, "auction"), []
    persons = auctions = event = 0
    while len(found) < len(draws):
        slot = event % 50
        now = "person" if slot == 0 else "auction" if slot < 4 else "bid"
        persons, auctions, event = persons + (now == "person"), auctions + (now == "auction"), event + 1
        if now != kind:
            continue
        u, person, auction = draws[len(found)], persons - 1, auctions - 1
        if field == "person.id":
            found.append(person)
        elif field == "auction.id":
            found.append(auction)
        elif field == "bid.auction":
            oldest = max(auction - in_flight, 0)
            found.append(hot(auction) if u < 0.5 else oldest + int((u - 0.5) / 0.5 * (auction - oldest + 1 + 10)))
        elif u < 0.75:
            found.append(hot(person) + (field == "bid.bidder"))
        else:
            active = min(persons, 1000)
            found.append(persons - active + int((u - 0.75) / 0.25 * (active + 10)))
    return found


def hot(newest: int) -> int:
    return newest // 100 * 100


@pytest.mark.parametrize("in_flight", [1, 100])
@pytest.mark.parametrize("field", FIELDS)
def test_keys_are_those_of_a_generator_that_counts(field: Field, in_flight: int) -> None:
    draws = np.random.default_rng(3).random(70_000 if field.startswith("bid") else 6_000)
    draws[:4] = 0.0, 0.5, 0.75, np.nextafter(1.0, 0.0)
    keys = nexmark_keys(NexmarkKeys(field=field, in_flight=in_flight), np.arange(draws.size), draws)
    assert keys.tolist() == by_event(field, draws.tolist(), in_flight)


def test_the_seller_of_an_auction_is_that_of_its_event() -> None:
    draws = np.random.default_rng(7).random(20_000)
    draws[:4] = 0.0, 0.75, np.nextafter(0.75, 0.0), np.nextafter(1.0, 0.0)
    auctions = np.concatenate([np.arange(10_000), np.arange(10_000) * 997])
    expected = nexmark_keys(NexmarkKeys(field="auction.seller"), auctions, draws).tolist()
    found = [seller_of(auction, u) for auction, u in zip(auctions.tolist(), draws.tolist(), strict=True)]
    assert found == expected
    compiled = [draws_of.seller_of(auction, u) for auction, u in zip(auctions.tolist(), draws.tolist(), strict=True)]
    assert compiled == expected


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("events", [0.5, 1, 99, 4_600, 10_001.2])
def test_ids_stay_below_their_bound(field: Field, events: float) -> None:
    numbers = np.repeat(np.arange(int(np.ceil(events))), 2)
    draws = np.tile([0.0, np.nextafter(1.0, 0.0)], numbers.size // 2)
    assert nexmark_keys(NexmarkKeys(field=field), numbers, draws).max() < most_ids(field, events)


def job(field: Field, arrivals: str, rate: Any = "3000 /s", tasks: int = 2) -> Scenario:
    load = {"rate": rate, "arrivals": arrivals, "keys": {"distribution": "nexmark", "field": field}}
    found = queue(LAW, duration="4 s", workload={"src": load})
    source = found.operators["src"].model_copy(update={"parallelism": tasks})
    return found.model_copy(update={"operators": {**found.operators, "src": source}})


@pytest.mark.parametrize("field", ["person.id", "auction.id"])
@pytest.mark.parametrize("rate", ["3000 /s", {"ramp": {"start": "100 /s", "end": "5000 /s", "over": "2 s"}}])
def test_tasks_share_out_the_ids_of_evenly_spaced_events(field: Field, rate: Any) -> None:
    shared = [draw_arrivals(job(field, "deterministic", rate), "src", task, 0, None)[1] for task in range(2)]
    assert sorted(np.concatenate(shared).tolist()) == list(range(shared[0].size + shared[1].size))


@pytest.mark.parametrize("arrivals", ["deterministic", "poisson"])
@pytest.mark.parametrize(("field", "likely"), [("auction.seller", 0.75), ("bid.auction", 0.5), ("bid.bidder", 0.75)])
def test_one_key_at_a_time_is_hot(field: Field, likely: float, arrivals: str) -> None:
    keys = draw_arrivals(job(field, arrivals), "src", 1, 0, None)[1]
    for part in np.array_split(keys, 20):
        (first, often), *_ = Counter(part.tolist()).most_common(1)
        assert first % 100 == (field == "bid.bidder")
        assert often < (likely + 0.1) * part.size
    hot_share = (keys % 100 == (field == "bid.bidder")).mean()
    assert abs(hot_share - likely) < 0.03
    early, late = np.array_split(keys, 2)
    assert field == "bid.bidder" or Counter(early.tolist()).most_common(1) != Counter(late.tolist()).most_common(1)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("events", [1, 50, 3_000])
def test_different_ids_of_events_on_end_stay_below_their_bound(field: Field, events: int) -> None:
    draws = np.random.default_rng(5).random(60_000)
    keys = nexmark_keys(NexmarkKeys(field=field), np.arange(draws.size), draws)
    found = max(np.unique(keys[begin : begin + events]).size for begin in range(0, 50_000, 997))
    bound = ids_within(field, events, 100)
    assert found <= bound
    assert events < 3_000 or found > bound / 4


@pytest.mark.parametrize("arrivals", ["deterministic", "poisson"])
@pytest.mark.parametrize("field", FIELDS)
def test_blocks_are_the_keys_that_are_drawn_at_once(field: Field, arrivals: str) -> None:
    described = job(field, arrivals)
    times, keys = draw_arrivals(described, "src", 1, 0, None)
    blocks = list(ArrivalStream(described, "src", 1, 0, None, block=777))
    assert np.array_equal(np.concatenate([block[0] for block in blocks]), times)
    assert np.array_equal(np.concatenate([block[1] for block in blocks]), keys)


def test_both_planes_give_equal_rows() -> None:
    raw = {
        "duration": "3 s",
        "workload": {
            "persons": {"rate": "100 /s", "keys": {"distribution": "nexmark", "field": "person.id"}},
            "auctions": {"rate": "300 /s", "keys": {"distribution": "nexmark", "field": "auction.seller"}},
        },
        "operators": {
            "persons": {"kind": "source"},
            "auctions": {"kind": "source", "parallelism": 2},
            "match": {
                "kind": "join",
                "inputs": {"persons": "key", "auctions": "key"},
                "parallelism": 2,
                "key_groups": 8,
                "window": {"length": "1 s"},
                "service": LAW,
            },
            "out": {"kind": "sink", "inputs": {"match": "shuffle"}},
        },
        "hosts": {"h": {"count": 2}},
    }
    assert on_both(raw) == []


@pytest.mark.parametrize(
    ("query", "read", "outputs"),
    [
        ("nexmark-q1", "bids", 1.0),
        ("nexmark-q2", "bids", 1 / 123),
        ("nexmark-q3", "auctions", 0.1),
        ("nexmark-q4", "auctions", 1.0),
    ],
)
def test_queries_have_as_many_outputs_for_an_event_as_they_should(query: str, read: str, outputs: float) -> None:
    """Query 3: one category of five, and three states of six."""
    loaded = read_scenario(resolve(query), ["duration=20 s", "events={}"])
    result = run(loaded.scenario, folder=loaded.folder)
    seen = result.summary["operators"]
    events = seen[read]["processed"]
    assert seen["sink"]["processed"] / events == pytest.approx(outputs, abs=4 * (outputs / events) ** 0.5)
