"""DCR: drain, checkpoint, restore. [Shukla and Simmhan, Toward Reliable and Rapid Elasticity, 2017]"""

from __future__ import annotations

from sim.data_plane import Parcel
from sim.migration.protocol import Message
from sim.migration.rebalance import Address, Rebalance, RebalanceContext, RebalanceProtocol


class DCR(RebalanceProtocol):
    """Let the dataflow drain, save all states, and restart all tasks.

    Paused: the sources, from the request until the last task is initialised. Copied: states. Lost: nothing; every
    tuple is processed once, and all old outputs come before new ones.
    """

    commit_waits = False  # tasks are paused, and nothing is in their queues

    def __init__(self, plan: Rebalance) -> None:
        super().__init__(plan)
        self.states: dict[int, Parcel] = {}  # snapshots of the instances here

    def after_pause(self, ctx: RebalanceContext) -> None:
        """Send PREPARE along the dataflow, behind all data."""
        for source in self.plan.sources:
            ctx.send_to(source, "sweep_prepare")

    def on_sweep_prepare(self, ctx: RebalanceContext, message: Message) -> None:
        """Send PREPARE behind all that was emitted."""
        ctx.send_along(Address.of(message).instance, "prepare")

    def on_prepare(self, ctx: RebalanceContext, message: Message) -> None:
        """Take a snapshot once PREPARE has come from all upstream: what was before it is processed.

        The task then pauses: what its timers made would not be in the snapshots.
        """
        if self.from_all(message):
            instance = Address.of(message).instance
            self.states[instance] = ctx.snapshot()
            ctx.send_along(instance, "prepare")
            ctx.acknowledge("prepare", instance)
            ctx.pause()

    def saved(self, ctx: RebalanceContext, instance: int) -> list[Parcel]:
        """Return the snapshot."""
        return [self.states[instance]]

    def send_init(self, ctx: RebalanceContext, late: list[int]) -> None:
        """Send INIT along the dataflow; those that are initialised pass it on."""
        for source in self.plan.sources:
            ctx.send_to(source, "sweep_init", wave=self.round)

    def on_sweep_init(self, ctx: RebalanceContext, message: Message) -> None:
        """Begin the wave."""
        to = Address.of(message)
        ctx.send_along(to.instance, "init", wave=to.wave)

    def on_init(self, ctx: RebalanceContext, message: Message) -> None:
        """Restore the state once this INIT has come from all upstream."""
        if self.from_all(message):
            super().on_init(ctx, message)

    def initialised(self, ctx: RebalanceContext, to: Address) -> None:
        """Pass INIT on."""
        super().initialised(ctx, to)
        ctx.send_along(to.instance, "init", wave=to.wave)
