"""Availability of queries by sampling states of the hosts: plain runs, and methods for rare failures.

`plain` takes independent states, 64 in a word; `importance_sampling` has likelihood ratios and strata for rare
failures; `states` are the compiled loops of both. `models.reliability` answers the same questions exactly where that is
possible, and tests compare the two.
"""
