"""The simulator of hosts, tasks, links, checkpoints and failures."""
