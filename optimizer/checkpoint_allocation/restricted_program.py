"""Mixed-integer programs on some pairs of checkpoint and node, by HiGHS.

Three methods make them: `mixed_integer` of all pairs that are left, with rows for every constraint and a proof;
`column_generation.groups` of the pairs of a few nodes that can pay; `local_search.few_pairs` of the pairs of all nodes
that are nearest to the cheapest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from optimizer.common.quiet import quiet_stdout


def answered(cost: FloatArray, rules: list[Any], *, nodes: int, time_limit_s: float, gap: float = 0.0) -> Any:
    """Return the answer of HiGHS for binary variables (P,) and linear rules, as SciPy gives it.

    It stops after so many `nodes` of branch and bound, at the clock, or at a relative gap.
    """
    from scipy.optimize import Bounds, milp  # noqa: PLC0415

    with quiet_stdout():
        return milp(
            cost,
            integrality=np.ones(len(cost), dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=rules,
            options={"disp": False, "mip_rel_gap": gap, "node_limit": nodes, "time_limit": time_limit_s},
        )


def rules_of_pairs(
    j: IntArray, n: IntArray, share: FloatArray, most: FloatArray, least: FloatArray | float = -np.inf
) -> list[Any]:
    """Return the rules that each checkpoint is stored once, and nodes keep their limits (N,).

    `j`, `n`, `share` (P,): checkpoint and node of each pair, and its load in the unit of the limits.
    """
    from scipy import sparse  # noqa: PLC0415
    from scipy.optimize import LinearConstraint  # noqa: PLC0415

    columns, row = np.arange(len(j)), np.unique(j, return_inverse=True)[1]
    once = sparse.csr_array((np.ones(len(j)), (row, columns)))
    loads = sparse.csr_array((share, (n, columns)), shape=(len(most), len(j)))
    return [LinearConstraint(once, 1, 1), LinearConstraint(loads, least, most)]
