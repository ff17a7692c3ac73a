"""Sweeps: every design point times every replication, stored, resumed and compared."""
