"""How many tuples wait for the last post-dated output of their key: the bids of auctions that are open.

An auction is opened at its number over the rate a of auctions, and is open for its life L (`postpone`). A bid of the
time s refers to an auction of the age A, the hot one or another that is in flight, and is in the state at the end T if
L > A + (T - s): the auction has not closed yet. With the law of lives, G(x) = P(L > x), and its integral I, auctions
and bids of the rates a and b have by then

    a I(T)  and  b * integral of E[G(A + x)] over x = T - s from 0 to T,

where an age that is uniform up to c gives E[G(A + x)] = (I(x + c) - I(x)) / c. Some auctions that a bid refers to are
opened soon: the ten of NEXMark, and some of its own cycle; their age counts as 0. An auction that makes n outputs is
open until the last of them has left, so that 1 - (1 - G)^n takes the place of G; without any it stays open.
"""

from __future__ import annotations

from math import floor

import numpy as np

from models.distributions import TimeDistribution, survival
from models.scenario.nexmark import AHEAD, AUCTIONS, HOT_EVERY, REFERENCES

_NEAR, _FAR = 2_000, 1_000  # points of the integral: close to the end of the run, where most tuples are from; before
_LIVES = 8.0  # mean lives that are close
# Auctions of a cycle that its bids know, and that their source has still to emit, on average.
_LATE = (AUCTIONS + 1) / 2


def tuples_of_open_auctions(
    law: TimeDistribution, outputs: float, auctions_per_s: float, bids_per_s: float, in_flight: int, until_s: float
) -> float:
    """Return the expected number of tuples in the state, auctions and their bids, at a time from the start [s].

    `outputs`: mean number of outputs of an auction. A bid makes none.
    """
    if not auctions_per_s or not until_s:
        return 0.0
    near_s = min(until_s, _LIVES * law.mean_s)
    x = np.unique(np.concatenate([np.linspace(0.0, near_s, _NEAR), np.linspace(near_s, until_s, _FAR)]))
    one = np.array([survival(law, time_s) for time_s in x.tolist()])
    whole = floor(outputs)
    is_open = 1 - (1 - one) ** whole * (1 - (outputs - whole) * one) + max(0.0, 1.0 - outputs)
    integral = _integral(x, is_open)

    def of_ages(longest_s: np.ndarray) -> np.ndarray:
        """Return the probability that a bid stays, by x, whose auction has an age that is uniform up to that."""
        later = np.interp(x + longest_s, x, integral)
        return np.where(longest_s > 0, (later - integral) / np.maximum(longest_s, 1e-300), is_open)

    reference, past_s = REFERENCES["bid.auction"], until_s - x
    ids = np.minimum(in_flight + 1, auctions_per_s * past_s)  # of auctions that are there and are referred to
    hot = of_ages(np.minimum(HOT_EVERY / auctions_per_s, past_s))
    hot += (is_open - hot) * _LATE / HOT_EVERY
    opened = np.maximum(ids - _LATE, 0.0) / (ids + AHEAD)
    others = opened * of_ages(ids / auctions_per_s) + (1 - opened) * is_open
    stays = reference.hot * hot + (1 - reference.hot) * others
    return float(auctions_per_s * integral[-1] + bids_per_s * _integral(x, stays)[-1])


def _integral(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the integral from the first point to each, by trapezoids."""
    pieces = np.diff(x) * (values[1:] + values[:-1]) / 2
    return np.concatenate([[0.0], np.cumsum(pieces)])
