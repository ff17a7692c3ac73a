"""A second kind of plan, for the laboratory alone: all tasks of an operator stop, and go on when all have stopped.

It shows that coordinator, runtime and laboratory take any plan. It changes a whole operator: no key group of that, or
beside it, may move meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from sim.control.run_state import RunState
from sim.migration.coordinator import RunCoordinator
from sim.migration.protocol import WHOLE, Context, Message, Plan, PlanKind, Protocol, ProtocolRun, Request, Territory


class Fact(Enum):
    """Facts that come true at tasks."""

    RUNS = "runs"  # every task that stopped goes on


@dataclass(frozen=True)
class Stop(Plan):
    """The tasks of an operator."""

    operator: int
    members: tuple[int, ...]

    @property
    def tasks(self) -> tuple[int, ...]:
        """Return all of them."""
        return self.members

    @property
    def territory(self) -> Territory:
        """Return the whole operator."""
        return ((self.operator, WHOLE),)


class StopContext(Context):
    """The verbs of a task that stops."""

    def stop(self) -> None:
        """Start nothing any more."""
        self._plane.pause(self.me, None)

    def go(self) -> None:
        """Go on."""
        self._plane.unpause(self.me)


class StopAndGo(Protocol[Stop]):
    """Stop all tasks of an operator; they go on when the coordinator knows that all have stopped."""

    complete = frozenset(Fact)
    context = StopContext

    def start(self, ctx: StopContext) -> None:
        """Tell every task to stop."""
        for task in self.plan.members:
            ctx.send(task, "stop", turn=True)

    # at a task

    def on_stop(self, ctx: StopContext, message: Message) -> None:
        """Stop, and say so."""
        ctx.stop()
        ctx.pauses()
        ctx.tell("stopped", note=ctx.me)

    def on_go(self, ctx: StopContext, message: Message) -> None:
        """Go on, and say so."""
        ctx.go()
        ctx.tell("gone", note=ctx.me)

    # at the coordinator

    def on_stopped(self, ctx: StopContext, message: Message) -> None:
        """When all have stopped, have all go on."""
        assert isinstance(message.note, int)
        if self.all_in("stopped", message.note, self.plan.members):
            for task in self.plan.members:
                ctx.send(task, "go")

    def on_gone(self, ctx: StopContext, message: Message) -> None:
        """When all go on, the run is complete."""
        assert isinstance(message.note, int)
        if self.all_in("gone", message.note, self.plan.members):
            ctx.goes_on()
            ctx.done(Fact.RUNS)


@dataclass(frozen=True)
class StopRequest(Request):
    """Somebody wants an operator to stop and go on."""

    operator: int


class Stops(PlanKind[StopRequest]):
    """Stops operators."""

    def __init__(self, state: RunState, coordinator: RunCoordinator) -> None:
        self.state, self.cluster, self.coordinator = state, state.cluster, coordinator
        self.protocols: dict[str, type[Protocol[Any]]] = {"stop_and_go": StopAndGo}

    def request(self, operator: int) -> None:
        """Stop the operator, after what was asked for before and has to be over."""
        now = self.state.clock.now_ns()
        self.coordinator.request(self, StopRequest(((operator, WHOLE),), "stop_and_go", now, "event", operator))

    def waits(self, request: StopRequest) -> bool:
        """Return whether a key group of the operator is known to have no state now."""
        cluster, view = self.cluster, self.state.view
        down = [one for one in cluster.down_owners if cluster.partition_operator[one] == request.operator]
        return not all(map(view.partition_live, down))

    def begin(self, request: StopRequest) -> ProtocolRun[Stop] | None:
        """Return the run, over all tasks that are not known to be dead."""
        view, operators = self.state.view, self.cluster.task_operator
        members = [task for task, its in enumerate(operators) if its == request.operator and view.task_alive(task)]
        plan = Stop(request.operator, tuple(members))
        return ProtocolRun(request.protocol, self.protocols[request.protocol], plan, self, request.requested_ns)

    def ended(self, run: ProtocolRun[Stop]) -> None:
        """Nothing is left to do."""

    def cancelled(self, run: ProtocolRun[Stop]) -> None:
        """Have those that live go on."""
        for task in run.plan.members:
            if self.cluster.task_alive[task]:
                self.state.plane.unpause(task)
