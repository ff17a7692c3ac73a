"""Hosts that fail, instances of operators on them, and queries: what serves, and what a manager changes; no tuples."""
