"""Rules by which real engines act: when they notice a failure, and how they restart. No simulation.

`restart_strategies` says how long Flink waits before a restart; `flink_restart` goes from the death of a TaskManager to
the last RUNNING of the job. `flink`, `spark` and `kafka_streams` have the values of their versions, and what of them is
modelled.
"""
