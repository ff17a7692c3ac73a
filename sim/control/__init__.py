"""The control plane of a run: which hosts live, who owns which key group, failures and recovery."""
