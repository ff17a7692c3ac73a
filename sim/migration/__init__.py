"""Migration of key groups: protocols, and the coordinator of their runs."""
