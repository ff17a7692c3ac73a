"""Migration without any checkpoint: upstream pauses the key group, its task drains it, and the state is sent.

[Shah, Hellerstein, Chandrasekaran and Franklin, Flux, ICDE 2003, section 4.2]
"""

from __future__ import annotations

from abc import abstractmethod

from sim.migration.move import Fact, MoveContext, MoveProtocol
from sim.migration.protocol import Message


class DrainedState(MoveProtocol):
    """Base of moves whose state is sent once all is in it that upstream had sent before it was told of the move.

    For methods of recovery without checkpoints: upstream keeps a history, or what is not processed yet, and no more.
    """

    needs_checkpoint = False

    def start(self, ctx: MoveContext) -> None:
        """Tell everyone upstream."""
        for task in self.move.upstream:
            ctx.send(task, "move")

    # upstream

    @abstractmethod
    def on_move(self, ctx: MoveContext, message: Message) -> None:
        """Redirect the group, and send `drain` to the source behind the last tuple for it."""

    # at the task that has the group

    def on_drain(self, ctx: MoveContext, message: Message) -> None:
        """Send the state behind the last tuple from everyone upstream."""
        if self.all_in("drain", message.sender, self.move.upstream):
            self.send_state(ctx)

    def send_state(self, ctx: MoveContext) -> None:
        """Write the state and send it."""
        ctx.send_state("state")

    # at the task that gets it

    def on_state(self, ctx: MoveContext, message: Message) -> None:
        """Read the state."""
        ctx.read_state("read")

    @abstractmethod
    def on_read(self, ctx: MoveContext, message: Message) -> None:
        """Install the state that was read."""


class PauseDrainResume(DrainedState):
    """Pause a key group, drain it, send its state, and resume at the target.

    Paused: the group, from the redirect until the target has processed what waited there for the state. Copied: the
    state, with the outputs that it keeps. Lost: nothing.
    """

    def on_move(self, ctx: MoveContext, message: Message) -> None:
        """Send to the target from now on, which holds the tuples, and to nobody else."""
        ctx.pauses()
        # A history is for both until the old instance ends: either may have to be made anew from it.
        ctx.keep_too()
        ctx.route(self.move.new)
        ctx.send(self.move.source, "drain", turn=True)

    def on_read(self, ctx: MoveContext, message: Message) -> None:
        """Own the group; then go on with what waited."""
        ctx.install()
        ctx.take_over()
        ctx.after_backlog("caught_up")

    def on_caught_up(self, ctx: MoveContext, message: Message) -> None:
        """Note that the tuples that waited for the state are processed."""
        ctx.goes_on()
        ctx.done(Fact.OWNS)
