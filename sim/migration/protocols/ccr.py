"""CCR: capture, checkpoint, resume. [Shukla and Simmhan, Toward Reliable and Rapid Elasticity, 2017]"""

from __future__ import annotations

from sim.migration.rebalance import RebalanceContext, SavingProtocol
from sim.migration.waves import PREPARE, Address, Wave
from sim.plane_values import Parcel


class CCR(SavingProtocol):
    """Stop every task at once, save its state and the tuples on their way to it, and restart all tasks.

    Paused: the sources, from the request until the last task is initialised; every task, from PREPARE to its own
    INIT. Copied: states and captured tuples. Lost: nothing; every tuple is processed once.
    """

    def after_pause(self, ctx: RebalanceContext) -> None:
        """Broadcast PREPARE to the end of every queue."""
        self.broadcast(ctx, Wave(PREPARE), self.plan.hosts)

    def prepare(self, ctx: RebalanceContext, to: Address) -> None:
        """Capture from now on: tuples behind PREPARE are not processed."""
        ctx.hold()
        self.finish(ctx, PREPARE, to)

    def saved(self, ctx: RebalanceContext, to: Address) -> list[Parcel]:
        """Return the state and what was captured; timers make nothing from now on."""
        ctx.pause()
        return [ctx.snapshot(), ctx.capture()]

    def send_init(self, ctx: RebalanceContext, wave: Wave, late: list[int]) -> None:
        """Broadcast INIT to those that have not answered."""
        self.broadcast(ctx, wave, late)
