"""The compiled data plane: the same rules as docs/simulator.md, on arrays, in Numba."""
