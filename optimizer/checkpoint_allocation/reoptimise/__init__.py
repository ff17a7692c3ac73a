"""Re-optimisation: a running plan is improved with few moves."""
