"""The job that the data plane is measured on, and what else one would simulate it with.

Source -> one -> two -> sink. Tuples go by key group to the tasks of `one`, get a new key there and go by key group to
those of `two`; both serve in exponential times, first come, first served. Task k of both is on host k. Tuples between
hosts are under way for a constant latency, inside a host for none.

- `plain`, processes and Stores, can do whatever a process can: that is what SimPy is there for.
- `simpy_by_hand`, callbacks on events that are used again, can do the same: a server has a queue, and each arrival and
  each end of a service is an event of SimPy, so that a crash, a pause, another speed or another route can act between
  any two of them. Each of these would have to be written, where a process would just be interrupted.
- `heap_loop` is no SimPy model. It can do any chain of operators with routing by key group, links with latency, tasks
  that share one core, and load beyond capacity. It computes a departure when the tuple arrives and routes it then, so
  what interrupts a server can act only on tuples that have not arrived yet. No pools of threads, hosts of several
  shared cores, priorities, bounded queues or bandwidths. Sweeping operator by operator with a sort between (dedicated
  cores only) is not faster: the heap holds what is under way, some dozens, and the sort all tuples.

All keep the time from source to sink of each tuple and nothing else: no row per service, no samples, no ledger.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import simpy

OPERATORS = 2


@dataclass(frozen=True)
class Job:
    """The job; a server is a task, or with `shared` the core that the two tasks of a host queue for."""

    shared: bool = False
    utilisation: float = 0.7  # of a server
    rate_per_s: float = 8000.0
    tasks: int = 20  # of each operator
    groups: int = 60
    latency_s: float = 0.0005

    @property
    def service_s(self) -> float:
        """Mean service time."""
        return self.utilisation * self.tasks / self.rate_per_s / (OPERATORS if self.shared else 1)

    @property
    def owners(self) -> list[int]:
        """The task of each key group."""
        return [group % self.tasks for group in range(self.groups)]


@dataclass(frozen=True)
class Outcome:
    """Services that ended, all operators together, and the mean time from source to sink [s]."""

    steps: int
    latency_s: float


Rival = Callable[[Job, float, int], Outcome]


def _outcome(steps: int, latencies: list[float]) -> Outcome:
    return Outcome(steps, sum(latencies) / max(1, len(latencies)))


def plain(job: Job, duration_s: float, seed: int) -> Outcome:
    """A plain SimPy model: a Store and a process for each server, an event for each thing that happens.

    Tasks that share a core first come, first served are one server: quicker than a Resource beside their Stores.
    """
    import simpy  # noqa: PLC0415 - the import of the engine, which needs it, is measured

    rng, env = Random(seed), simpy.Environment()
    service, owners = job.service_s, job.owners
    first = [simpy.Store(env) for _ in range(job.tasks)]
    stores = [first, first if job.shared else [simpy.Store(env) for _ in range(job.tasks)]]
    latencies: list[float] = []
    steps = 0

    def arrive(event: Any) -> None:
        store, item = event.value
        store.put(item)

    def deliver(event: Any) -> None:
        latencies.append(env.now - event.value)

    def after_latency(what: Callable[[Any], None], value: object) -> None:
        callbacks = env.timeout(job.latency_s, value).callbacks
        callbacks.append(what)

    def send(operator: int, origin: int | None, arrival: float) -> None:
        task = owners[rng.randrange(job.groups)]
        store, item = stores[operator][task], (operator, task, arrival)
        if task == origin:
            store.put(item)
        else:
            after_latency(arrive, (store, item))

    def source() -> Generator[simpy.Event, Any, Any]:
        while True:
            yield env.timeout(rng.expovariate(job.rate_per_s))
            send(0, None, env.now)

    def server(store: simpy.Store) -> Generator[simpy.Event, Any, Any]:
        nonlocal steps
        while True:
            operator, task, arrival = yield store.get()
            yield env.timeout(rng.expovariate(1 / service))
            steps += 1
            if operator + 1 < OPERATORS:
                send(operator + 1, task, arrival)
            else:
                after_latency(deliver, arrival)

    env.process(source())
    for store in dict.fromkeys(store for row in stores for store in row):
        env.process(server(store))
    env.run(until=duration_s)
    return _outcome(steps, latencies)


def simpy_by_hand(job: Job, duration_s: float, seed: int) -> Outcome:
    """A SimPy model written for speed: one event for each arrival and each end of a service, and no other.

    A tuple is itself the event that it arrives, a server the event that its service ends: neither makes an event for a
    thing that happens, nor a list of callbacks. No Store, no process, no timeout. The instants of creation and of the
    delivery are known without an event: a latency before the arrival at the first operator, a latency after the end.
    """
    import simpy  # noqa: PLC0415 - as above

    env, random, log = simpy.Environment(), Random(seed).random, math.log
    schedule, service, latency, groups, owners = env.schedule, job.service_s, job.latency_s, job.groups, job.owners
    gap, last, normal = 1 / job.rate_per_s, OPERATORS - 1, simpy.events.NORMAL
    latencies: list[float] = []
    steps = 0

    class Prepared(simpy.Event):
        """An event that has a value from the beginning and may be scheduled again and again."""

        _ok, _value = True, None

    class Item(Prepared):
        """A tuple, as the event that it arrives at a server; two sources' arrivals in a row are never one instant."""

        def __init__(self, created: float) -> None:
            self.created, self.operator, self.task = created, 0, owners[int(random() * groups)]
            self.server = servers[0][self.task]

    class Server(Prepared):
        """A server, as the event that its service ends."""

        def __init__(self) -> None:
            self.callbacks, self.serving, self.queue = ending, None, deque()

    def arrive(item: Any) -> None:
        server = item.server
        if server.serving is None:
            server.serving = item
            schedule(server, normal, -service * log(1.0 - random()))
        else:
            server.queue.append(item)

    def enter(item: Any) -> None:
        following = Item(item.created - gap * log(1.0 - random()))
        following.callbacks = entering
        schedule(following, normal, following.created - item.created)
        arrive(item)

    def end(server: Any) -> None:
        nonlocal steps
        steps += 1
        item, server.callbacks = server.serving, ending
        if server.queue:
            server.serving = server.queue.popleft()
            schedule(server, normal, -service * log(1.0 - random()))
        else:
            server.serving = None
        if item.operator == last:
            latencies.append(env.now + latency - item.created)
            return
        origin, item.task = item.task, owners[int(random() * groups)]
        item.operator += 1
        item.server = servers[item.operator][item.task]
        if item.task == origin:
            arrive(item)
        else:
            item.callbacks = arriving
            schedule(item, normal, latency)

    # SimPy takes the list from an event that has happened and never changes it: all events may have the same.
    arriving, entering, ending = [arrive], [enter], [end]
    first = [Server() for _ in range(job.tasks)]
    servers = [first, first if job.shared else [Server() for _ in range(job.tasks)]]
    head = Item(-gap * log(1.0 - random()))
    head.callbacks = entering
    schedule(head, normal, head.created + latency)
    env.run(until=duration_s)
    return _outcome(steps, latencies)


def heap_loop(job: Job, duration_s: float, seed: int) -> Outcome:
    """Plain Python for speed: a heap with one entry for each arrival behind the first operator, and nothing else.

    A server that is never interrupted need not be woken: when a tuple arrives its departure is known. The source's
    tuples arrive in order by themselves.
    """
    random, log = Random(seed).random, math.log
    service, latency, groups, owners = job.service_s, job.latency_s, job.groups, job.owners
    first = [0.0] * job.tasks
    free_at = [first, first if job.shared else [0.0] * job.tasks]
    waiting: list[tuple[float, int, int, float]] = []
    latencies: list[float] = []
    steps, gap, last = 0, 1 / job.rate_per_s, OPERATORS - 1
    arrival = -gap * log(1.0 - random())
    while True:
        if waiting and waiting[0][0] < arrival + latency:
            now, operator, task, created = heappop(waiting)
        else:
            now, operator, task, created = arrival + latency, 0, owners[int(random() * groups)], arrival
            arrival -= gap * log(1.0 - random())
        if now >= duration_s:
            return _outcome(steps, latencies)
        free = free_at[operator]
        start = free[task]
        end = (now if now > start else start) - service * log(1.0 - random())
        free[task] = end
        if end >= duration_s:
            continue
        steps += 1
        if operator == last:
            latencies.append(end + latency - created)
        else:
            target = owners[int(random() * groups)]
            heappush(waiting, (end if target == task else end + latency, operator + 1, target, created))
