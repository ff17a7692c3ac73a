"""The dataflow and the placement of a scenario as graphs: tasks, paths, weak points."""
