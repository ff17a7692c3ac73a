"""Carries the messages of protocols to the handlers of their runs, and fences what is out of date."""

from __future__ import annotations

from collections.abc import Callable

from sim.clock import MESSAGE, Process, channel
from sim.control.catch_up import CatchUps
from sim.control.instances import Instances
from sim.control.replicas import Replicas
from sim.control.run_state import RunState
from sim.data_plane import CONTROL, REMOTE
from sim.migration.context import COMPLETE, Context, Fact, Message, MigrationRun, Move, Protocol

_NS = 1_000_000_000


class ProtocolRuntime:
    """Carries messages to the handlers of their run, and fences what is out of date.

    What is said to the coordinator takes the latency, and holds no link.
    """

    def __init__(
        self,
        state: RunState,
        instances: Instances,
        replicas: Replicas,
        catch_ups: CatchUps,
        done: Callable[[MigrationRun, Fact], None],
    ) -> None:
        self.state, self.instances, self.replicas, self.catch_ups = state, instances, replicas, catch_ups
        self.done = done
        self.runs: list[MigrationRun] = []
        self._sent: dict[int, Message] = {}

    def start(self, name: str, protocol: type[Protocol], move: Move, requested_ns: int) -> MigrationRun:
        """A new run, at whose coordinator the protocol begins."""
        run = MigrationRun(len(self.runs), name, protocol, move, requested_ns)
        for before in self.runs:
            if before.move.new == move.old and before.worst_ns is None:
                before.worst_ns = self.worst_ns(before)
        for instance in (move.old, move.new):
            self.state.plane.measure(instance, self.state.clock.now_ns())
        self.runs.append(run)
        run.at(CONTROL).start(Context(self, run, CONTROL))
        return run

    def worst_ns(self, run: MigrationRun) -> int:
        """The longest time of a tuple of the group from its arrival at either instance until it was answered.

        Of those that arrive from the begin of the run on, until after its completion one does not wait.
        """
        if run.worst_ns is not None:
            return run.worst_ns
        return max(self.state.plane.longest_ns(instance) for instance in (run.move.old, run.move.new))

    def fact(self, run: MigrationRun, what: Fact) -> None:
        """Something is true at a task; with the last of the facts the run is complete."""
        run.facts.add(what)
        if run.facts >= COMPLETE and run.completed_ns is None:
            run.completed_ns = self.state.clock.now_ns()
            self.state.plane.measure_until_calm(run.move.new)
        self._later(lambda: self.done(run, what))

    def tell(self, message: Message) -> None:
        """A message to the coordinator, which takes the latency alone."""
        self._later(lambda: self.deliver(message))

    def _later(self, call: Callable[[], None]) -> None:
        """Call when a message to the coordinator has come."""
        self.state.clock.process(self._arrives(call))

    def _arrives(self, call: Callable[[], None]) -> Process:
        clock = self.state.clock
        yield clock.sleep(clock.now_ns() + self.state.plan.latency_ns)
        call()

    def send(self, message: Message, turn: bool) -> None:
        """Hand a message to the data plane."""
        token = self.state.new_token()
        self._sent[token] = message
        self.state.plane.send(message.sender, message.to, token, turn)

    def after_backlog(self, message: Message) -> None:
        """A message of a task to itself, in front of its queue."""
        if self.state.plan.operators[self.state.cluster.task_operator[message.to]].service_ns is None:
            self.deliver(message)  # whatever was in front is done already
        else:
            self.state.work(message.to, 0, lambda: self.deliver(message))

    def timer(self, message: Message, delay_ns: int) -> None:
        """A message of a task, or of the coordinator, to itself after a time."""
        self.state.clock.process(self._rings(message, self.state.clock.now_ns() + delay_ns))

    def _rings(self, message: Message, at_ns: int) -> Process:
        yield self.state.clock.sleep(at_ns)
        if message.to == CONTROL or self.state.cluster.task_alive[message.to]:
            self.deliver(message)

    def load(self, run: MigrationRun, then: Callable[[], None]) -> None:
        """Have the target read the stored checkpoint, which comes from the remote store if it is there; then go on."""
        state, move, plane = self.state, run.move, self.state.plane
        size = plane.checkpoint_bytes(move.old)
        if plane.checkpoint_host(move.old) != REMOTE:
            self._read(run, size, then)
            return
        state.recorder.restore(state.clock.now_ns(), size)
        rank = channel(MESSAGE, move.target, move.target)
        state.clock.at(plane.fetch_ns(size), rank, lambda _: self._read(run, size, then))

    def _read(self, run: MigrationRun, size: int, then: Callable[[], None]) -> None:
        """Occupy the target, unless it is dead or the run is over, for as long as it takes."""
        state, target = self.state, run.move.target
        rate = state.plan.operators[state.cluster.task_operator[target]].description.deserialise_bytes_per_s
        if run.over or not state.cluster.task_alive[target]:
            return
        if rate is None:
            self._loaded(run, then)
        else:
            state.work(target, max(1, round(size * _NS / rate)), lambda: self._loaded(run, then))

    def _loaded(self, run: MigrationRun, then: Callable[[], None]) -> None:
        if not run.over:
            run.loaded = True
            then()

    def heard(self, token: int) -> None:
        """The plane says that a message has come, or its turn."""
        self.deliver(self._sent.pop(token))

    def deliver(self, message: Message) -> None:
        """Call the handler, unless the run is over."""
        run = self.runs[message.run]
        if not run.over:
            getattr(run.at(message.to), f"on_{message.kind}")(Context(self, run, message.to), message)

    def stored(self, partition: int) -> None:
        """Tell the coordinator that an announced checkpoint of the partition is stored, after a latency."""
        for run in self.runs:
            if not run.over and run.move.old == partition:
                self._later(lambda run=run: self._stored(run))  # type: ignore[misc]

    def _stored(self, run: MigrationRun) -> None:
        run.stored = True
        self.deliver(Message(run.number, "stored", CONTROL, CONTROL))
