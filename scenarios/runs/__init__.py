"""Runs: inputs read and checked, replications executed, records stored."""
