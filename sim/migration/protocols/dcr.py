"""DCR: drain, checkpoint, restore. [Shukla and Simmhan, Toward Reliable and Rapid Elasticity, 2017]"""

from __future__ import annotations

from typing import ClassVar

from sim.migration.rebalance import Rebalance, RebalanceContext, SavingProtocol
from sim.migration.waves import COMMIT, PREPARE, Address, Wave
from sim.plane_values import Parcel


class DCR(SavingProtocol):
    """Let the dataflow drain, save all states, and restart all tasks.

    Paused: the sources, from the request until the last task is initialised. Copied: states. Lost: nothing; every
    tuple is processed once, and all old outputs come before new ones.
    """

    fast: ClassVar[frozenset[str]] = frozenset({COMMIT})

    def __init__(self, plan: Rebalance) -> None:
        super().__init__(plan)
        self.states: dict[int, Parcel] = {}  # snapshots of the subtasks here

    def after_pause(self, ctx: RebalanceContext) -> None:
        """Send PREPARE along the dataflow, behind all data."""
        self.send_along(ctx, Wave(PREPARE))

    def prepare(self, ctx: RebalanceContext, to: Address) -> None:
        """Take a snapshot: what was before PREPARE is processed.

        The task then pauses: what its timers made would not be in the snapshots.
        """
        self.states[to.subtask] = ctx.snapshot()
        self.finish(ctx, PREPARE, to)
        ctx.pause()

    def saved(self, ctx: RebalanceContext, to: Address) -> list[Parcel]:
        """Return the snapshot."""
        return [self.states[to.subtask]]

    def send_init(self, ctx: RebalanceContext, wave: Wave, late: list[int]) -> None:
        """Send INIT along the dataflow; those that are initialised pass it on."""
        self.send_along(ctx, wave)
