"""The adaptation manager as a process: it checks the load each period, and has key groups move and hosts come and go.

Decisions on given loads are in `sim.scaling.adaptation`, which knows nothing of the run.

A round is: sample the loads, ask `adaptation` for moves, request them from `sim.migration`, and acquire or release a
host if moves alone do not help. Source: Madsen and Zhou (CIKM 2015); see docs/explanation/elasticity.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from models import display
from models.records.decisions import Action, Verdict
from models.units import to_ns
from sim.clock import Process
from sim.control.cluster import NOWHERE
from sim.control.instances import CheckpointHosts
from sim.control.run_state import StateOn
from sim.control.slots import Slots
from sim.control.statistics import Statistics
from sim.data_plane import CheckpointPlane
from sim.migration.move import MigrationRun
from sim.migration.moves import Migrations
from sim.plane_values import REMOTE
from sim.scaling import adaptation
from sim.scaling.adaptation import ANYWHERE, Group, Host, Proposal, Round, Rules
from sim.scaling.operator_policy import POLICIES
from sim.scaling.operator_scaling import OperatorScaling
from sim.scaling.spare_hosts import SpareHosts

BALANCE, DRAIN = "balance", "drain"
_FEWEST = 2  # hosts that stay: one owns a key group, another holds its checkpoint


class Elasticity:
    """Checks the load, decides, asks for moves, and writes down why.

    It knows what control knows: hosts that it trusts, loads of the last periods. A move is only requested here; it may
    be refused, or called off by a crash. A group that was asked to move rests for `rest_s` before it may move again.
    """

    def __init__(
        self,
        state: StateOn[CheckpointPlane],
        statistics: Statistics,
        checkpoint_hosts: CheckpointHosts,
        migrations: Migrations,
        spares: SpareHosts,
        slots: Slots,
        operators: OperatorScaling,
    ) -> None:
        self.operators = operators
        self.state, self.cluster, self.plan = state, state.cluster, state.plan
        self.statistics, self.migrations, self._checkpoint_hosts = statistics, migrations, checkpoint_hosts
        self.rules, self.spares, self.slots = state.plan.scenario.elasticity, spares, slots
        self._moved_ns: dict[int, int] = {}  # group -> when it was last asked to move
        self._members = self._hosts_that_take_part()
        self._movable = [operator.description.movable for operator in self.plan.operators]

    def _hosts_that_take_part(self) -> list[bool]:
        """Return for each host whether the policy covers its group; all if the scenario names no groups."""
        groups = self.rules.hosts
        return [not groups or group in groups for group in self.plan.host_group_names]

    def start(self) -> None:
        """Start the process, where somebody asks for it."""
        self.migrations.on_end = self._ended
        if self.plan.scenario.keeps_statistics:
            self.state.clock.process(self._checks())

    def _checks(self) -> Process:
        """Sample the load each period, and adapt from the configured instant on."""
        clock, period_ns = self.state.clock, max(1, to_ns(self.rules.period_s))
        while True:
            yield clock.sleep(clock.now_ns() + period_ns)
            self.statistics.sample()
            if self.rules.policy in POLICIES:
                self.operators.check()
            elif self.rules.policy != "none" and clock.now_ns() >= to_ns(self.rules.begin_s):
                self.adapt()

    # -- one round

    def adapt(self) -> None:
        """Relieve overloaded hosts; if there are none, see whether a host can be released.

        Writes one row of the table `adaptations`, and a decision for each move.
        """
        loads = self.statistics.loads()
        hosts, groups = self._hosts(loads), self._groups(loads)
        limits = Rules(self.rules.high, self.rules.low, self.rules.moves, self.rules.prefer)
        found = adaptation.balance(hosts, groups, limits)
        for move in found.moves:
            self._request(move, BALANCE, f"{self._at(move)} of its CPU, above {_percent(self.rules.high)}")
        drained = 0
        if found.unplaced:
            self._nothing_fits(found, hosts, groups)
        else:
            if found.moves:  # groups that were just asked to move count at their targets
                hosts, groups = self._hosts(loads), self._groups(loads)
            drained = self._scale_in(hosts, groups, limits, calm=not found.overloaded)
        assisted = sum(move.assisted for move in found.moves)
        self.state.recorder.rows["adaptations"].append(
            (
                self.state.clock.now_ns(),
                len(found.overloaded),
                found.groups,
                found.usable,
                assisted,
                len(found.moves) - assisted,
                drained,
                len(found.unplaced),
            )
        )

    def _hosts(self, loads: Mapping[int, float]) -> list[Host]:
        """Return all hosts as the manager sees them, with the load of all that cannot move."""
        cluster = self.cluster
        fixed = [0.0] * len(cluster.host_alive)
        for group, load in loads.items():
            task = cluster.partition_task[cluster.owner_of(group)]
            if not self._can_move(group) and task != NOWHERE:
                fixed[cluster.task_host[task]] += load
        return [
            Host(
                capacity=described.cores * described.speed,
                outside=self.statistics.outside(host),
                fixed=fixed[host],
                member=self._members[host] and cluster.trusted[host] and host not in cluster.leaving,
                accepts_work=self._members[host] and cluster.accepts_work(host) and self._has_room(host),
            )
            for host, described in enumerate(self.plan.host_groups)
        ]

    def _has_room(self, host: int) -> bool:
        """Return whether a key group of any operator that can move may go there."""
        return all(self.slots.has_room(operator, host) for operator, moves in enumerate(self._movable) if moves)

    def _groups(self, loads: Mapping[int, float]) -> list[Group]:
        """Return all key groups that can move; one on its way is where it goes to."""
        cluster, view, bound = self.cluster, self.state.view, self.migrations.bound_for()
        found = []
        for group, load in loads.items():
            if self._can_move(group):
                owner = cluster.owner_of(group)
                here = cluster.task_host[cluster.partition_task[owner]]
                rested = group not in bound and view.partition_live(owner) and self._has_rested(group)
                held = view.checkpoint_host(owner, self.state.plane.checkpoint_host(owner))
                held = ANYWHERE if held == REMOTE else held
                found.append(Group(group, bound.get(group, here), load, held, rested))
        return found

    def _can_move(self, group: int) -> bool:
        """Return True if key groups of its operator can move at all."""
        return self._movable[self.cluster.partition_operator[group]]

    def _has_rested(self, group: int) -> bool:
        """Return True if the group was not asked to move within the last `rest_s` seconds."""
        since = self._moved_ns.get(group)
        return since is None or self.state.clock.now_ns() >= since + to_ns(self.rules.rest_s)

    def _request(self, move: Proposal, cause: str, why: str) -> None:
        """Write why, and request the move: by the configured protocol, or `direct` if that needs a checkpoint."""
        now = self.state.clock.now_ns()
        name, target = self.cluster.partition_name(move.group), self._name(move.target)
        to = f"the least loaded host, at {_percent(move.target_share)}"
        if move.assisted:
            to = f"{to}, which can fetch its checkpoint" if self._remote else "its checkpoint is there"
        self.state.decide(Action.MOVE, name, f"{why}; {to}", origin=self._name(move.origin), target=target)
        self._moved_ns[move.group] = now
        assisted = move.assisted or self.rules.protocol == "lazy_move"
        self.migrations.request(move.group, move.target, self.rules.protocol if assisted else "direct", cause)

    def _ended(self, run: MigrationRun) -> None:
        """Leave the checkpoint, after a move, with the host that had the group, if that host stays."""
        if run.cause not in (BALANCE, DRAIN) or run.completed_ns is None or self._remote:
            return
        partition, host = run.move.new, self.cluster.task_host[run.move.source]
        if self.cluster.accepts_work(host):
            self._plan_checkpoint_host(partition, host)
        elif not self._is_planned(partition):
            self._checkpoint_hosts.choose(partition)
            self._plan_checkpoint_host(partition, self.cluster.planned_checkpoint_host[partition])

    # -- hosts that come

    def _nothing_fits(self, found: Round, hosts: Sequence[Host], groups: Sequence[Group]) -> None:
        """Write that nothing fits; then keep a host that is being left, or acquire a spare one."""
        share = adaptation.utilisation(hosts, groups)
        for host in found.unplaced:
            why = f"it is at {_percent(share[host])} of its CPU and none of its key groups fits elsewhere"
            self.state.decide(Action.BALANCE, self._name(host), why, verdict=Verdict.REFUSED)
        if self.cluster.leaving:
            for host in sorted(self.cluster.leaving):
                self.state.decide(Action.DRAIN, self._name(host), "others are overloaded", verdict=Verdict.REFUSED)
            # Keeping a host costs nothing and helps at once; acquiring one takes `acquisition`.
            self.cluster.leaving.clear()
        elif self.rules.scale_out and self.spares.coming is None:
            self._acquire(found, groups)

    def _acquire(self, found: Round, groups: Sequence[Group]) -> None:
        """Acquire the first spare host that one of the groups without a place would fit on."""
        # The smallest group is enough: the others follow in later rounds, or another host does.
        least = min(one.load for one in groups if one.host in found.unplaced and one.rested)
        for host in self.cluster.spare:
            described = self.plan.host_groups[host]
            share = self.statistics.outside(host) + least / (described.cores * described.speed)
            if self._members[host] and share <= self.rules.high:
                names = ", ".join(map(self._name, found.unplaced))
                self.spares.acquire(host, f"no key group of {names} fits elsewhere")
                return

    # -- hosts that go

    def _scale_in(self, hosts: Sequence[Host], groups: Sequence[Group], limits: Rules, calm: bool) -> int:
        """Go on leaving a host; else begin to leave one if nothing is overloaded. Return the number of moves."""
        cluster = self.cluster
        for host in sorted(cluster.leaving):
            if not cluster.trusted[host]:
                cluster.leaving.discard(host)  # it is suspected: recovery takes its groups elsewhere
            elif self.spares.can_release(host):
                self.spares.release(host, "it is empty")
            else:
                return self._go_on_leaving(host, hosts, groups)
        if not self.rules.scale_in or not calm or self.spares.coming is not None:
            return 0
        staying = [host for host, alive in enumerate(cluster.trusted) if alive]
        candidates = [host for host in staying if self._may_leave(host, groups)]
        found = adaptation.drain(hosts, groups, candidates, limits) if len(staying) > _FEWEST else None
        if found is None:
            return 0
        (host,) = found.overloaded
        share = adaptation.utilisation(hosts, groups)[host]
        why = f"it is at {_percent(share)} of its CPU, below {_percent(limits.low)}, and all of it fits elsewhere"
        self.state.decide(Action.DRAIN, self._name(host), why)
        cluster.leaving.add(host)
        self._leave(host, found.moves)
        return len(found.moves)

    def _may_leave(self, host: int, groups: Sequence[Group]) -> bool:
        """Return True if everything there can move, nothing is to move there, and the host is not new.

        A host that was just acquired is empty at first, and would be released before anything has moved there."""
        cluster, now = self.cluster, self.state.clock.now_ns()
        since = self.spares.usable_since.get(host)
        young = since is not None and now < since + to_ns(self.rules.rest_s)
        movable = all(self._can_move(cluster.group_of(partition)) for partition in self.state.view.partitions_on(host))
        awaited = bool(self.migrations.expected_at(host))
        return self._members[host] and cluster.accepts_work(host) and movable and not young and not awaited

    def _go_on_leaving(self, host: int, hosts: Sequence[Host], groups: Sequence[Group]) -> int:
        """Move groups that are still there, or came there by a recovery; return the number of moves."""
        here = [one for one in groups if one.host == host]
        moves = adaptation.empty(hosts, groups, host, self.rules.high) if all(one.rested for one in here) else ()
        if moves is None:
            why = "what is there fits nowhere else any more"
            self.state.decide(Action.DRAIN, self._name(host), why, verdict=Verdict.REFUSED)
            self.cluster.leaving.discard(host)
            return 0
        self._leave(host, moves)
        return len(moves)

    def _leave(self, host: int, moves: Sequence[Proposal]) -> None:
        """Send key groups and checkpoints elsewhere."""
        for move in moves:
            self._request(move, DRAIN, f"{self._name(host)} is to be left")
        # A lazy move waits for a checkpoint at its target: what was asked to go there all the same has to arrive first.
        expected = self.migrations.expected_at(host)
        for partition in range(len(self.cluster.partition_task)):
            if self.cluster.group_of(partition) not in expected and self._needs_checkpoint_host(partition, host):
                self._checkpoint_hosts.choose(partition)
                self._plan_checkpoint_host(partition, self.cluster.planned_checkpoint_host[partition])

    def _needs_checkpoint_host(self, partition: int, leaving: int) -> bool:
        """Return True if checkpoints of the partition are on the host that is being left, or would go there."""
        operator = self.plan.operators[self.cluster.partition_operator[partition]]
        if self._remote or not self.cluster.is_owner(partition) or operator.is_source or operator.is_sink:
            return False
        here = leaving in (self.cluster.planned_checkpoint_host[partition], self.state.plane.checkpoint_host(partition))
        return here and not self._is_planned(partition)

    def _is_planned(self, partition: int) -> bool:
        """Return True if the planned checkpoint host can hold the checkpoints of the partition."""
        planned, task = self.cluster.planned_checkpoint_host[partition], self.cluster.partition_task[partition]
        elsewhere = task == NOWHERE or self.cluster.task_host[task] != planned
        return planned is not None and elsewhere and self.cluster.accepts_work(planned)

    def _plan_checkpoint_host(self, partition: int, host: int | None) -> None:
        """Have further checkpoints of the partition go to this host; None leaves the plan as it is."""
        if host is not None:
            self.state.plan_checkpoint_host(partition, host)

    @property
    def _remote(self) -> bool:
        """Return True if checkpoints are in a remote store: no host holds any."""
        return self.plan.scenario.fault_tolerance.store == "remote"

    # -- words

    def _at(self, move: Proposal) -> str:
        """Return the origin of a move with its utilisation, in words."""
        return f"{self._name(move.origin)} is at {_percent(move.origin_share)}"

    def _name(self, host: int) -> str:
        """Return the name of a host."""
        return self.plan.host_names[host]


def _percent(share: float) -> str:
    """Return a utilisation in percent."""
    return display.share(share)
