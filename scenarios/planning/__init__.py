"""Files of planning problems and plans, and plans for a scenario."""
