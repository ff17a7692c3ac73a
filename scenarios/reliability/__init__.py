"""Availability files and failure logs: answers by exact methods or sampling."""
