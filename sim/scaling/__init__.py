"""Elasticity: which key groups move and which hosts come and go as the load changes.

`adaptation` decides, as pure functions of loads; `elasticity` is the process that asks it each period and requests the
moves; `spare_hosts` acquires and releases hosts, and changes the number of tasks of operators. `operator_policy`
decides about these, as pure functions of reports, and `operator_scaling` is the process that asks it.
"""
