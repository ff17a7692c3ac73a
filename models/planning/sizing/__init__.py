"""Sizing: what a system of hosts, copies and checkpoints is asked for, and how often it is not there.

`description` is the file, `problem` the numbers: plans, costs and recovery times. Two models say how often a plan is
not there: `chain`, exact for work that is spread evenly, and `sticky_placement`, bounds for units that stay where a
recovery put them. `optimizer.sizing` chooses the cheapest plan.
"""
