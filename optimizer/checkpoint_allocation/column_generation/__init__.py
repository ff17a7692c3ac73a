"""Column generation for allocations with load capacities, by multipliers of the checkpoints.

The linear relaxation lets a node store parts of checkpoints. Dantzig-Wolfe lets it store a mixture of sets that fit,
which is a higher bound. `optimizer.verify.checkpoint_bounds` proves it, `multipliers` finds it, and `knapsack` is its
oracle. `improve` (dives) and `meet_in_the_middle` (a few nodes packed again) make allocations of the sets; `search` is
the whole.
"""
