"""Availability of queries whose operators have replicas: exact where that is possible, bounds elsewhere; no draws."""
