"""`pause-and-resume`: the tasks that give or get key groups pause until the states have moved.

The partial pause-and-resume of Flux (Shah et al., ICDE 2003) and SEEP (Castro Fernandez et al., SIGMOD 2013), as
Hoffmann et al., *Megaphone*, PVLDB 12(9), 2019, section 2, describes it.
"""

from __future__ import annotations

from typing import ClassVar

from sim.migration.pausing import PausingContext
from sim.migration.protocol import Message
from sim.migration.reconfiguration import ReconfigurationProtocol, TakenOut


class PauseAndResume(ReconfigurationProtocol):
    """Redirect the key groups, drain the tasks concerned, move the states, and have the tasks go on.

    Paused: the tasks that give or get a key group, with all that they have. Copied: states. Lost: nothing. Twice:
    nothing.
    """

    context: ClassVar[type[PausingContext]] = PausingContext
    by_time: ClassVar[bool] = False

    @property
    def concerned(self) -> tuple[int, ...]:
        """Return the tasks that give or get a key group."""
        return tuple(sorted({task for carry in self.plan.steps[0] for task in (carry.source, carry.target)}))

    @property
    def _carries(self) -> range:
        return range(len(self.plan.steps[0]))

    # -- at the coordinator

    def start(self, ctx: PausingContext) -> None:
        ctx.configure(0)
        for task in self.plan.senders:
            ctx.send(task, "redirect")

    def on_installed(self, ctx: PausingContext, message: Message) -> None:
        assert isinstance(message.note, int)
        if self.last_of("installed", message.note, self._carries):
            self._resume(ctx)

    def on_paused(self, ctx: PausingContext, message: Message) -> None:
        if self.last_of("paused", message.sender, self.concerned):
            self._resume(ctx)

    def _resume(self, ctx: PausingContext) -> None:
        """Have the tasks go on when all have paused, and all states are there.

        Who has much in its queue may pause behind that: it would hear first to go on, and then to pause.
        """
        ready = self.answered("installed") >= {*self._carries} and self.answered("paused") >= {*self.concerned}
        if ready and self.first("resume"):
            self.all_in("resume", ctx.me, ())
            ctx.broadcast(self.concerned, "resume", None)

    def on_resumed(self, ctx: PausingContext, message: Message) -> None:
        if self.last_of("resumed", message.sender, self.concerned):
            ctx.over(0)

    def on_lost(self, ctx: PausingContext, message: Message) -> None:
        """Tasks that take part are lost: go on without their answers, and without the states that never come."""
        assert isinstance(message.note, TakenOut)
        for task in message.note.tasks:
            for other in self.concerned if task in self.plan.senders else ():
                ctx.send(other, "pause", turn=True, note=task)  # behind all that had left it
        for _, carry in message.note.carries:
            self.last_of("installed", carry, self._carries)
        over = False
        for task in message.note.tasks:
            if task in self.concerned:
                self.last_of("paused", task, self.concerned)
                over = self.last_of("resumed", task, self.concerned) or over
        self._resume(ctx)
        if over:
            ctx.over(0)

    # -- upstream

    def on_redirect(self, ctx: PausingContext, message: Message) -> None:
        """Send to the new tasks from now on, and `pause` behind the last tuple that went to the old ones."""
        ctx.redirect()
        for task in self.concerned:
            ctx.send(task, "pause", turn=True)

    # -- at the tasks that pause

    def on_pause(self, ctx: PausingContext, message: Message) -> None:
        """Hold what comes next, and send the states, once all is processed that came before."""
        sender = message.sender if message.note is None else message.note  # in whose place control says it
        assert isinstance(sender, int)
        if self.last_of("pause", sender, self.plan.senders):
            ctx.drained()
            ctx.hold()
            ctx.tell("paused")
            ctx.give(0, "state")

    def on_state(self, ctx: PausingContext, message: Message) -> None:
        ctx.read(message.parcels[0], "read", message.note)

    def on_read(self, ctx: PausingContext, message: Message) -> None:
        ctx.install(message.parcels[0], 0)
        assert isinstance(message.note, tuple)
        ctx.tell("installed", message.note[1])

    def on_resume(self, ctx: PausingContext, message: Message) -> None:
        """Process what was held, and go on."""
        ctx.release()
        ctx.tell("resumed")
