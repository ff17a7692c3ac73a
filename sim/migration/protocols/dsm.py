"""DSM: the default of Storm 1.0.3. [Shukla and Simmhan, Toward Reliable and Rapid Elasticity, 2017]"""

from __future__ import annotations

from typing import ClassVar

from sim.migration.protocol import Message
from sim.migration.rebalance import Phase, RebalanceContext, RebalanceProtocol


class DSM(RebalanceProtocol):
    """Kill all tasks and start them elsewhere; replay and periodic checkpoints mend what that breaks.

    Paused: each task, from the kill until a periodic wave initialises it; no source. Copied: states, as the last COMMIT
    of the periodic waves left them. Lost: what is queued and in flight, whose roots fail and are emitted again: each
    tuple is processed at least once. With `covered` acks it is also in the state; with `literal` ones the state lacks
    tuples that were acknowledged after the last COMMIT.
    """

    saves: ClassVar[bool] = False

    def start(self, ctx: RebalanceContext) -> None:
        """Issue the command; the dataflow runs on until it ends."""
        ctx.timer(self.plan.command_ns, "commanded")

    def on_commanded(self, ctx: RebalanceContext, message: Message) -> None:
        """Kill and start all subtasks."""
        ctx.done(Phase.KILLED)
        ctx.restart_all()

    def on_ack(self, ctx: RebalanceContext, message: Message) -> None:
        """Count a subtask that a periodic wave has initialised; the last one ends the run."""
        assert isinstance(message.note, tuple)
        wave, subtask = message.note
        if self.last_of(wave, subtask, self.plan.hosts):
            ctx.done(Phase.RESUMED)
