"""Checking of answers without a solver: constraints and objective recomputed, claims judged."""
