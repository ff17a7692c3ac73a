"""DSM: the default of Storm 1.0.3. [Shukla and Simmhan, Toward Reliable and Rapid Elasticity, 2017]"""

from __future__ import annotations

from typing import ClassVar

from sim.migration.protocol import Message
from sim.migration.rebalance import PAUSE, RESUME, Phase, RebalanceContext, RebalanceProtocol
from sim.migration.waves import INIT, Wave


class DSM(RebalanceProtocol):
    """Kill all tasks and start them elsewhere; replay and periodic checkpoints mend what that breaks.

    Paused: each task, from the kill until a periodic wave initialises it; no source, unless the request has a wait:
    then all of them from the request until the kill. Copied: states, as the last COMMIT of the periodic waves left
    them; without waves none. Lost: what is queued and in flight, whose roots fail and are emitted again: each tuple is
    processed at least once. With `covered` acks it is also in the state; with `literal` ones the state lacks tuples
    that were acknowledged after the last COMMIT.
    """

    saves: ClassVar[bool] = False

    def start(self, ctx: RebalanceContext) -> None:
        """Pause the sources for the wait, if there is one; then issue the command, and kill when it ends."""
        for source in self._paused():
            ctx.send_to(source, PAUSE)
        ctx.timer((self.plan.wait_ns or 0) + self.plan.command_ns, "commanded")

    def on_commanded(self, ctx: RebalanceContext, message: Message) -> None:
        """Kill and start all subtasks, and have paused sources go on."""
        ctx.done(Phase.KILLED)
        ctx.restart_all()
        if self._paused():
            self.on_again(ctx, message)

    def on_again(self, ctx: RebalanceContext, message: Message) -> None:
        """Send to the sources that have not answered, until all have: the host of one may have died."""
        late = sorted({*self._paused()} - self.answered(Wave(RESUME)))
        for source in late:
            ctx.send_to(source, RESUME)
        if late:
            ctx.timer(self.plan.resend_ns, "again")

    def on_ack(self, ctx: RebalanceContext, message: Message) -> None:
        """Count a subtask that is initialised, and a source that goes on; the last one ends the run."""
        assert isinstance(message.note, tuple)
        wave, subtask = message.note
        expected = {INIT: {*self.plan.hosts}, RESUME: {*self._paused()}}
        last = self.last_of(wave, subtask, expected.get(wave.kind, ()))
        if last and all(self.answered(Wave(kind)) >= those for kind, those in expected.items()):
            ctx.done(Phase.RESUMED)

    def _paused(self) -> tuple[int, ...]:
        """Return the sources that are paused during the wait."""
        return self.plan.flow.sources if self.plan.wait_ns is not None else ()
