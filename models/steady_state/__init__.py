"""Closed formulas for a scenario at mean rates: flow, load, latency, backlog, and what a run of it costs."""
