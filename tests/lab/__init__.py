"""The schedule laboratory: the plain data plane under a scheduler in place of a clock (`README.md`)."""
