"""Summarise runs of hosts and queries that come and go."""
