"""Local search: shifts, swaps, ejection chains, large neighbourhoods."""
