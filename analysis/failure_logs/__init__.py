"""Failure logs: reading without Spark, rates, and laws of times to failure and repair."""
