"""Hosts: their cores, and the link that carries what they send to others."""

from __future__ import annotations

from models.cluster import HostGroup
from reference.processor import Processor
from reference.task import Cores, Task

_NS = 1_000_000_000


class Link:
    """A FIFO link: one transmission after the other at a fixed rate, then the latency.

    What has not left it when its host dies never arrives.
    """

    def __init__(self, bytes_per_s: float | None, latency_ns: int) -> None:
        self.bytes_per_s, self.latency_ns = bytes_per_s, latency_ns
        self.free_at_ns = 0

    def departure_ns(self, now_ns: int, size_bytes: int) -> int:
        """When what is sent now has left; holds the link for its bytes."""
        begin = max(now_ns, self.free_at_ns)
        self.free_at_ns = begin + (round(size_bytes * _NS / self.bytes_per_s) if self.bytes_per_s else 0)
        return self.free_at_ns

    def arrival_ns(self, now_ns: int, size_bytes: int) -> int:
        """When what is sent now has arrived."""
        return self.departure_ns(now_ns, size_bytes) + self.latency_ns


class Host:
    """One host; its tasks share its cores, have cores of their own, or share a processor evenly."""

    def __init__(self, index: int, name: str, group: HostGroup, latency_ns: int) -> None:
        self.index, self.name, self.group = index, name, group
        self.life = 0  # how often the host has died
        self.tickets = 0
        self.latency_ns = latency_ns
        self.link = Link(group.network_bytes_per_s, latency_ns)
        self.cores = Cores(group.cores)
        self.tasks: list[Task] = []
        self.processor: Processor | None = None  # where cores are shared evenly, or the pace has changed

    def ticket(self) -> int:
        """The next place in the order of arrivals at this host."""
        self.tickets += 1
        return self.tickets

    def cores_for(self, threads: int) -> Cores:
        """The cores that a new task runs on: the shared ones, or as many of its own as it has threads."""
        return self.cores if self.group.cpu == "shared" else Cores(threads)

    def scaled(self, service_ns: int) -> int:
        """A service time on this host's speed, at least 1 ns."""
        return service_ns if self.group.speed == 1.0 else max(1, round(service_ns / self.group.speed))

    def crash(self) -> list[Task]:
        """The host dies; returns its tasks."""
        self.life += 1
        if self.processor:
            self.processor.stop()
        tasks, self.tasks = self.tasks, []
        self.cores = Cores(self.group.cores)
        self.link = Link(self.group.network_bytes_per_s, self.latency_ns)
        return tasks
