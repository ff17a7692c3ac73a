"""CCR: capture, checkpoint, resume. [Shukla and Simmhan, Toward Reliable and Rapid Elasticity, 2017]"""

from __future__ import annotations

from sim.data_plane import Parcel
from sim.migration.protocol import Message
from sim.migration.rebalance import Address, RebalanceContext, RebalanceProtocol


class CCR(RebalanceProtocol):
    """Stop every task at once, save its state and the tuples on their way to it, and restart all tasks.

    Paused: the sources, from the request until the last task is initialised; every task, from PREPARE to its own
    INIT. Copied: states and captured tuples. Lost: nothing; every tuple is processed once.
    """

    def after_pause(self, ctx: RebalanceContext) -> None:
        """Broadcast PREPARE to the end of every queue."""
        for instance in self.plan.hosts:
            ctx.send_to(instance, "prepare", turn=True)

    def on_prepare(self, ctx: RebalanceContext, message: Message) -> None:
        """Capture from now on: tuples behind PREPARE are not processed."""
        ctx.hold()
        ctx.acknowledge("prepare", Address.of(message).instance)

    def saved(self, ctx: RebalanceContext, instance: int) -> list[Parcel]:
        """Return the state and what was captured; timers make nothing from now on."""
        ctx.pause()
        return [ctx.snapshot(), ctx.capture()]

    def send_init(self, ctx: RebalanceContext, late: list[int]) -> None:
        """Broadcast INIT to those that have not answered."""
        for instance in late:
            ctx.send_to(instance, "init", turn=True, wave=self.round)
