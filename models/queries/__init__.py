"""Continuous queries: operators and their loads, merged into one graph, as the schema of a file says.

`description` is the file, `operators` a query by itself, `graph` all queries at once, with the loads of operators as
linear functions of the rates of streams.
"""
