"""Simulation of queries that come and go on hosts that fail: no tuples, but placements, loads and availability.

`engine` starts the processes of a replication. `failures` take hosts down, `service` notes what that breaks, `manager`
asks for changes by loads, `admitting` places queries that arrive, `reconfiguration` checks each change against the
objectives (SLO) and carries it out on the `placement`. Systems in which nothing is decided go through `outages`, which
merges down times without a clock and gives the same rows.
"""
