"""Why no allocation keeps all constraints: Hall violators, Farkas multipliers, irreducible infeasible sets."""
