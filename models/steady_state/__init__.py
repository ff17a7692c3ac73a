"""Closed formulas for a scenario at mean rates: flow, load, latency, backlog, and what a run of it costs.

They build on each other: `flow` (rates of operators), `load` (utilisation of tasks, hosts and links), `latency` (waits,
by `queueing`), `checkpoint_traffic` (whether checkpoints keep up), `estimate` (size of a run). No run is made.
"""
