"""Continuous queries as graphs of operators, merged where they do the same, and what they load hosts with."""
