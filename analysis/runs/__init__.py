"""Summarise the records of a run: latency, recoveries, migrations, checkpoints."""
