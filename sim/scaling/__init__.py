"""Elasticity: which key groups move and which hosts come and go as the load changes."""
