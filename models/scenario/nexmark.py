"""The keys of NEXMark's events: persons, auctions and bids of an auction site.

Events come in cycles of 50: one person, then three auctions, then 46 bids. Persons and auctions are numbered from 0 in
order of creation. A hot key is one that many events refer to; it is replaced when 100 new ones have been created.

Source: the generators of NEXMark for Flink (github.com/nexmark/nexmark) and of Apache Beam, which agree on these rules;
they add 1,000 to each id, which changes no partitioning by hash in distribution.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import Literal, NamedTuple

import numpy as np

PERSONS, AUCTIONS, BIDS = 1, 3, 46  # in a cycle
HOT_EVERY = 100  # new ids, then another key is hot
AHEAD = 10  # ids that are not created yet and are drawn all the same
ACTIVE_PERSONS = 1_000
_POINTS = 500  # at which the number of different ids is integrated

Field = Literal["person.id", "auction.id", "auction.seller", "bid.auction", "bid.bidder"]


class Reference(NamedTuple):
    """How an event of one kind refers to a person or an auction.

    `in_cycle`: events of its kind in a cycle. `created`: ids of the kind that it refers to in a cycle; those of its own
    cycle exist before it. `hot`: the probability of the hot key, whose id is a multiple of 100 plus `hot_rest`.
    """

    in_cycle: int
    created: int
    hot: float
    hot_rest: int


IN_ORDER: dict[Field, int] = {"person.id": PERSONS, "auction.id": AUCTIONS}
"""The ids of the events themselves: one after the other."""

REFERENCES: dict[Field, Reference] = {
    "auction.seller": Reference(AUCTIONS, PERSONS, 3 / 4, 0),
    "bid.auction": Reference(BIDS, AUCTIONS, 1 / 2, 0),
    "bid.bidder": Reference(BIDS, PERSONS, 3 / 4, 1),
}


def most_ids(field: Field, events: float) -> int:
    """Return an upper bound of the ids 0, 1, ... that the first events of the field's kind have, so many of them."""
    if field in IN_ORDER:
        return ceil(events) + 1
    return _created(field, events) + AHEAD + REFERENCES[field].hot_rest


def ids_within(field: Field, events: float, in_flight: int) -> int:
    """Return an upper bound of the different ids of so many events on end, of a run that has gone on for long."""
    if field in IN_ORDER:
        return ceil(events) + 1
    return _created(field, events) + active_ids(field, in_flight) + AHEAD + 1


def expected_ids(field: Field, events: float, seen: float, in_flight: int) -> float:
    """Return how many different ids the first events of the field's kind have, of which `seen` are drawn at random.

    An id is drawn as one of the newest ones while it is one of them, so often that its number is a Poisson variable;
    every hundredth is hot as well.
    """
    if field in IN_ORDER or events <= 0:
        return min(events, seen)
    reference, active = REFERENCES[field], active_ids(field, in_flight)
    created = events / reference.in_cycle * reference.created
    each = seen / created  # events for an id that is created
    hot, others = each * reference.hot * HOT_EVERY, each * (1 - reference.hot)

    def drawn(ids: np.ndarray) -> np.ndarray:
        """Return the expected number of times that each has been drawn when so many ids are there."""
        first = np.minimum(ids, active)
        return np.asarray(others * (np.log1p(first / AHEAD) + (ids - first) / (active + AHEAD)))

    borders = sorted({0.0, min(active, created), max(created - active, 0.0), created + AHEAD})
    total = 0.0
    for begin, end in pairwise(borders):
        ids = begin + (end - begin) * (np.arange(_POINTS) + 0.5) / _POINTS
        times = drawn(np.minimum(ids + active, created)) - drawn(np.maximum(ids - AHEAD, 0.0))
        never = np.exp(-times) * (1 - (1 - np.exp(-hot)) / HOT_EVERY * (ids < created))
        total += float((1 - never).mean()) * (end - begin)
    return total


def active_ids(field: Field, in_flight: int) -> int:
    """Return how many of the newest persons or auctions the field refers to; the newest auction comes on top."""
    return ACTIVE_PERSONS if REFERENCES[field].created == PERSONS else in_flight + 1


def _created(field: Field, events: float) -> int:
    reference = REFERENCES[field]
    return (ceil(events / reference.in_cycle) + 1) * reference.created
