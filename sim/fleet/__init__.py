"""Fleets without tuples: hosts that fail, instances of operators on them, queries, and a manager."""
