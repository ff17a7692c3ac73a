"""The state that managers of a run share: plan, clock, cluster, cluster view, recorder and data plane.

It knows no manager. A manager is given it, and those managers that it calls itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from models.records.decisions import Action, Decision, Verdict
from sim.clock import Clock
from sim.control.cluster import Cluster, RunPlan
from sim.control.cluster_view import ClusterView
from sim.control.recorder import Recorder
from sim.data_plane import NO_HOST, CheckpointPlane, DataPlane, Plane, RecoverablePlane

P_co = TypeVar("P_co", bound=Plane, covariant=True)


class StateOn(Generic[P_co]):
    """The state of one replication. Hosts, operators, tasks and partitions are numbers; tuples are the plane's.

    Its type says what the plane can do: a manager takes a `StateOn` the interface whose verbs it calls, and
    `StateOn[Plane]` if it calls none.
    """

    plane: P_co
    """Set by who makes the plane, which needs the cluster and somebody to tell."""

    def __init__(self, plan: RunPlan, clock: Clock) -> None:
        self.plan, self.clock = plan, clock
        self.recorder, self.cluster = Recorder(), Cluster(plan)
        self.view = ClusterView(self.cluster)
        self._works: dict[int, Callable[[], None]] = {}  # token -> what is to be done after the work
        self._tokens = 0

    def new_token(self) -> int:
        """Return a number for a message or a piece of work."""
        self._tokens += 1
        return self._tokens - 1

    def work(self: StateOn[RecoverablePlane], task: int, ns: int, done: Callable[[], None]) -> None:
        """Occupy the task for a time, ahead of its queue; then call `done`, unless its host dies before."""
        token = self.new_token()
        self._works[token] = done
        self.plane.work(task, ns, token)

    def work_done(self, token: int) -> None:
        """Call what was to be done after the work."""
        self._works.pop(token)()

    def decide(
        self,
        action: Action,
        subject: str,
        reason: str,
        *,
        origin: str = "",
        target: str = "",
        verdict: Verdict = Verdict.DONE,
    ) -> None:
        """Write down a decision of now; see `models.records.decisions.Decision`."""
        row = Decision(action, subject, origin, target, verdict, reason)
        self.recorder.rows["decisions"].append((self.clock.now_ns(), *row))

    def plan_checkpoint_host(self: StateOn[CheckpointPlane], partition: int, host: int | None) -> None:
        """Plan where periodic checkpoints of the partition go from now on; None: wherever the next one finds a host."""
        self.cluster.planned_checkpoint_host[partition] = host
        self.plane.plan_checkpoint_host(partition, NO_HOST if host is None else host)


RunState = StateOn[DataPlane]  # on a plane that can do everything
