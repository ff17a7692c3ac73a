"""Stationary laws of Markov chains in continuous time, with all digits of small probabilities.

States are taken out one after the other, the last first, and put back (Grassmann, Taksar and Heyman, *Regenerative
analysis and steady state distributions for Markov chains*, Operations Research 1985). Nothing is subtracted, so every
probability is right to about the number of states times the rounding error, however small it is (O'Cinneide, Numerische
Mathematik 1993). Rates are kept sparse: only neighbours of a state that is taken out are touched.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.checked_arrays import FloatArray
from models.errors import InputError

Rate = float | FloatArray
MOST_WORK = 50_000_000  # pairs of neighbours that are touched


def stationary(n_states: int, rates: Mapping[tuple[int, int], Rate]) -> FloatArray:
    """Return P(state) in the long run, (n_states,), for `rates` (from, to) > 0.

    Rates that are arrays (n,) ask for n chains at once, (n_states, n); there a rate may be 0 in some of them.

    Number the states so that the frequent ones come first. State 0 has to be reached from all others; states that
    cannot be reached from it get 0. Raises InputError for a chain that has no such law, or that is too dense.
    """
    into: list[dict[int, Rate]] = [{} for _ in range(n_states)]
    out: list[dict[int, Rate]] = [{} for _ in range(n_states)]
    shape: tuple[int, ...] = ()
    for (start, end), rate in rates.items():
        shape = np.shape(rate)
        # For one chain a rate must be positive; an array may have 0 where that chain lacks the transition.
        good = np.all(np.isfinite(rate)) and (np.min(rate) >= 0 if shape else rate > 0)
        if not good:
            raise InputError.at(f"rates[{start}, {end}]", rate, "must be positive and finite")
        if start != end:
            out[start][end] = into[end][start] = rate if shape else float(rate)
    # Back substitution: each state from the states below it, in units of state 0.
    leaving = _taken_out(into, out)
    found = np.zeros((n_states, *shape))
    found[0] = 1.0
    for state in range(1, n_states):
        found[state] = sum(found[start] * rate for start, rate in into[state].items()) / leaving[state]
    # Normalised at the end: in units of state 0 nothing was subtracted.
    result: FloatArray = found / found.sum(axis=0)
    return result


def _taken_out(into: list[dict[int, Rate]], out: list[dict[int, Rate]]) -> list[Rate]:
    """Take out all states but 0, the last first; leaves the rates from lower states, and each one's rate to them."""
    leaving: list[Rate] = [0.0] * len(into)
    work = 0
    for state in range(len(into) - 1, 0, -1):
        targets, sources = out[state], into[state]
        total = sum(targets.values())
        if not np.all(total):
            raise InputError.at("rates", state, "a state from which state 0 is not reached", "the chain has no one law")
        leaving[state] = total
        # Fill-in grows with the product of neighbours: counted, so that a dense chain is refused and not waited for.
        work += len(sources) * len(targets)
        if work > MOST_WORK:
            raise InputError.at("states", len(into), "are linked too densely for an exact solution")
        # A path through the state becomes a rate of its own, weighted by where the state leads.
        for start, rate in sources.items():
            del out[start][state]
            for end, onward in targets.items():
                if start != end:
                    more = out[start].get(end, 0.0) + rate * onward / total
                    out[start][end] = into[end][start] = more
        for end in targets:
            del into[end][state]
    return leaving
