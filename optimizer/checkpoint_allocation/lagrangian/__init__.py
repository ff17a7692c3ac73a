"""Lagrangian bounds and heuristics: prices of the nodes, and answers from them."""
