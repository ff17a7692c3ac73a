"""Sizing: what a system of hosts, copies and checkpoints is asked for, and how often it is not there."""
