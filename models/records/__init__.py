"""Rows and values that measure: tables of a run, histograms, profiles of traces, decisions of the control plane.

`tables` has the columns of all tables of a run, `decisions` those of one of them in detail, and `histogram` the bins
of latencies. A `profile` is the load of a trace, which a scenario can take its rates from.
"""
