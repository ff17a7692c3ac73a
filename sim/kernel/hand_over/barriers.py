"""The plane of a run in turns whose checkpoints barriers take: the scan has it between two checkpoints.

Control sends barriers to the sources, for which the event loop takes the run over. It gives the run back when each task
has taken its snapshot. These go on to the store while the scan has the tuples: no tuple minds, so the event loop does
what becomes of them beside. It takes over again when the checkpoint is complete, or given up, until sources have
forgotten what they need not keep.

The event loop does not know which tuples sinks have got before it took over, and the job may not go back to a
checkpoint that is older. So before a failure it keeps the run, from the trigger on of the last checkpoint that will
be complete by then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from models.scenario.job import FixedState, PerKeyState
from models.steady_state.checkpoint_traffic import due_every_ns
from models.units import to_ns
from sim.clock import Clock
from sim.control.assembly import PlaneFactory
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import Listener
from sim.kernel.event_loop.codes import AT_REMOTE, STORED
from sim.kernel.event_loop.events import EVENT
from sim.kernel.hand_over import event_time, to_loop, windows
from sim.kernel.hand_over.at_rest import LoopAtRest
from sim.kernel.hand_over.plane import TwoKernels
from sim.kernel.hand_over.sources import Kept, Remembered, leave_alone, stores
from sim.kernel.hand_over.spells import failures, spells
from sim.kernel.scan.plane import ScanPlane
from sim.plane_values import CONTROL, Mail, NotCovered
from sim.recording import TupleRecording

_FAR_NS = 1 << 62
_LEAST = 10_000  # times to try in a run, at the most, to give it back
_SHORT = 4  # such times that are not worth two hand-overs
_PART = 200  # of an interval: the time between two of these
_LONGER = 1.25  # the next checkpoint takes at most so many times as long as the last one


class TurnsBetweenBarriers(TwoKernels):
    """A plane whose kernels hand the run over to each other around barriers and failures.

    `foreseen` are the instants of failures, in order. `factor` makes the time longer that a checkpoint may take.
    """

    def __init__(
        self,
        plan: RunPlan,
        cluster: Cluster,
        clock: Clock,
        listener: Listener,
        turns: Sequence[tuple[int, int]],
        patience_ns: int,
        foreseen: Sequence[int] = (),
        factor: float = 1.0,
    ) -> None:
        super().__init__(plan, cluster, clock, listener, turns, patience_ns)
        leave_alone(self.state, np.zeros(0, EVENT))  # the scan has the watermarks and timers, too
        remembered = [Remembered(stream) for stream in self._streams]
        self._streams[:] = remembered  # type: ignore[assignment]
        self._kept_by_sources = Kept(self.state, remembered)
        self._counts_keys = plan.scenario.fault_tolerance.kind == "incremental" and any(
            isinstance(operator.description.state, PerKeyState) for operator in plan.operators
        )
        self._foreseen, self._factor = foreseen, factor
        self._triggered_ns, self._took_ns = 0, _longest_ns(plan)
        self._lost_ns = -1  # when a task died last
        self._begun: dict[int, int] = {}  # by slot: hand-overs before the first snapshot that is in it
        self._opens_again = True  # windows that were open when the event loop took over
        self._covered = True  # the job would go back to what this part of the run has, or to its begin
        if not self._is_complete_in_time(0):
            self._spells.insert(0, (0, 0))

    @classmethod
    def of(
        cls, plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener, factor: float
    ) -> TurnsBetweenBarriers:
        """Return the plane on which the scan has the run as often as it can."""
        duration_ns = to_ns(plan.scenario.duration_s)
        patience_ns = max(due_every_ns(plan.scenario) // _PART, duration_ns // _LEAST, 1)
        instants = [one.at_ns for one in failures(plan)]
        return cls(plan, cluster, clock, listener, spells(plan), patience_ns, instants, factor)

    # -- who has the run

    def _is_complete_in_time(self, at_ns: int) -> bool:
        """Return whether a checkpoint that begins after this one will be complete before the next failure."""
        failure_ns = next((one for one in self._foreseen if one >= at_ns), None)
        if failure_ns is None:
            return True
        tolerance = self._plan.scenario.fault_tolerance
        assert tolerance.job_checkpoints is not None
        begin_ns = max(
            self._triggered_ns + to_ns(tolerance.interval_s), at_ns + to_ns(tolerance.job_checkpoints.min_pause_s)
        )
        return begin_ns + int(self._factor * self._took_ns) + 8 * self._plan.latency_ns < failure_ns

    def _fill_loop(self, scan: ScanPlane, at_ns: int) -> to_loop.Made:
        self._covered, self._opens_again = at_ns == 0, self._may_go_back(at_ns)
        kept, opens_again = self._kept_by_sources, self._opens_again
        return to_loop.fill(scan.state, self.state, self._plan, self._cluster, at_ns, 0, kept, opens_again)

    def _may_go_back(self, at_ns: int) -> bool:
        """Return whether the job may go back to a checkpoint from now on."""
        may_fail_it = self._plan.scenario.checkpoints_may_fail_it
        return may_fail_it or any(one >= at_ns for one in self._foreseen)

    def _hindrance(self, at_ns: int) -> str | None:
        return self._is_needed(at_ns) or super()._hindrance(at_ns)

    def _at_rest(self, at_ns: int) -> LoopAtRest:
        return LoopAtRest(self.state, self._plan, self._cluster, at_ns, by_barriers=True)

    def _hindered(self, rest: LoopAtRest) -> str | None:
        """Return why the event loop has to go on although nothing hinders the scan, now that all tuples are known."""
        if self.state.ids["again"]:
            comes_again = (self.state.visits["created"][rest.tuples] <= self._lost_ns).any()
            if comes_again or windows.ends_by(self.state, self._lost_ns):
                return "sinks may get tuples again"
        if self.state.event_time["mark_fan"] and isinstance(self._kept, TupleRecording):
            back = event_time.goes_back(self.state, rest.partition_task, rest.task_host, self._plan.latency_ns)
            if not self.state.operators["has_service"][self.state.edges["down"][back]].all():
                return "what a watermark causes passes a task at once that has a lower number"
        return None

    def _is_needed(self, at_ns: int) -> str | None:
        """Return why the event loop has to go on although nothing hinders the scan."""
        if not self._is_complete_in_time(at_ns):
            return "a failure comes before the next checkpoint is complete"
        if (self.state.partitions["saving"] == 1).any():
            if self._counts_keys or not self._plan.latency_ns:
                return "a checkpoint counts keys that change after it, or is told of at once"
            if self._is_stored_soon(at_ns):
                return "snapshots will be stored soon"
        return None

    def _is_stored_soon(self, at_ns: int) -> bool:
        """Return whether the store will have the snapshots so soon that it is not worth two hand-overs."""
        return bool(self.state.remote_link["free"] < at_ns + _SHORT * self._patience_ns)

    def _leave_to_scan(self) -> None:
        self._kept_by_sources.read()
        leave_alone(self.state, stores(self.state.heap[: int(self.state.queue["in_heap"])], (AT_REMOTE, STORED)))
        super()._leave_to_scan()

    def _beside_ns(self) -> int:
        return int(self.state.heap["time"][0]) if self.state.queue["in_heap"] else _FAR_NS

    # -- what both do

    def send_each(self, messages: Sequence[Mail]) -> None:
        """Messages in order, in one call: barriers come from control first."""
        self._act_in_loop()
        if any(one.sender == CONTROL for one in messages):
            self._triggered_ns = self._clock.now_ns()
            self._kept_by_sources.under_way = True
        for sender in {one.sender for one in messages if one.sender != CONTROL}:
            self._kept_by_sources.barrier_at(sender)
        super().send_each(messages)

    def checkpoint_each(
        self, partitions: Sequence[int], checkpoint_host: int, slot: int = 0, more_bytes: int = 0
    ) -> int:
        """Take a batch of checkpoints now."""
        self._act_in_loop()
        self._begun.setdefault(slot, len(self.hand_overs))
        self._kept_by_sources.snapshot_of(np.array(partitions, np.int64))
        return super().checkpoint_each(partitions, checkpoint_host, slot, more_bytes)

    def complete_checkpoints(self, partitions: Collection[int], slot: int = 0) -> None:
        """The checkpoints of these partitions that have come to the store count."""
        self._act_in_loop()
        self._covered = self._covered or self._begun.pop(slot, None) == len(self.hand_overs)
        self._took_ns = int(_LONGER * (self._clock.now_ns() - self._triggered_ns))
        self._kept_by_sources.ends(completed=True)
        super().complete_checkpoints(partitions, slot)

    def abort_checkpoints(self, partitions: Collection[int], slot: int | None = None) -> None:
        """Checkpoints of these partitions that are under way are forgotten."""
        self._act_in_loop()
        self._begun.clear()
        self._kept_by_sources.ends(completed=False)
        super().abort_checkpoints(partitions, slot)

    def crash(self, host: int) -> None:
        """The host dies with its tasks and partitions."""
        super().crash(host)
        self._lost_ns = self._clock.now_ns()

    def kill(self, task: int) -> None:
        """The task dies with its partitions, and its host goes on."""
        self._act_in_loop()
        self._check_goes_back()
        super().kill(task)
        self._lost_ns = self._clock.now_ns()

    def samples(self) -> np.ndarray:
        """Return a row for each live task, with what sources keep."""
        kept, more = self._kept_by_sources, np.zeros(len(self._cluster.task_operator), np.int64)
        if self._scan is None:
            rows = super().samples()
            np.add.at(more, self.state.partitions["task"], kept.beyond_nodes())
        else:
            rows = self._scan.samples()
            sources = self._scan.state.sources
            np.add.at(more, self._scan.state.partition_task[sources["partition"]], kept.totals(sources["emitted"]))
        rows[:, 4] += more[rows[:, 0]]
        return rows

    def _tables_of_loop(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        return {"checkpoints": self._checkpoints_taken()}

    # -- what is not covered

    def _check_goes_back(self) -> None:
        """Raise NotCovered if the job would go back to a checkpoint from before the event loop took over."""
        if self._made is not None and not (self._covered and self._opens_again):
            raise NotCovered("the job goes back to a checkpoint from before the event loop took over")

    def _check_covered(self, host: int) -> None:
        if self._made is not None and 0 < self._made.at_ns >= self._clock.now_ns() - self._plan.latency_ns:
            raise NotCovered("what the host had sent is lost in an order that nobody knows")
        self._check_goes_back()

    def _check_ids_known(self) -> None:
        """All that sources keep is known."""

    def _check_stored(self, lost: np.ndarray) -> None:
        self._check_goes_back()


def _longest_ns(plan: RunPlan) -> int:
    """Return how long the first checkpoint may take: all states of a fixed size go to the store."""
    tolerance = plan.scenario.fault_tolerance
    described = [operator.description for operator in plan.operators]
    sizes = [one.state.group_bytes * one.groups for one in described if isinstance(one.state, FixedState)]
    return int(_LONGER * to_ns(sum(sizes) / tolerance.remote_bytes_per_s))


def in_turns(factor: float = 1.0) -> PlaneFactory:
    """Return the factory of a plane on which the event loop has the run around failures and barriers of its plan."""

    def made(plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener) -> TwoKernels:
        barriers = plan.scenario.fault_tolerance.job_checkpoints is not None
        return (TurnsBetweenBarriers if barriers else TwoKernels).of(plan, cluster, clock, listener, factor)

    return made
