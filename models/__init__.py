"""Descriptions, problems and records as frozen values, and closed formulas: no clock, file or random draw."""
