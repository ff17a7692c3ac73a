"""Availability of queries by sampling of failed hosts."""
