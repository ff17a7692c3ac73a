"""Keys of NEXMark's events, from their numbers and one uniform number each."""

from __future__ import annotations

import numpy as np

from models.scenario.nexmark import (
    ACTIVE_PERSONS,
    AHEAD,
    AUCTIONS,
    HOT_EVERY,
    IN_ORDER,
    PERSONS,
    REFERENCES,
    active_ids,
)
from models.scenario.workload import NexmarkKeys


def events_at(counts: np.ndarray) -> np.ndarray:
    """Return the number (n,) of the event, from 0, at each cumulative number of arrivals (n,)."""
    return np.asarray(np.maximum(np.ceil(counts).astype(np.int64) - 1, 0))


def seller_of(auction: int, u: float) -> int:
    """Return the seller of an auction, at a uniform number: that of `nexmark_keys` for the event of its creation."""
    hot = REFERENCES["auction.seller"].hot
    newest = auction // AUCTIONS * PERSONS
    if u < hot:
        return newest // HOT_EVERY * HOT_EVERY
    first = max(newest + 1 - ACTIVE_PERSONS, 0)
    width = newest - first + 1 + AHEAD
    return first + min(int((u - hot) / (1 - hot) * width), width - 1)


def nexmark_keys(keys: NexmarkKeys, events: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return the ids (n,) of events of one kind with the numbers `events` (n,); `draws` (n,) are uniform in [0, 1).

    Draws below the probability of the hot key give it; the rest of [0, 1) is stretched over the other ids. These are
    the last persons or the auctions in flight, the newest one included, and ten that are not created yet.

    Where an event stands for several, it refers to what the first of them would, and an id stands for as many ids.
    """
    if keys.field in IN_ORDER:
        return events
    if keys.each > 1:
        return nexmark_keys(keys.of_every(1), events * keys.each, draws) // keys.each
    reference = REFERENCES[keys.field]
    created = (events // reference.in_cycle + 1) * reference.created
    newest = created - 1
    first = np.maximum(created - active_ids(keys.field, keys.in_flight), 0)
    width = newest - first + 1 + AHEAD
    is_hot = draws < reference.hot
    rest = (draws - reference.hot) / (1 - reference.hot)
    other = first + np.minimum((rest * width).astype(np.int64), width - 1)
    return np.asarray(np.where(is_hot, newest // HOT_EVERY * HOT_EVERY + reference.hot_rest, other))
