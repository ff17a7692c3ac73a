"""Mixed-integer programs on some pairs of checkpoint and node, by HiGHS.

Three methods make them: `mixed_integer` of all pairs that are left, with rows for every constraint and a proof;
`column_generation.groups` of the pairs of a few nodes that can pay; `local_search.few_pairs` of the pairs of all nodes
that are nearest to the cheapest.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from optimizer.common.solvers import Rows


def rules_of_pairs(
    j: IntArray, n: IntArray, share: FloatArray, most: FloatArray, least: FloatArray | float = -np.inf
) -> list[Rows]:
    """Return the rules that each checkpoint is stored once, and nodes keep their limits (N,).

    `j`, `n`, `share` (P,): checkpoint and node of each pair, and its load in the unit of the limits.
    """
    from scipy import sparse  # noqa: PLC0415

    columns, row = np.arange(len(j)), np.unique(j, return_inverse=True)[1]
    once = sparse.csr_array((np.ones(len(j)), (row, columns)))
    loads = sparse.csr_array((share, (n, columns)), shape=(len(most), len(j)))
    return [(once, 1, 1), (loads, least, most)]
