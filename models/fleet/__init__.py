"""Queries that come and go on hosts that fail: what a file says, numbers of it, exact unavailability, rows of a run.

`description` is the file key by key, `rules` checks keys against each other, `system` turns names into indices and
knows P(broken) of every placement, `records` has the columns of the tables. `sim.fleet` runs a system.
"""
