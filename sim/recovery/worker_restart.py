"""Recovery of whole worker processes, as supervisors and Nimbus of Storm do it."""

from __future__ import annotations

from sim.control.host_choice import Choice, HostChoice
from sim.control.replicas import Replicas
from sim.control.run_state import StateOn
from sim.data_plane import InstancePlane
from sim.recovery.empty import StartEmpty


class WorkerRestart(StartEmpty):
    """Start the tasks of a lost worker together, as many as there were, with empty states.

    A worker is what started together on a host: all that was there at the start, or all that came there from one worker
    that was lost. Lost: the workers of the host. Taken by: that host if it lives, as after the death of its workers
    alone, or if it is back before anybody has missed it; else the one with the fewest workers that has room for one
    more. State and replay: as without workers.
    """

    def __init__(self, state: StateOn[InstancePlane], hosts: HostChoice, replicas: Replicas) -> None:
        super().__init__(state, hosts, replicas)
        self._limit = state.plan.scenario.workers.slots
        self._worker: dict[int, int] = {}  # task -> its worker, where it did not start with its host
        self._hosts: dict[int, int] = {}  # worker that is lost -> host on which it starts
        self._next: dict[int, int] = {}  # worker that is lost -> the one that goes on for it
        self._tasks: dict[int, int] = {}  # task that is lost -> the one that goes on for it
        self._count = 0  # of workers that were started anew

    def host_for(self, partition: int) -> Choice:
        """Return the host on which the worker of a lost partition starts, which is the same once there is one."""
        task = self.cluster.partition_task[partition]
        own, worker, alive = self.cluster.task_host[task], self._worker_of(task), self.state.view.host_alive
        if alive(own):
            return Choice(own, "its worker starts where it was")
        chosen = self._hosts.get(worker)
        if chosen is None or not alive(chosen):
            chosen = self._with_room()
            if chosen is None:
                return Choice(None, "no live host has room for one more worker")
            self._hosts[worker] = chosen
        return Choice(chosen, "its worker starts there: the host has the fewest of the live hosts")

    def task_for(self, partition: int, host: int) -> int:
        """Return the task that goes on for the one that a lost partition was at."""
        lost = self.cluster.partition_task[partition]
        if lost not in self._tasks:
            task = self.replicas.instances.new_task(self.cluster.task_operator[lost], host)
            self.replaced(lost, task)
            self._tasks[lost] = task
        return self._tasks[lost]

    def replaced(self, lost: int, task: int) -> None:
        """Note which task goes on for another one: it belongs to the worker that goes on for the other's."""
        worker = self._worker_of(lost)
        if worker not in self._next:
            self._count += 1
            self._next[worker] = self._count
        self._worker[task] = self._next[worker]

    def settled(self) -> None:
        """Forget workers of which nothing is lost any more: their hosts and successors."""
        at = {*self.cluster.partition_task}
        self._tasks = {lost: task for lost, task in self._tasks.items() if lost in at}
        alive = self.state.view.task_alive
        waiting = {self._worker_of(task) for task in at if task >= 0 and not alive(task)}
        self._hosts = {worker: host for worker, host in self._hosts.items() if worker in waiting}
        self._next = {worker: other for worker, other in self._next.items() if worker in waiting}

    def _worker_of(self, task: int) -> int:
        """Return the number of a task's worker: below 0 that of the host on which it started."""
        return self._worker.get(task, -1 - self.cluster.task_host[task])

    def _with_room(self) -> int | None:
        """Return the live host with the fewest workers, those that are to start included; None if all are full."""
        at, task_host, view = {*self.cluster.partition_task}, self.cluster.task_host, self.state.view
        alive = [task for task in at if task >= 0 and view.task_alive(task)]
        workers = {(self._worker_of(task), task_host[task]) for task in alive} | {*self._hosts.items()}
        used = [0] * len(self.state.plan.host_names)
        for _, host in workers:
            used[host] += 1
        live = [host for host in range(len(used)) if view.host_alive(host) and self.cluster.accepts_work(host)]
        free = [host for host in live if self._limit is None or used[host] < self._limit]
        return min(free, key=lambda host: (used[host], host), default=None)
