"""The scan: a compiled data plane for runs in which every task is a server of its own and no host fails."""
