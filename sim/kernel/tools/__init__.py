"""Tools of the compiled data planes: compiling and keeping code, memory layout, draws, histograms, the audit.

`cache` has the decorators that compile and the directory of compiled code, `pointer` the state as compiled code sees
it. `draws` and `arrivals` are twins of `sim.draws` and `sim.arrivals` with the same bits, `histograms` counts rows
without keeping them, and `audit_sums` checks at the end that no tuple was lost or processed twice.
"""
