"""Column generation for allocations with load capacities, by multipliers of the checkpoints.

The linear relaxation lets a node store parts of checkpoints. Dantzig-Wolfe lets it store a mixture of sets that fit,
which is a higher bound. `bound` says what proves it and checks it, `multipliers` finds it, `knapsack` is its oracle and
`numbers` the arithmetic; `dive`, `groups` and `improve` make allocations of the sets; `search` is the whole.
"""
