"""The processor of a host whose cores are shared evenly, or whose pace others change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reference.mark import Mark
from reference.partition import Visit
from sim.clock import SERVICE
from sim.pace import FAR_NS, FULL, PARTS

if TYPE_CHECKING:
    from reference.host import Host
    from reference.task import Task, Work
    from reference.world import World


@dataclass
class Service:
    """A service in progress: the work that it takes, what has been done of it, and what of that before the warm-up."""

    task: Task
    item: Visit | Work
    start_ns: int
    work_ns: int
    done: int = 0  # parts of a nanosecond
    before: int = 0

    @property
    def left(self) -> int:
        """Work that remains [parts]; below zero by less than a nanosecond where it ends now."""
        return self.work_ns * PARTS - self.done

    def used_ns(self, done: int) -> int:
        """CPU time that was used from the warm-up on, when so many parts are done."""
        return min(self.work_ns, done // PARTS) - min(self.work_ns, self.before // PARTS)


@dataclass
class Used:
    """Of a task's tuples from the warm-up on: time in service, and CPU time that they used in it."""

    served_ns: int = 0
    used_ns: int = 0


class Processor:
    """All services in progress on a host, each at the same pace.

    At each change (a service begins or ends, the pace changes) the work that was done since the last one is taken off
    each service, rounded down to whole parts of a nanosecond. The next end is that of the service with the least work
    left, by task and then by start where several have. An event is set for it unless one of this host comes before or
    with it: an end keeps the place within its instant at which it was set first. An event that comes too early sets
    the next one.
    """

    def __init__(self, world: World, host: Host, shares_evenly: bool) -> None:
        self.world, self.host, self.clock = world, host, world.clock
        self.shares_evenly = shares_evenly
        self.pace = FULL
        self.services: list[Service] = []  # in order of start
        self.changed_ns = self.clock.now_ns()
        self.next: tuple[int, int] | None = None  # (instant, task) of the next end
        self.wakes: set[tuple[int, int]] = set()  # of the events that are set
        self.used: dict[Task, Used] = {}

    def rate(self) -> tuple[int, int]:
        """Work that a service gets done in a nanosecond, as a fraction."""
        services, cores = len(self.services), self.host.group.cores
        if self.shares_evenly and services > cores:
            return self.pace * cores, FULL * services
        return self.pace, FULL

    def take_over(self) -> None:
        """Services that began at full pace are in progress on the host."""
        now, warmup = self.clock.now_ns(), self.world.warmup_ns
        for task in self.host.tasks:
            for item, (work, end) in task.serving.items():
                if isinstance(item, Mark):
                    continue  # it takes no work
                start = end - work
                before = max(0, min(warmup, now) - start)
                self.services.append(Service(task, item, start, work, (now - start) * PARTS, before * PARTS))

    def begin(self, task: Task, item: Visit | Work, ns: int) -> None:
        """A service of so much work begins."""
        self._settle()
        self.services.append(Service(task, item, self.clock.now_ns(), ns))
        self._set_end()

    def set_pace(self, pace: int) -> None:
        """The pace is another one from now on."""
        if pace != self.pace:
            self._settle()
            self.pace = pace
            self._set_end()

    def stop(self) -> None:
        """The host dies."""
        self._settle()
        for service in self.services:
            self._account(service)
        self.services.clear()
        self._set_end()

    def _settle(self) -> None:
        """Take off what was done since the last change."""
        now, warmup, (num, den) = self.clock.now_ns(), self.world.warmup_ns, self.rate()
        for service in self.services:
            if self.changed_ns < warmup <= now:
                service.before = service.done + (warmup - self.changed_ns) * num * PARTS // den
            service.done += (now - self.changed_ns) * num * PARTS // den
        self.changed_ns = now

    def _first(self) -> Service:
        return min(self.services, key=lambda service: (service.left, service.task.index))

    def _set_end(self) -> None:
        self.next = None
        if self.services:
            first, (num, den) = self._first(), self.rate()
            lasts = -(-max(0, first.left) * den // (num * PARTS))  # rounded up
            end = self.clock.now_ns() + lasts
            self.next = (end, first.task.index) if end < FAR_NS else None
        self._wake()

    def _wake(self) -> None:
        if self.next and not any(wake <= self.next for wake in self.wakes):
            wake = self.next
            self.wakes.add(wake)
            self.clock.at(wake[0], SERVICE + wake[1], lambda _: self._comes(wake))

    def _comes(self, wake: tuple[int, int]) -> None:
        self.wakes.remove(wake)
        if wake != self.next:
            self._wake()
            return
        self._settle()
        service = self._first()
        self.services.remove(service)
        self._account(service)
        self._set_end()
        service.task.end(service.item, service.work_ns)

    def _account(self, service: Service) -> None:
        if isinstance(service.item, Visit):
            total = self.used.setdefault(service.task, Used())
            served, used = self._from_warmup(service, service.done)
            total.served_ns += served
            total.used_ns += used

    def _from_warmup(self, service: Service, done: int) -> tuple[int, int]:
        """(time in service, CPU time) from the warm-up on of a service of which so much is done now."""
        now, warmup = self.clock.now_ns(), self.world.warmup_ns
        if now <= warmup:
            return 0, 0
        return now - max(service.start_ns, warmup), service.used_ns(done)

    def used_by(self, task: Task) -> Used:
        """The accounts of a task now, with what is in progress."""
        total = self.used.get(task, Used())
        made = Used(total.served_ns, total.used_ns)
        now, warmup, (num, den) = self.clock.now_ns(), self.world.warmup_ns, self.rate()
        for one in self.services:
            if one.task is task and isinstance(one.item, Visit):
                begin = self.changed_ns
                upto = one.done + (warmup - begin) * num * PARTS // den
                seen = replace(one, before=upto) if begin < warmup <= now else one
                served, used = self._from_warmup(seen, one.done + (now - begin) * num * PARTS // den)
                made.served_ns += served
                made.used_ns += used
        return made
