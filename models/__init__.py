"""Descriptions, problems and records as frozen values, and closed formulas: no clock, file or random draw.

Subpackages, lower ones first: `scenario` (what a file says), `topology` (graphs and places that follow from it),
`steady_state` (means by formulas), `records` (rows that a run leaves), `reliability` (probabilities that hosts are
down), `queries` (continuous queries that share operators), `fleet` (both over time), `planning` (problems and plans),
`engines` (rules by which real engines restart).

Modules that all of them use: `errors` and `validation_messages` (faults of input), `schema_types` (types of fields),
`units` (text to SI numbers), `display` (numbers to text), `checked_arrays`, `distributions`, `table`.
"""
