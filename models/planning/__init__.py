"""Planning problems, and what their answers look like."""
