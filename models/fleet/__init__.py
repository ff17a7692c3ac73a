"""Queries that come and go on hosts that fail: what a file says, numbers of it, exact unavailability, rows of a run."""
