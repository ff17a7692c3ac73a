"""Queries that come and go on hosts that fail: what a file says, numbers of it, promises, rows of a run."""
