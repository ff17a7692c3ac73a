"""The coordinator of runs of protocols: which request waits for which run, and the effect of a crash in any phase.

It is the same for every plan; differences are in the plan's kind (`sim.migration.protocol.PlanKind`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from enum import Enum
from typing import Any

import networkx as nx

from sim.clock import Process
from sim.control.cluster import LostPartition
from sim.control.run_state import RunState
from sim.migration.protocol import WHOLE, PlanKind, ProtocolRun, Request, Territory
from sim.migration.transport import ProtocolRuntime


class RunCoordinator:
    """Starts runs in the order in which they were asked for, ends them, and cancels those that a crash affects."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.runtime = ProtocolRuntime(state, self._told, self._call_off)
        self.open: dict[int, ProtocolRun[Any]] = {}  # by number
        self.lasting: list[ProtocolRun[Any]] = []  # that claim nothing, and never end
        self.waiting: list[tuple[PlanKind[Any], Request]] = []
        self._claimed = Territories(state.plan.dataflow)  # by runs that are open
        self._wanted = Territories(state.plan.dataflow)  # by requests that wait
        self._alert = False  # a request waits for something other than a run, or may change

    # -- requests

    def request(self, kind: PlanKind[Any], request: Request) -> None:
        """Start a run as soon as all is over that was asked for before and that it would meet."""
        # A blocked request changes nothing for the others, which all wait for runs: no need to check them.
        blocked = not self._alert and self._is_blocked(request, self._wanted) and not kind.may_change(request)
        self.waiting.append((kind, request))
        self._wanted.add(request.territory)
        if not blocked:
            self.begin_what_can()

    def _is_blocked(self, request: Request, ahead: Territories) -> bool:
        return self._claimed.meet(request.territory) or ahead.meet(request.territory)

    def begin_what_can(self) -> None:
        """Begin requests that need not wait any longer, in their order."""
        todo, self.waiting, self._alert = self.waiting, [], False
        self._wanted, ahead, still = Territories(self.state.plan.dataflow), Territories(self.state.plan.dataflow), []
        for kind, asked in todo:
            request = kind.up_to_date(asked)
            if request is None:
                continue  # not wanted now; it is requested again when a host is back
            blocked = self._is_blocked(request, ahead)
            # Requests ahead block as well as runs: a later one must not overtake an earlier one that it would meet.
            if blocked or kind.waits(request):
                self._alert = self._alert or not blocked or kind.may_change(request)
                still.append((kind, request))
                ahead.add(request.territory)
            else:
                self._begin(kind, request)
        for _, request in still:
            self._wanted.add(request.territory)
        self.waiting = still + self.waiting

    def _begin(self, kind: PlanKind[Any], request: Request) -> None:
        run = kind.begin(request)
        if run is not None:  # else it was refused: nobody has to wait for it
            self._claimed.add(run.plan.territory)
            self.runtime.start(run)
            self.open[run.number] = run
            kind.started(run)

    def accompany(self, run: ProtocolRun[Any]) -> None:
        """Start a run that goes on beside all others, claims nothing, and never ends."""
        self.runtime.start(run)
        self.lasting.append(run)

    # -- facts

    def _told(self, run: ProtocolRun[Any], what: Enum) -> None:
        run.told.add(what)
        if not run.over and run.told >= run.protocol.complete:
            self._close(run)
            run.kind.ended(run)
            if self._alert or self._claimed.frees(run.plan.territory, self._wanted):
                self.begin_what_can()

    def _call_off(self, run: ProtocolRun[Any]) -> None:
        """Cancel a run that asks for it, as if it had lost a host, unless it is too late for that."""
        if run.kind.can_be_cancelled(run):
            run.kind.cancelled(run)
            self._close(run)
            self.begin_what_can()

    def _close(self, run: ProtocolRun[Any]) -> None:
        run.over = True
        self.runtime.over(run)
        del self.open[run.number]
        self._claimed.remove(run.plan.territory)

    # -- crashes

    def cancel_affected(self, losses: Sequence[LostPartition]) -> None:
        """Cancel the runs that have lost a task: these partitions are lost, which is detected now.

        A run waits for partitions that have no state, so the task of each that is lost was asked for its part.
        """
        cluster, view = self.state.cluster, self.state.view
        lost = {cluster.partition_operator[loss.partition] for loss in losses}
        for run in list(self.open.values()):
            run.kind.lost(run, lost)
            if not run.kind.can_be_cancelled(run):
                continue  # such as one of which the message that it is complete is on its way
            if not all(view.task_alive(task) for task in run.plan.tasks):
                run.kind.cancelled(run)
                self._close(run)
                self._alert = True  # requests that waited for it may begin: check all with the next one, or later
        if self.waiting:
            self.state.clock.process(self._later())

    def take_back(self, partitions: Collection[int]) -> set[int]:
        """Return those of the lost partitions that runs bring back themselves; those that may end come first."""
        taken = set[int]()
        for run in (*self.open.values(), *self.lasting):
            taken |= run.kind.takes_back(run, [one for one in partitions if one not in taken])
        return taken

    def _later(self) -> Process:
        """Begin requests that waited for cancelled runs, once everything is assigned.

        A process of its own: the crash is still being handled, and moves need the new owners."""
        yield self.state.clock.sleep(self.state.clock.now_ns())
        self.begin_what_can()


class Territories:
    """The territories of some runs or requests, to ask whether another one meets them.

    Two territories meet if they share a key group or a whole operator, or if an operator of one sends to an operator of
    the other: a protocol asks all that send to a group for something, so nobody may become one meanwhile.
    """

    def __init__(self, dataflow: nx.DiGraph[int]) -> None:
        self._beside = {one: {*dataflow.predecessors(one), *dataflow.successors(one)} for one in dataflow}
        self._at: Counter[int] = Counter()  # operator -> how many claim something of it
        self._whole: Counter[int] = Counter()  # operator -> how many claim all of it
        self._groups: Counter[int] = Counter()  # key group -> how many claim it

    def add(self, territory: Territory) -> None:
        """Add a territory."""
        self._count(territory, 1)

    def remove(self, territory: Territory) -> None:
        """Remove a territory that was added."""
        self._count(territory, -1)

    def _count(self, territory: Territory, by: int) -> None:
        for operator, group in territory:
            self._at[operator] += by
            if group is WHOLE:
                self._whole[operator] += by
            else:
                self._groups[group] += by

    def meet(self, territory: Territory) -> bool:
        """Return whether one of the territories meets this one."""
        return any(
            (self._at[operator] if group is WHOLE else self._whole[operator] or self._groups[group])
            or any(self._at[other] for other in self._beside[operator])
            for operator, group in territory
        )

    def frees(self, territory: Territory, waiting: Territories) -> bool:
        """Return whether something that waits may begin now that this territory was removed from these."""
        for operator, group in territory:
            if waiting._at[operator] if group is WHOLE else waiting._groups[group]:
                return True
            beside = any(waiting._at[other] for other in self._beside[operator])
            if not self._at[operator] and (waiting._whole[operator] or beside):
                return True
        return False
