"""What happens: the simulator of hosts, tasks, links, checkpoints and failures."""
