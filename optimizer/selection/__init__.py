"""Selection: which operators get replicas when capacity is short.

Operators o at levels l, x[o, l] = 1 when operator o has level l:

    maximise   sum v[o, l] x[o, l]
    subject to sum_l x[o, l] = 1                for each o; level 0 is worth nothing and weighs nothing
               sum w[o, l] x[o, l] <= W

Queries q with operators O[q], z[q] = 1 when all of them have a replica, y[o] = 1 when operator o has one:

    maximise   sum v[q] z[q]
    subject to z[q] <= y[o]                     for each q and o in O[q]
               sum w[o] y[o] <= W

Source: spec page "Adaptive selective replication", section "Three steps". What is left over by the queries goes to
single operators, by the first program.
"""

from __future__ import annotations

from optimizer.selection.operators import select_operators

__all__ = ["select_operators"]
