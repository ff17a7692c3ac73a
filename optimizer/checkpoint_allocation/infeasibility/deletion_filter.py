"""Taking parts out of what cannot hold, as long as it still cannot: until each that is left is needed.

The deletion filter of Chinneck and Dravnieks (1991), many parts at a time and then one by one. A proof may need fewer
parts than it was asked about: what it does not name leaves as well. Who was needed among more is needed among fewer;
and when a checkpoint is needed, so is another that is at least as hard to store: it asks for as much on every node.
"""

from __future__ import annotations

from collections.abc import Callable

from optimizer.checkpoint_allocation.budget import Budget
from optimizer.verify.infeasibility import Part

Parts = tuple[Part, ...]


def deletion_filter(
    parts: Parts,
    refuted: Callable[[Parts], Parts | None],
    budget: Budget,
    implied: Callable[[Part, set[Part], Parts], bool] = lambda part, needed, kept: False,
) -> Parts:
    """The parts that are left when those that are not needed are out; the budget says whether it ended before.

    `refuted` gives those that cannot hold among some, or None. `implied` says whether a part is needed for sure where
    others are.
    """
    kept, needed = parts, set[Part]()
    step = max(1, len(parts) // 2)
    while True:
        at = 0
        while at < len(kept):
            some = kept[at : at + step]
            if step == 1 and (some[0] in needed or implied(some[0], needed, kept)):
                needed.add(some[0])
                at += 1
                continue
            if budget.over:
                return kept
            rest = kept[:at] + kept[at + step :]
            less = refuted(rest) if len(rest) < len(kept) else None
            if less is not None:
                before = set(kept[:at])
                kept = tuple(part for part in rest if part in set(less))
                at = sum(part in before for part in kept)
                continue
            if step == 1:
                needed.add(some[0])
            at += step
        if step == 1:
            return kept
        step = max(1, min(step // 2, len(kept) // 2))
