"""Availability of queries whose operators have replicas: exact where that is possible, bounds elsewhere; no draws.

From a file to an answer: `description` (the file), `problem` (its settings), `queries` (who needs which host, and the
chances that hosts are down), `cuts` (failure sets that break a query), `exact` (their probability). `repair` has Markov
chains for hosts that share crews, `law` the number of queries that are broken at once, `importance` what one element or
replica changes, `times` the way between times and probabilities, and `failure_log` recorded outages.
"""
