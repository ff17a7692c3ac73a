"""The dataflow and the placement of a scenario as graphs: tasks, paths, weak points.

`layout` has names, places and the order of operators; `job_graph` makes graphs with attributes for users;
`weak_points` finds what all paths need.
"""
