"""`stop-and-restart`: the whole job drains and saves its states, and restarts with its key groups elsewhere.

What Flink does with a savepoint, and Spark Streaming, as Hoffmann et al., *Megaphone*, PVLDB 12(9), 2019, section 2,
describes it.
"""

from __future__ import annotations

from typing import ClassVar

from sim.migration.pausing import PausingContext
from sim.migration.protocol import Message
from sim.migration.reconfiguration import ReconfigurationProtocol, Reconfigured


class StopAndRestart(ReconfigurationProtocol):
    """Stop the sources, let the job drain, save all states, restart, and load each state at the task that has it then.

    Paused: the whole job. Copied: all states, to the store and back. Lost: nothing. Twice: nothing.

    No task is killed: at the restart their queues are empty, so that it is a time and nothing else.
    """

    context: ClassVar[type[PausingContext]] = PausingContext
    by_time: ClassVar[bool] = False

    # -- at the coordinator

    def start(self, ctx: PausingContext) -> None:
        ctx.configure(0)
        for task in ctx.sources:
            ctx.send(task, "stop")

    def on_stopped(self, ctx: PausingContext, message: Message) -> None:
        """Restart the tasks when all states are saved."""
        if self.last_of("stopped", message.sender, ctx.tasks):
            ctx.timer(self.plan.restart_ns, "restarted")

    def on_restarted(self, ctx: PausingContext, message: Message) -> None:
        ctx.broadcast(ctx.tasks, "load", None)

    def on_loaded(self, ctx: PausingContext, message: Message) -> None:
        """Have the sources go on when all states are at their tasks."""
        if self.last_of("loaded", message.sender, ctx.tasks):
            ctx.broadcast(ctx.sources, "go_on", None)

    def on_resumed(self, ctx: PausingContext, message: Message) -> None:
        if self.last_of("resumed", message.sender, ctx.sources):
            ctx.done(Reconfigured.INSTALLED)

    # -- at each task

    def on_stop(self, ctx: PausingContext, message: Message) -> None:
        """Stop, once all is processed that came from upstream; tell those downstream, behind the last tuple."""
        upstream = ctx.upstream
        if not upstream:
            ctx.pause()
        elif not self.last_of("stop", message.sender, upstream):
            return
        ctx.drained()
        if ctx.me in self.plan.senders:
            ctx.redirect()
        for task in ctx.downstream:
            ctx.send(task, "stop", turn=True)
        ctx.save("saved")

    def on_saved(self, ctx: PausingContext, message: Message) -> None:
        """Tell the coordinator, once all parts of the state are in the store."""
        if self._was_last("saved", message):
            ctx.tell("stopped")

    def on_load(self, ctx: PausingContext, message: Message) -> None:
        ctx.load("read")

    def on_read(self, ctx: PausingContext, message: Message) -> None:
        for parcel in message.parcels:
            ctx.install(parcel, 0)
        ctx.loaded()
        if self._was_last("read", message):
            ctx.tell("loaded")

    def on_go_on(self, ctx: PausingContext, message: Message) -> None:
        ctx.resume()
        ctx.tell("resumed")

    def _was_last(self, wave: str, message: Message) -> bool:
        """Note a part of a state; return whether all are through, as many as the note says."""
        assert isinstance(message.note, int)
        return self.last_of(wave, len(self.answered(wave)), range(message.note))
