"""The job that the data plane is measured on, and what else one would simulate it with.

Source -> one -> two -> sink. Tuples go by key group to the tasks of `one`, get a new key there and go by key group to
those of `two`; both serve in exponential times, first come, first served. Task k of both is on host k. Tuples between
hosts are under way for a constant latency, inside a host for none.

- `plain` can do whatever a process can: that is what SimPy is there for.
- `by_hand` can do any chain of operators with routing by key group, links with latency, tasks that share one core, and
  load beyond capacity. It computes a departure when the tuple arrives and routes it then, so a crash, a pause, another
  speed or another route can act only on tuples that have not arrived yet. No pools of threads, hosts of several shared
  cores, priorities, bounded queues or bandwidths. Sweeping operator by operator with a sort between (dedicated cores
  only) is not faster: the heap holds what is under way, some dozens, and the sort all tuples.

Both keep the time from birth to sink of each tuple and nothing else: no row per service, no samples, no ledger.
"""

from __future__ import annotations

import math
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
    """Services that ended, all operators together, and the mean time from birth to sink [s]."""

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

    def send(operator: int, origin: int | None, birth: float) -> None:
        task = owners[rng.randrange(job.groups)]
        store, item = stores[operator][task], (operator, task, birth)
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
            operator, task, birth = yield store.get()
            yield env.timeout(rng.expovariate(1 / service))
            steps += 1
            if operator + 1 < OPERATORS:
                send(operator + 1, task, birth)
            else:
                after_latency(deliver, birth)

    env.process(source())
    for store in dict.fromkeys(store for row in stores for store in row):
        env.process(server(store))
    env.run(until=duration_s)
    return _outcome(steps, latencies)


def by_hand(job: Job, duration_s: float, seed: int) -> Outcome:
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
    birth = -gap * log(1.0 - random())
    while True:
        if waiting and waiting[0][0] < birth + latency:
            now, operator, task, born = heappop(waiting)
        else:
            now, operator, task, born = birth + latency, 0, owners[int(random() * groups)], birth
            birth -= gap * log(1.0 - random())
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
            latencies.append(end + latency - born)
        else:
            target = owners[int(random() * groups)]
            heappush(waiting, (end if target == task else end + latency, operator + 1, target, born))
