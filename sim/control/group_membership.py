"""Members of a group that come and go on purpose, and the rebalances with which a new one gets its share.

A member that stops has committed all it had. What it had goes to others once the group knows that it is gone: at once
if it says so, else when the detector has missed it; not at all if it is back before as the member that it was.

A member that comes makes the group rebalance. Key groups move from members that have more of them for each core. One
moves when the new host lacks little of its state. Until then it stays where it is, and the host makes a copy of it, a
warm-up; some time later the group rebalances again, to see whether that is complete. A key group that moves is closed
where it is, and opened in a second rebalance, which begins at once. Source: Kafka Streams,
`HighAvailabilityTaskAssignor`, KIP-441 and KIP-429.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from models.distributions import TimeDistribution
from models.records.decisions import Action, Verdict
from models.scenario.events import HostJoin, HostRestart
from models.units import to_ns
from sim.clock import Process
from sim.control.cluster import LostPartition
from sim.control.crash import CrashCoordinator
from sim.control.failures import REBALANCE, Failures
from sim.control.recoveries import Recoveries
from sim.control.recovery import Recovery
from sim.control.run_state import StateOn
from sim.data_plane import ParcelPlane
from sim.draws import code_of, delay_ns
from sim.recovery.changelog import RestoreFromChangelog
from sim.scaling.spare_hosts import SpareHosts

Move = tuple[int, int]  # a partition, and the host that is to have it


class GroupMembership:
    """Stops and starts hosts on purpose, and moves key groups to those that come."""

    def __init__(
        self,
        state: StateOn[ParcelPlane],
        method: RestoreFromChangelog,
        recovery: Recovery,
        recoveries: Recoveries,
        crash: CrashCoordinator,
        failures: Failures,
        spares: SpareHosts,
    ) -> None:
        rules = state.plan.scenario.fault_tolerance.changelogs
        assert rules is not None
        self.state, self.cluster, self.clock, self.rules = state, state.cluster, state.clock, rules
        self.method, self.recovery, self.recoveries = method, recovery, recoveries
        self.crash, self.failures, self.spares = crash, failures, spares
        self._due = False  # a rebalance is under way
        self._turn = 0  # grows with each rebalance: a probing one that was planned before it is none
        operators = state.plan.operators
        self._moving = [
            partition
            for partition, its in enumerate(self.cluster.partition_operator)
            if not (operators[its].is_source or operators[its].is_sink)
        ]

    def start(self) -> None:
        """Start the events of the scenario."""
        for name, event in self.state.plan.scenario.events.items():
            if isinstance(event, HostRestart):
                self.clock.process(self._restart(name, event))
            elif isinstance(event, HostJoin):
                self.clock.process(self._join(name, event))

    # -- members that stop, and come

    def _restart(self, name: str, event: HostRestart) -> Process:
        """Stop hosts one after the other; each is back before the next one stops."""
        yield self.clock.sleep(self.state.plan.instant_ns(name))
        down_ns = None if event.down_s is None else to_ns(event.down_s)
        for number, host_name in enumerate(event.hosts):
            if number:
                yield self.clock.sleep(self.clock.now_ns() + (down_ns or 0) + to_ns(event.pause_s))
            host = self.state.plan.host_names.index(host_name)
            if self.cluster.host_alive[host]:
                self.method.stops(host, event.disk == "kept")
                self.failures.stop(host, down_ns, event.leaves)
            else:
                self._refuse(Action.STOP, host)

    def _join(self, name: str, event: HostJoin) -> Process:
        """Use a spare host from an instant on."""
        yield self.clock.sleep(self.state.plan.instant_ns(name))
        host = self.state.plan.host_names.index(event.host)
        if self.spares.is_spare(host):
            self.spares.join(host)
            self.came(host)
        else:
            self._refuse(Action.ACQUIRE, host)

    def _refuse(self, action: Action, host: int) -> None:
        why = "the host is not in use" if self.spares.is_spare(host) else "the host is already down"
        why = "the host is already in use" if action == Action.ACQUIRE else why
        self.state.decide(action, self.state.plan.host_names[host], why, verdict=Verdict.REFUSED)

    def came(self, host: int) -> None:
        """Have the group rebalance: a member has come, or is back as another one than before."""
        if self.rules.warmups and host in self.method.workers and not self._due:
            self._due = True
            self.clock.process(self._rebalance())

    # -- rebalances

    def _rebalance(self, after_ns: int = 0) -> Process:
        """Have the group rebalance after a time, unless it does so before; it waits for all of its members."""
        turn = self._turn
        if after_ns:
            yield self.clock.sleep(self.clock.now_ns() + after_ns)
            if self._due or turn != self._turn:
                return
            self._due = True
        self._turn += 1
        yield self.clock.sleep(self.clock.now_ns() + self._draw_ns("allocate") + self._draw_ns("restart"))
        trusted, alive = self.cluster.trusted, self.cluster.host_alive
        while any(trusted[host] and not alive[host] for host in self.method.workers):
            yield self.clock.sleep(self.clock.now_ns() + to_ns(self.state.plan.scenario.detector.heartbeat_s))
        self._due = False
        self._assign()

    def _draw_ns(self, what: str) -> int:
        plan = self.state.plan
        law: TimeDistribution | None = getattr(plan.scenario.recovery, what)
        code = code_of(plan.scenario.seed, plan.replication, "rebalance", what)
        return 0 if law is None else delay_ns(law, self._turn, code)

    def _assign(self) -> None:
        """Move what can move, warm up the rest, and look again later if there is any."""
        wanted = self._wanted()
        now = [one for one in wanted if self.method.standbys.lag(*one) <= self.rules.acceptable_lag]
        later = [one for one in wanted if one not in now]
        self.method.standbys.warm_up(later, now)
        if now:
            self._move(now)
        if later:
            self.clock.process(self._rebalance(to_ns(self.rules.probing_s)))

    def _wanted(self) -> list[Move]:
        """Return the moves after which hosts have as many key groups of each operator for a core as can be.

        What a host has the best copy of goes there first, else the last key group.
        """
        cluster, groups = self.cluster, self.state.plan.host_groups
        hosts = [host for host in self.method.workers if cluster.accepts_work(host)]
        found: list[Move] = []
        at: dict[int, dict[int, list[int]]] = defaultdict(lambda: {host: [] for host in hosts})
        for partition in self._moving:
            host = self.method.bound.get(partition, cluster.host_of(partition))
            if host in hosts:
                at[cluster.partition_operator[partition]][host].append(partition)
        for here in at.values():
            live = {host: [one for one in own if cluster.partition_live[one]] for host, own in here.items()}
            count = Counter({host: len(own) for host, own in here.items()})
            while True:
                source = max(hosts, key=lambda host: (count[host] / groups[host].cores if live[host] else -1.0, -host))
                goal = min(hosts, key=lambda host: ((count[host] + 1) / groups[host].cores, host))
                more = count[source] / groups[source].cores > (count[goal] + 1) / groups[goal].cores
                if not more or not live[source]:
                    break
                best = min(live[source], key=lambda one: (self.method.standbys.lag(one, goal), -one))
                live[source].remove(best)
                count[source] -= 1
                count[goal] += 1
                found.append((best, goal))
        return found

    def _move(self, moves: list[Move]) -> None:
        """Close these key groups where they are; others of their tasks go on at once, in other tasks of ours."""
        cluster, goal = self.cluster, dict(moves)
        tasks = dict.fromkeys(cluster.partition_task[partition] for partition in goal)
        by_host = Counter(cluster.host_of(partition) for partition in goal)
        rows = {host: self.failures.row(host, count, REBALANCE) for host, count in sorted(by_host.items())}
        now, losses, others = self.clock.now_ns(), list[LostPartition](), list[tuple[int, int, bool]]()
        for row in rows.values():
            self.state.recorder.revise("failures", row, detected_ns=now, repaired_ns=now)
        for task in tasks:
            host = cluster.task_host[task]
            here = cluster.partitions_at(task)
            gone, live = [one for one in here if one in goal], [*cluster.partition_live]
            self.method.close(task, on_disk=True, sent=not self.state.plan.bounded)
            for partition in gone:
                self.recoveries.lost_again(partition)
            self.crash.outages.lost(gone)
            self.state.plane.kill(task)
            cluster.lose_task(task)
            losses += [LostPartition(one, host, now, rows[host]) for one in gone]
            others += [(one, host, live[one]) for one in here if one not in goal]
        self.method.bound.update(goal)
        for other in others:
            self._stays(*other)
        names = self.state.plan.host_names
        for partition, host in moves:
            self.state.decide(
                Action.MOVE, cluster.partition_name(partition), "the group rebalances", target=names[host]
            )
        self.crash.recover(losses)

    def _stays(self, partition: int, host: int, live: bool) -> None:
        """Have a key group go on at once on its host; one that is being restored there still is."""
        before, task = self.cluster.partition_task[partition], self.method.task_for(partition, host)
        self.cluster.partition_task[partition] = task
        self.state.plane.assign(partition, task)
        # Beside the old one, which is awaited until what moves has a task.
        self.recoveries.catch_ups.moved(before, task)
        recovery = self.recoveries.open.get(partition)
        if recovery is not None:
            recovery.task = task
        self.recovery.ask_upstream(partition)
        if live:
            self.recovery.reopen(partition)
