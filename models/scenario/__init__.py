"""The scenario: what one file asks, its keys and their rules, read and written."""
