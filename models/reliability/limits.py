"""Bounds of the probability that something is broken, from its minimal cuts alone; cheap for any number of cuts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from models.checked_arrays import FloatArray
from models.reliability.cuts import Cuts, elements


def product_of(values: Iterable[Any]) -> Any:
    """Return the product, in the order given."""
    found: Any = 1
    for value in values:
        found = found * value
    return found


def cut_chances(cuts: Cuts, chances: FloatArray) -> FloatArray:
    """Return P(all elements of a cut are down), (n_cuts, n_p)."""
    found = [chances[:, list(elements(cut))].prod(axis=1) for cut in cuts]
    return np.array(found).reshape(len(cuts), len(chances))


def one_of(chances: FloatArray, axis: int = 0) -> FloatArray:
    """Return P(at least one of independent events), 1 - prod(1 - p), without losing digits of small ones.

    >>> f"{one_of(np.array([1e-20, 2e-20])):.15g}"
    '3e-20'
    """
    with np.errstate(divide="ignore"):
        found: FloatArray = -np.expm1(np.log1p(-chances).sum(axis=axis))
    return found


def sandwich(cuts: Cuts, chances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (low, high) for P(broken), each (n_p,).

    High: cuts are positively associated, so P(none fails) >= prod(1 - P(cut)) (Esary and Proschan, 1970), which is
    below the sum over cuts. Low: cuts that share no element, taken in the order of the list, are
    independent of each other; and the sum of all minus that of pairs (Bonferroni). Equal where all are disjoint.
    """
    single = cut_chances(cuts, chances)
    high = one_of(single)
    # Greedy, likely cuts first: the bound is best if the disjoint ones have most of the probability.
    used, disjoint = 0, []
    for index in np.argsort(-single.max(axis=1), kind="stable").tolist():
        if not cuts[index] & used:
            used |= cuts[index]
            disjoint.append(index)
    low = one_of(single[sorted(disjoint)])
    if len(disjoint) < len(cuts):
        paired = _bonferroni(cuts, single, chances)
        low = low if paired is None else np.maximum(low, paired)
    return np.minimum(low, high), high


_MOST_PAIRS = 20_000


def _bonferroni(cuts: Cuts, single: FloatArray, chances: FloatArray) -> FloatArray | None:
    """Return sum P(cut) - sum P(both of a pair), pairs without a common element together; None with too many others."""
    of_element: dict[int, list[int]] = {}
    pairs: set[tuple[int, int]] = set()
    for index, cut in enumerate(cuts):
        for element in elements(cut):
            others = of_element.setdefault(element, [])
            pairs.update((other, index) for other in others)
            others.append(index)
        if len(pairs) > _MOST_PAIRS:
            return None  # the other bound has to do
    first, second = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
    both = cut_chances(tuple(cuts[i] | cuts[j] for i, j in zip(first.tolist(), second.tolist(), strict=True)), chances)
    # All pairs by the square of the sum, less those with a common element, which are in `both`.
    disjoint = (single.sum(axis=0) ** 2 - (single**2).sum(axis=0)) / 2 - (single[first] * single[second]).sum(axis=0)
    found: FloatArray = single.sum(axis=0) - both.sum(axis=0) - disjoint
    return found
