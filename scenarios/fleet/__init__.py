"""Runs of queries that come and go on hosts that fail."""
