"""Checks of plans from the problem alone, without any solver; solvers stand above this package and import it.

Verifiers by problem, each with its bounds and proofs:

- `checkpoints`: `constraints`, `checkpoint_bounds`, `better_assignment` and `infeasibility`, which it
  tries in turn;
- `placement`: `placement_bounds`, `placement_enumeration`;
- `selection`: `knapsack_core`;
- `replicas`: `replica_bounds`, `replica_program`, `replica_enumeration`;
- `plans`: migration steps and checkpoint intervals.

`plans.verify_plan` finds the verifier of a problem. Each recomputes the objective, lists broken constraints, and hands
what it knows to `claims`, which judges status, objective, bound and gap for all problems alike. `stated` recomputes the
other figures of a plan file.

A bound is proven here, or refuted by a better answer, or named among what was not checked: a verdict never takes a
solver's word for it.
"""
