"""Two protocols over whole dataflows, for tests of the verbs alone: all tasks but the sources are killed and come back.

One drains the dataflow before that, the other captures what is on its way. No task may have more than one thread: the
turn of a message may come while other threads serve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sim.control.run_state import RunState
from sim.migration.coordinator import RunCoordinator
from sim.migration.protocol import WHOLE, Context, Message, Plan, PlanKind, Protocol, ProtocolRun, Request, Territory


class Fact(Enum):
    """What has come true."""

    RESUMED = "resumed"  # the sources go on


@dataclass(frozen=True)
class Rebalance(Plan):
    """Tasks that are killed, and the host to which each goes; sources stay."""

    operators: int
    sources: tuple[int, ...]
    hosts: Mapping[int, int]  # by task that is killed
    above: Mapping[int, int]  # how many tasks send to it
    below: Mapping[int, tuple[int, ...]]
    start_ns: int

    @property
    def tasks(self) -> tuple[int, ...]:
        """Return all tasks."""
        return (*self.sources, *self.hosts)

    @property
    def territory(self) -> Territory:
        """Return the whole dataflow."""
        return tuple((operator, WHOLE) for operator in range(self.operators))


class Drain(Protocol[Rebalance]):
    """Pause the sources, let a wave push all tuples out, save the states behind it, and restart every task."""

    complete = frozenset(Fact)
    context = Context
    resend_ns = 1_000_000_000
    rounds = 5  # of messages to those that have not answered: then it gives up, and the run does not end

    def start(self, ctx: Context) -> None:
        """Pause the sources."""
        self.new: dict[int, int] = {}  # by task that was killed
        for task in self.plan.sources:
            ctx.send(task, "pause")

    # at a source

    def on_pause(self, ctx: Context, message: Message) -> None:
        """Stop, and say so."""
        ctx.pause()
        ctx.tell("paused", note=ctx.me)

    def on_sweep(self, ctx: Context, message: Message) -> None:
        """Begin a wave along the dataflow."""
        self.pass_on(ctx, "save")

    def on_resume(self, ctx: Context, message: Message) -> None:
        """Go on, and say so: a message of a run that is over reaches nobody."""
        ctx.resume()
        ctx.tell("resumed", note=ctx.me)

    def pass_on(self, ctx: Context, kind: str) -> None:
        """Send a message of a wave to all tasks downstream."""
        for task in self.plan.below[ctx.me]:
            ctx.send(task, kind, turn=True, aligned=self.plan.above[task])

    # at a task

    def on_save(self, ctx: Context, message: Message) -> None:
        """Save the state: all that was sent before the wave is in it."""
        ctx.persist(ctx.me, [ctx.snapshot()], "saved")

    def on_saved(self, ctx: Context, message: Message) -> None:
        """The wave goes on when the store has answered."""
        self.pass_on(ctx, "save")
        ctx.tell("all_saved", note=ctx.me)

    def on_init(self, ctx: Context, message: Message) -> None:
        """Read what the predecessor has saved, once."""
        if self.first("init"):
            self.all_in("init", message.sender, ())
            ctx.fetch(message.note, "fetched", note=message.note)

    def on_fetched(self, ctx: Context, message: Message) -> None:
        """Go on from it."""
        ctx.put(message.parcels, "initialised", note=message.note)

    def on_initialised(self, ctx: Context, message: Message) -> None:
        """Say so."""
        ctx.tell("ready", note=message.note)

    # at the coordinator

    def on_paused(self, ctx: Context, message: Message) -> None:
        """All sources are paused."""
        assert isinstance(message.note, int)
        if self.last_of("paused", message.note, self.plan.sources):
            self.all_paused(ctx)

    def all_paused(self, ctx: Context) -> None:
        """Begin to save."""
        for task in self.plan.sources:
            ctx.send(task, "sweep")

    def on_all_saved(self, ctx: Context, message: Message) -> None:
        """Kill every task once all are saved."""
        assert isinstance(message.note, int)
        if self.last_of("saved", message.note, self.plan.hosts):
            for task, host in self.plan.hosts.items():
                ctx.restart(task, host, "restarted", self.plan.start_ns)

    def on_restarted(self, ctx: Context, message: Message) -> None:
        """Have a task initialise itself; those downstream may not be there yet, and hold what it sends."""
        assert isinstance(message.note, int)
        self.new[message.sender] = message.note
        if self.last_of("restarted", message.sender, self.plan.hosts):
            self.on_again(ctx, message)

    def on_again(self, ctx: Context, message: Message) -> None:
        """Have those initialise themselves that have not answered, perhaps because they are slow."""
        late = self.plan.hosts.keys() - self.answered("ready")
        for old in sorted(late):
            ctx.send(self.new[old], "init", note=old)
        self.rounds -= 1
        if late and self.rounds:
            ctx.timer(self.resend_ns, "again")

    def on_ready(self, ctx: Context, message: Message) -> None:
        """Resume the sources once all are ready."""
        assert isinstance(message.note, int)
        if self.last_of("ready", message.note, self.plan.hosts):
            for task in self.plan.sources:
                ctx.send(task, "resume")

    def on_resumed(self, ctx: Context, message: Message) -> None:
        """End the run when all sources go on."""
        assert isinstance(message.note, int)
        if self.last_of("resumed", message.note, self.plan.sources):
            ctx.done(Fact.RESUMED)


class Capture(Drain):
    """The same, but tasks stop processing at once, and what is on its way is saved with the states."""

    def all_paused(self, ctx: Context) -> None:
        """Have every task capture from now on."""
        for task in self.plan.hosts:
            ctx.send(task, "prepare", turn=True)

    def on_prepare(self, ctx: Context, message: Message) -> None:
        """Process nothing that comes behind this."""
        ctx.hold()
        ctx.tell("prepared", note=ctx.me)

    def on_prepared(self, ctx: Context, message: Message) -> None:
        """Begin to save once all capture: nothing new is made behind the wave."""
        assert isinstance(message.note, int)
        if self.last_of("prepared", message.note, self.plan.hosts):
            super().all_paused(ctx)

    def on_save(self, ctx: Context, message: Message) -> None:
        """Save the state and what was captured: the wave is behind the last tuple of every channel."""
        ctx.persist(ctx.me, [ctx.snapshot(), ctx.capture()], "saved")


@dataclass(frozen=True)
class RebalanceRequest(Request):
    """Somebody wants all tasks to be elsewhere."""

    shift: int
    hosts: int
    start_ns: int


class Rebalances(PlanKind[RebalanceRequest]):
    """Restarts whole dataflows, where no host fails."""

    def __init__(self, state: RunState, coordinator: RunCoordinator) -> None:
        self.state, self.cluster, self.coordinator = state, state.cluster, coordinator
        self.protocols: dict[str, type[Protocol[Any]]] = {"drain": Drain, "capture": Capture}
        self.runs: list[ProtocolRun[Rebalance]] = []

    def request(self, protocol: str, hosts: int, shift: int = 1, start_ns: int = 0) -> None:
        """Move each task by so many of the first `hosts` hosts."""
        whole = tuple((operator, WHOLE) for operator in range(len(self.state.plan.operators)))
        now = self.state.clock.now_ns()
        self.coordinator.request(self, RebalanceRequest(whole, protocol, now, "event", shift, hosts, start_ns))

    def waits(self, request: RebalanceRequest) -> bool:
        """Return False: no host fails."""
        return False

    def begin(self, request: RebalanceRequest) -> ProtocolRun[Rebalance]:
        """Return the run, over all tasks that are alive."""
        cluster, operators = self.cluster, self.state.plan.operators
        live = [task for task, alive in enumerate(cluster.task_alive) if alive]
        of = cluster.task_operator
        sources = tuple(task for task in live if operators[of[task]].is_source)
        hosts = len(cluster.host_alive)
        goes = {
            task: (cluster.task_host[task] + request.shift) % hosts
            for task in live
            if not operators[of[task]].is_source
        }
        flow = self.state.plan.dataflow
        below = {task: tuple(t for t in live if flow.has_edge(of[task], of[t])) for task in live}
        above = {task: sum(task in tasks for tasks in below.values()) for task in live}
        plan = Rebalance(len(operators), sources, goes, above, below, request.start_ns)
        run = ProtocolRun(request.protocol, self.protocols[request.protocol], plan, self, request.requested_ns)
        self.runs.append(run)
        return run

    def ended(self, run: ProtocolRun[Rebalance]) -> None:
        """Nothing is left to do."""

    def cancelled(self, run: ProtocolRun[Rebalance]) -> None:
        """Raise: no host fails."""
        raise NotImplementedError
