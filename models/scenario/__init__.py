"""The description of one question: job, workload, cluster, fault tolerance, events; read, checked and written.

`description` lists the sections of a file; `job`, `workload`, `cluster`, `fault_tolerance` and `events` have their
keys. `reading` makes a `Scenario` of plain tables and back, `rules` checks keys against each other, `file_keys` knows
all keys for hints and JSON schemas, and `inputs` holds what a run needs besides the file.
"""
