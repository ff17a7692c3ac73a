"""Pages of results: each gathers what it shows and picks its sections."""
