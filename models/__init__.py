"""What exists, and closed formulas about it: no clock, no file, no random draw."""
