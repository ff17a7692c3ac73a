"""What the records of a run say: summary, latency, recoveries, migrations, checkpoints."""
