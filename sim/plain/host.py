"""Hosts: a link, cores, and the processor where cores are shared evenly or others change the pace."""

from __future__ import annotations

from dataclasses import dataclass, replace

from models.scenario.cluster import HostGroup
from sim.clock import SERVICE, Clock
from sim.operator_plan import OperatorPlan
from sim.pace import FAR_NS, FULL, PARTS
from sim.plain.link import FairLink, Link, LinkUse
from sim.plain.partition import Message, Visit, Watermark, Work
from sim.plain.task import Cores, Task
from sim.plain.views import PlaneView


class Host:
    """One host; its tasks share its cores, have cores of their own, or share a processor evenly."""

    def __init__(self, clock: Clock, index: int, name: str, group: HostGroup, latency_ns: int, fair: bool) -> None:
        self.clock, self.index, self.name, self.group, self.fair = clock, index, name, group, fair
        self.life = 0  # how often the host has died
        self.tickets = 0
        self.latency_ns = latency_ns
        self.use = LinkUse()
        self.link = self._new_link()
        self.cores = Cores(group.cores)
        self.tasks: list[Task] = []
        self.killed: list[Task] = []  # in this life of the host; what they had sent still leaves
        self.processor: Processor | None = None  # where cores are shared evenly, or the pace has changed

    def ticket(self) -> int:
        """Return the next place in the order of arrivals at this host."""
        self.tickets += 1
        return self.tickets

    def cores_for(self, operator: OperatorPlan) -> Cores:
        """Return the cores of a new task: the shared ones, or as many of its own as it has threads."""
        if self.group.cpu == "shared":
            return self.cores
        return Cores(operator.description.threads, operator.thread is not None)

    def scaled(self, service_ns: int) -> int:
        """Return a service time on this host's speed, at least 1 ns."""
        return service_ns if self.group.speed == 1.0 else max(1, round(service_ns / self.group.speed))

    def crash(self) -> list[Task]:
        """Empty the host, which has died; return its tasks."""
        self.life += 1
        if self.processor:
            self.processor.stop()
        # New cores and a new link: services and transmissions of the old life must not occupy those of the next one.
        tasks, self.tasks = self.tasks, []
        self.cores = Cores(self.group.cores)
        self.link.close()
        self.use.forget()
        self.link = self._new_link()
        return tasks

    def _new_link(self) -> Link | FairLink:
        rate = self.group.network_bytes_per_s
        if self.fair and rate:
            return FairLink(self.clock, self.index, rate, self.use)
        return Link(rate, self.latency_ns, self.use)


@dataclass
class Service:
    """A service in progress: its work, the part that is done, and the part that was done before the warm-up."""

    task: Task
    item: Visit | Work | Message
    start_ns: int
    work_ns: int
    done: int = 0  # parts of a nanosecond
    before: int = 0

    @property
    def left(self) -> int:
        """Return the work that remains [parts]; below zero by less than a nanosecond where it ends now."""
        return self.work_ns * PARTS - self.done

    def used_ns(self, done: int) -> int:
        """Return the CPU time that was used from the warm-up on, when so many parts are done."""
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

    def __init__(self, plane: PlaneView, host: Host, shares_evenly: bool) -> None:
        self.plane, self.host, self.clock = plane, host, plane.clock
        self.shares_evenly = shares_evenly
        self.pace = FULL
        self.services: list[Service] = []  # in order of start
        self.changed_ns = self.clock.now_ns()
        self.next: tuple[int, int] | None = None  # (instant, task) of the next end
        self.wakes: set[tuple[int, int]] = set()  # of the events that are set
        self.used: dict[Task, Used] = {}

    def rate(self) -> tuple[int, int]:
        """Return the work that a service gets done in a nanosecond, as a fraction."""
        services, cores = len(self.services), self.host.group.cores
        if self.shares_evenly and services > cores:
            return self.pace * cores, FULL * services
        return self.pace, FULL

    def take_over(self) -> None:
        """Take over the services that began at full pace."""
        now, warmup = self.clock.now_ns(), self.plane.warmup_ns
        for task in self.host.tasks:
            for item, (work, end) in task.serving.items():
                if isinstance(item, Watermark):
                    continue  # it takes no work
                start = end - work
                before = max(0, min(warmup, now) - start)
                self.services.append(Service(task, item, start, work, (now - start) * PARTS, before * PARTS))

    def begin(self, task: Task, item: Visit | Work | Message, ns: int) -> None:
        """Begin a service of so much work."""
        # Settle at the old pace before the number of services changes; the same holds in `set_pace` and `_comes`.
        self._settle()
        self.services.append(Service(task, item, self.clock.now_ns(), ns))
        self._set_end()

    def set_pace(self, pace: int) -> None:
        """Change the pace from now on."""
        if pace != self.pace:
            self._settle()
            self.pace = pace
            self._set_end()

    def stop(self) -> None:
        """End all services: the host dies."""
        self._settle()
        for service in self.services:
            self._account(service)
        self.services.clear()
        self._set_end()

    def forget(self, task: Task) -> None:
        """End the services of a task that is killed; the others go on, perhaps at a higher pace."""
        self._settle()
        for service in self.services:
            if service.task is task:
                self._account(service)
        self.services = [service for service in self.services if service.task is not task]
        self._set_end()

    def _settle(self) -> None:
        """Add the work done since the last change to each service."""
        now, warmup, (num, den) = self.clock.now_ns(), self.plane.warmup_ns, self.rate()
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
        # Events cannot be cancelled. One that is set earlier serves: when it comes it finds the new end, and sets it.
        if self.next and not any(wake <= self.next for wake in self.wakes):
            wake = self.next
            self.wakes.add(wake)
            self.clock.at(wake[0], SERVICE + wake[1], lambda _: self._comes(wake))

    def _comes(self, wake: tuple[int, int]) -> None:
        self.wakes.remove(wake)
        if wake != self.next:
            self._wake()
            return
        # Out of the list before `end`, which may begin the next service and change the shares.
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
        """Return (time in service, CPU time) since the warm-up of a service with so many parts done now."""
        now, warmup = self.clock.now_ns(), self.plane.warmup_ns
        if now <= warmup:
            return 0, 0
        return now - max(service.start_ns, warmup), service.used_ns(done)

    def used_by(self, task: Task) -> Used:
        """Return the accounts of a task now, services in progress included."""
        total = self.used.get(task, Used())
        made = Used(total.served_ns, total.used_ns)
        now, warmup, (num, den) = self.clock.now_ns(), self.plane.warmup_ns, self.rate()
        for one in self.services:
            if one.task is task and isinstance(one.item, Visit):
                begin = self.changed_ns
                upto = one.done + (warmup - begin) * num * PARTS // den
                seen = replace(one, before=upto) if begin < warmup <= now else one
                served, used = self._from_warmup(seen, one.done + (now - begin) * num * PARTS // den)
                made.served_ns += served
                made.used_ns += used
        return made
