"""Events that rebalance the dataflow: where its tasks go, and when their workers are up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.scenario.events import Rebalance
from models.topology import layout
from models.units import to_ns
from sim.clock import Process
from sim.control.cluster import NOWHERE
from sim.control.run_state import RunState
from sim.draws import code_of, delays_ns, uniforms
from sim.migration.rebalance import Rebalances


class Rebalancing:
    """Requests a rebalance at the instant of each event of the scenario."""

    def __init__(self, state: RunState, rebalances: Rebalances) -> None:
        self.state, self.cluster, self.plan, self.rebalances = state, state.cluster, state.plan, rebalances

    def start(self) -> None:
        """Start the events of the scenario."""
        for name, event in self.plan.scenario.events.items():
            if isinstance(event, Rebalance):
                self.state.clock.process(self._event(name, event))

    def _event(self, name: str, event: Rebalance) -> Process:
        yield self.state.clock.sleep(self.plan.instant_ns(name))
        scenario = self.plan.scenario
        workers, waves = scenario.workers, scenario.waves
        tasks = self._tasks_that_move()
        hosts = dict(zip(tasks, self._hosts(event, len(tasks)), strict=True))
        starts = dict(zip(tasks, self._starts_ns(name, len(tasks)), strict=True))
        # By partition: others of its task may be the first when the rebalance begins.
        at = {one: task for one, task in enumerate(self.cluster.partition_task) if task in hosts}
        self.rebalances.request(
            event.protocol,
            {one: hosts[task] for one, task in at.items()},
            {one: starts[task] for one, task in at.items()},
            command_ns=to_ns(event.command_s),
            resend_ns=to_ns(waves.resend_s),
            gate_ns=None if workers.gate_s is None else to_ns(workers.gate_s),
            timeout_ns=to_ns(waves.timeout_s),
            in_place=False,
            wait_ns=None if event.wait_s is None else to_ns(event.wait_s),
        )

    def hosts_in_use(self, given: Sequence[tuple[int, int, int]], end_ns: int) -> list[tuple[int, int, int]]:
        """Return (host, since, until) [ns] of each time that a host was in use.

        One to which a rebalance brings the first task is from the request on, and one that it leaves until the tasks
        are killed. Hosts of the groups in `placement.hosts` and in rebalances that never have a task are in use at no
        time. `given` are the times without rebalances; they are returned where a host may fail or hold checkpoints, or
        hosts come and go for another reason.
        """
        scenario = self.plan.scenario
        bound = scenario.may_fail or scenario.fault_tolerance.takes_checkpoints
        if bound or scenario.elasticity.policy != "none":
            return list(given)
        spare = self._spare_at_start()
        since = {host: begin for host, begin, _ in given if host not in spare}
        ended = list[tuple[int, int, int]]()
        for run in self.rebalances.runs:
            for host in run.plan.joined:
                # It may have been left after the request, by an earlier rebalance.
                since[host] = max([run.requested_ns, *(until for one, _, until in ended if one == host)])
            # One that is called off leaves the hosts to which it was to go.
            killed = run.marks.get("commanded")
            at_ns, gone = (run.marks.get("over"), run.plan.joined) if killed is None else (killed, run.plan.left)
            if at_ns is not None:
                ended += [(host, since.pop(host), at_ns) for host in sorted(gone)]
        found = [*ended, *((host, begin, end_ns) for host, begin in since.items())]
        return sorted(one for one in found if one[1] < one[2])

    def _spare_at_start(self) -> set[int]:
        """Return the hosts of groups that rebalances fill or leave which have no task at the start."""
        scenario, names = self.plan.scenario, self.plan.host_names
        targets = {group for event in scenario.events.values() if isinstance(event, Rebalance) for group in event.hosts}
        groups = targets | {*scenario.placement.hosts} if targets else set()
        named, placed = layout.host_group_names(scenario), {*layout.placement(scenario).values()}
        return {names.index(name) for name, group in named.items() if group in groups and name not in placed}

    def _tasks_that_move(self) -> list[int]:
        """Return the tasks with a partition that a rebalance kills, by operator and first partition."""
        staying, cluster = layout.staying(self.plan.scenario), self.cluster
        first: dict[int, tuple[int, int]] = {}
        for partition, task in enumerate(cluster.partition_task):
            if not cluster.retired(partition):
                first.setdefault(task, (cluster.task_operator[task], partition))
        moves = [task for task in first if self.plan.operators[cluster.task_operator[task]].name not in staying]
        return sorted(moves, key=first.__getitem__)

    def _hosts(self, event: Rebalance, count: int) -> list[int]:
        """Return hosts for so many tasks: the free slots of the groups, round robin, less those of tasks that stay."""
        names, cluster, staying = self.plan.host_names, self.cluster, layout.staying(self.plan.scenario)
        taken = [
            names[cluster.task_host[task]]
            for task in {*cluster.partition_task} - {NOWHERE}
            if cluster.task_alive[task] and self.plan.operators[cluster.task_operator[task]].name in staying
        ]
        return [names.index(host) for host in layout.spread(self.plan.scenario, event.hosts, count, taken)]

    def _starts_ns(self, event: str, count: int) -> list[int]:
        """Return the time from the kill until each worker is up: a draw, and so much for its rank in a random order."""
        workers, seed = self.plan.scenario.workers, self.plan.scenario.seed
        ids = np.arange(count, dtype=np.uint64)
        order, law = (code_of(seed, self.plan.replication, event, what) for what in ("order of workers", "start"))
        drawn = [0] * count if workers.start is None else delays_ns(workers.start, uniforms(ids, law)).tolist()
        found = [0] * count
        for rank, worker in enumerate(np.argsort(uniforms(ids, order), kind="stable").tolist()):
            found[worker] = drawn[worker] + rank * to_ns(workers.start_per_rank_s)
        return found
