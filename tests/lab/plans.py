"""How the laboratory asks for runs of each kind of plan, and who has a part in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from random import Random
from typing import Any

from lab.stops import StopAndGo
from models.scenario.events import WITHOUT_CHECKPOINTS
from sim.control.replicas import REPLICATE
from sim.migration.protocol import Protocol
from sim.migration.protocols import PROTOCOLS, PROTOCOLS_WITHOUT_CHECKPOINTS, REBALANCE_PROTOCOLS
from sim.migration.protocols.replicate import Replicate


class Subject(ABC):
    """One kind of plan under the laboratory."""

    roles: tuple[str, ...]
    """Who can die; each has to in each phase of a run."""
    length: int = 1
    """How long a schedule may take, as a multiple of that of a move."""
    unheard: frozenset[str] = frozenset()
    """Messages that no run of this kind sends, though its protocol inherits handlers of them."""
    final: frozenset[str] = frozenset()
    """Messages that end a run or change nothing: a crash in the phase after them is no case of its own."""

    @abstractmethod
    def kind(self, lab: Any) -> Any:
        """Return the plan kind of a laboratory, whose `protocols` mutants replace."""

    @abstractmethod
    def ask(self, lab: Any, protocol: str, ask: Any, patient: bool) -> bool:
        """Ask for a run; return whether it was asked for, as it has to be without patience."""

    @abstractmethod
    def hosts(self, lab: Any, run: Any) -> dict[str, set[int]]:
        """Return the hosts that have each role in the run."""

    def role(self, drawn: str) -> str:
        """Return which of the roles a drawn one stands for."""
        return drawn


class Moves(Subject):
    """A key group that moves."""

    roles = ("old owner", "new owner", "upstream", "downstream", "checkpoint host")

    def kind(self, lab: Any) -> Any:
        return lab.migrations

    def ask(self, lab: Any, protocol: str, ask: Any, patient: bool) -> bool:
        """If the group has no checkpoint yet, rather later."""
        group = lab.movable[ask.group % len(lab.movable)]
        checkpoint_host = lab.plane.checkpoint_host(lab.cluster.owner_of(group))
        if patient and (checkpoint_host is None or lab.plane.stored(group) < ask.after):
            return False
        to_checkpoint = ask.to_checkpoint_host and checkpoint_host is not None
        lab.migrations.request(group, checkpoint_host if to_checkpoint else ask.host % lab.job.hosts, protocol)
        return True

    def hosts(self, lab: Any, run: Any) -> dict[str, set[int]]:
        cluster, move = lab.cluster, run.move
        host_of = cluster.task_host
        checkpoint_host = lab.plane.checkpoint_host(move.old)
        return {
            "old owner": {host_of[move.source]},
            "new owner": {host_of[move.target]},
            "upstream": {host_of[task] for task in move.upstream},
            "downstream": _downstream(lab, move.operator),
            "checkpoint host": set() if checkpoint_host is None or checkpoint_host < 0 else {checkpoint_host},
        }


class MovesWithoutCheckpoints(Moves):
    """A key group that moves where no checkpoints are taken: nobody holds one."""

    roles = ("old owner", "new owner", "upstream", "downstream")

    def role(self, drawn: str) -> str:
        return "upstream" if drawn == "checkpoint host" else drawn


class Replicated(Moves):
    """A key group, or a task without keys, that gets an active replica."""

    unheard = frozenset({"processed_all_replay", "sync_group", "caught_up", "to_checkpoint"})  # CPAL's switch

    def ask(self, lab: Any, protocol: str, ask: Any, patient: bool) -> bool:
        """If the group has no checkpoint yet, rather later; nothing where it has a replica, or will have."""
        group = lab.groups[ask.group % len(lab.groups)]
        if patient and lab.plane.stored(group) < ask.after:
            return False
        host = lab.replicas.wanted(group)
        if host is not None and group not in lab.migrations.bound_for():
            lab.migrations.request(group, host, protocol, "replica")
        return True


class Stopped(Subject):
    """An operator that stops and goes on."""

    roles = ("member", "upstream", "downstream")
    _STANDS_FOR: Mapping[str, str] = {"old owner": "member", "new owner": "member", "checkpoint host": "upstream"}

    def kind(self, lab: Any) -> Any:
        return lab.stops

    def ask(self, lab: Any, protocol: str, ask: Any, patient: bool) -> bool:
        group = lab.groups[ask.group % len(lab.groups)]
        lab.stops.request(lab.cluster.partition_operator[group])
        return True

    def hosts(self, lab: Any, run: Any) -> dict[str, set[int]]:
        cluster, operator = lab.cluster, run.plan.operator
        above = set(lab.plan.dataflow.predecessors(operator))
        alive = [task for task, up in enumerate(cluster.task_alive) if up]
        return {
            "member": {cluster.task_host[task] for task in run.plan.members},
            "upstream": {cluster.task_host[task] for task in alive if cluster.task_operator[task] in above},
            "downstream": _downstream(lab, operator),
        }

    def role(self, drawn: str) -> str:
        return self._STANDS_FOR.get(drawn, drawn)


class Rebalanced(Subject):
    """A whole dataflow that is killed and comes back; each subtask goes to a host that the request draws."""

    roles = ("subtask", "source")
    unheard = frozenset({"rollback"})
    final = frozenset({"too_late"})
    length = 6  # an INIT that is repeated goes to every task again
    _STANDS_FOR: Mapping[str, str] = {
        "old owner": "subtask",
        "new owner": "subtask",
        "upstream": "source",
        "downstream": "subtask",
        "checkpoint host": "subtask",
    }

    def kind(self, lab: Any) -> Any:
        return lab.rebalances

    def ask(self, lab: Any, protocol: str, ask: Any, patient: bool) -> bool:
        draw = Random(f"{ask.group} {ask.host}")
        partitions = range(len(lab.cluster.partition_task))
        hosts = {one: draw.randrange(lab.job.hosts) for one in partitions}
        starts = {one: draw.choice([0, 1]) for one in partitions}
        lab.rebalances.request(protocol, hosts, starts, timeout_ns=draw.choice([None, None, None, FAR]))
        return True

    def hosts(self, lab: Any, run: Any) -> dict[str, set[int]]:
        at, host_of = lab.cluster.partition_task, lab.cluster.task_host
        return {
            "subtask": {host_of[at[one]] for one in run.plan.hosts},
            "source": {host_of[at[one]] for one in run.plan.flow.sources},
        }

    def role(self, drawn: str) -> str:
        return self._STANDS_FOR.get(drawn, drawn)


FAR = 10**15


def _downstream(lab: Any, operator: int) -> set[int]:
    cluster, below = lab.cluster, {edge.down.index for edge in lab.plan.operators[operator].edges}
    return {cluster.task_host[t] for t, o in enumerate(cluster.task_operator) if o in below and cluster.task_alive[t]}


SUBJECTS: dict[str, Subject] = {
    **dict.fromkeys(PROTOCOLS, Moves()),
    WITHOUT_CHECKPOINTS: MovesWithoutCheckpoints(),
    REPLICATE: Replicated(),
    "stop_and_go": Stopped(),
    **{name: Rebalanced() for name, one in REBALANCE_PROTOCOLS.items() if one.saves},  # of DSM: `lab.storm`
}
ALL_PROTOCOLS: dict[str, type[Protocol[Any]]] = {
    **PROTOCOLS,
    **PROTOCOLS_WITHOUT_CHECKPOINTS,
    REPLICATE: Replicate,
    "stop_and_go": StopAndGo,
}
