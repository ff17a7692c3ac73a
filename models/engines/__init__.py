"""Rules by which real engines act: when they notice a failure, and how they restart. No simulation.

`restart_strategies` says how long Flink waits before a restart; `flink_restart` goes from the death of a TaskManager to
the last RUNNING of the job. `flink` has the values of its versions, and what of it is modelled.
"""
