"""The control plane of a run: hosts that live, owners of key groups, failures and recovery."""
