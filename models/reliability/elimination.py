"""Variable elimination: one element after the other is summed out of tables, in the order of least fill.

A table says P(something that was summed out is broken) for each state of the elements it still depends on. Joining two
tables a, b gives a + (1 - a) b; summing out an element gives up b(up) + down b(down). Nothing is subtracted from 1 but
what is near 0 or 0 exactly, so small probabilities keep their digits. The cost grows with 2^width, and not with the
number of cuts: made for "some of all queries is broken". (Dechter, *Bucket elimination*, Artificial Intelligence 1999.)
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import FloatArray
from models.reliability.cuts import Cuts, elements

MOST_WIDTH = 18
_Table = tuple[tuple[int, ...], FloatArray]  # the elements, ascending, and an array (n_p or 1, 2, .., 2); 1 is down


def elimination_order(cuts: Cuts, most_width: int | None = None) -> tuple[list[int], int]:
    """Return the elements in the order of least fill, and the width: how many others a table has at most.

    Stops at an element of more than `most_width` others.
    """
    linked = _links(cuts)
    scores = {element: _fill(linked, element) for element in linked}
    order, width = [], 0
    while linked:
        element = min(scores, key=lambda one: (scores[one], linked[one].bit_count(), one))
        around = linked.pop(element)
        del scores[element]
        order.append(element)
        width = max(width, around.bit_count())
        if most_width is not None and width > most_width:
            break
        # The neighbours of an element that is eliminated are in one table from now on: link them all.
        changed = around
        for other in elements(around):
            linked[other] = (linked[other] | around) & ~(1 << element | 1 << other)
            changed |= linked[other]
        for other in elements(changed):
            scores[other] = _fill(linked, other)
    return order, width


def _links(cuts: Cuts) -> dict[int, int]:
    linked: dict[int, int] = {}
    for cut in cuts:
        for element in elements(cut):
            linked[element] = linked.get(element, 0) | cut & ~(1 << element)
    return dict(sorted(linked.items()))


def _fill(linked: dict[int, int], element: int) -> int:
    """Return twice the pairs of neighbours that are not linked yet."""
    around = linked[element]
    return sum((around & ~linked[other]).bit_count() - 1 for other in elements(around))


def eliminated(cuts: Cuts, chances: FloatArray, most_width: int = MOST_WIDTH) -> FloatArray | None:
    """Return P(broken) for each row of `chances` (n_p, n_elements), (n_p,); None when the width is above the limit."""
    order, width = elimination_order(cuts, most_width)
    if width > most_width:
        return None
    waiting: list[_Table] = [_table_of(cut) for cut in cuts]
    for element in order:
        touched = [table for table in waiting if element in table[0]]
        waiting = [table for table in waiting if element not in table[0]]
        waiting.append(_summed_out(_product(touched), element, chances[:, element]))
    found = _product(waiting)[1]
    return np.minimum(np.broadcast_to(found, len(chances)), 1.0)


def _table_of(cut: int) -> _Table:
    scope = tuple(elements(cut))
    table = np.zeros((1, *[2] * len(scope)))
    table[(0, *[1] * len(scope))] = 1.0
    return scope, table


def _product(tables: list[_Table]) -> _Table:
    scope = tuple(sorted({element for one, _ in tables for element in one}))
    # OR of the tables: broken by one of them, 1 - (1 - a) (1 - b), without subtracting nearly equal numbers.
    found = np.zeros((1, *[1] * len(scope)))
    for own, table in tables:
        shape = (len(table), *[2 if element in own else 1 for element in scope])
        found = found + (1 - found) * table.reshape(shape)
    return scope, found


def _summed_out(table: _Table, element: int, down: FloatArray) -> _Table:
    scope, values = table
    axis = scope.index(element) + 1
    q = down.reshape(-1, *[1] * (len(scope) - 1))
    up, failed = values.take(0, axis=axis), values.take(1, axis=axis)
    return tuple(one for one in scope if one != element), (1 - q) * up + q * failed
