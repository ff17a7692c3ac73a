"""Tools of the compiled data planes: compiling and keeping code, memory layout, draws, histograms, the audit.

`cache` has the decorators of functions that are compiled, or loaded where their code is kept: `native` loads it
without Numba, and `compiler` makes it, with what `intrinsics` generates. `pointer` is the state as compiled code sees
it. `draws` and `arrivals` are twins of `sim.draws` and `sim.arrivals` with the same bits, `histograms` counts rows
without keeping them, and `audit_sums` checks at the end that no tuple was lost or processed twice.
"""
