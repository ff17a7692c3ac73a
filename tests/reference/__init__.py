"""The plain data plane: one event for each step of each tuple, the specification that a faster one has to meet."""
