"""Protocols that are broken on purpose: each has to be noticed."""

from __future__ import annotations

from lab.breaking import protocol
from lab.stops import Fact, StopAndGo, StopContext
from sim.migration.move import Fact as Owns
from sim.migration.move import MoveContext
from sim.migration.protocol import Message
from sim.migration.protocols.cpa import CPA
from sim.migration.protocols.cpal import CPAL
from sim.migration.protocols.direct import Direct
from sim.migration.protocols.pause_drain_resume import PauseDrainResume
from sim.migration.protocols.replication import Replication

# -- CPA


@protocol("cpa", "to_state without the buffer")
class ToStateWithoutBuffer(CPA):
    def on_move(self, ctx: MoveContext, message: Message) -> None:
        ctx.route(self.move.new)
        ctx.send(self.move.target, "to_state")
        ctx.send(self.move.source, "to_checkpoint", turn=True)


@protocol("cpa", "the checkpoint becomes state at every to_state")
class InstalledAtEach(CPA):
    def on_to_state(self, ctx: MoveContext, message: Message) -> None:
        if ctx.has_state():
            ctx._plane.retire(self.move.new)  # what there is is forgotten
            partition = ctx._plane._numbered[self.move.new]
            partition.retired = False
        ctx.install()
        ctx.after_backlog("replayed", note=message.sender)


@protocol("cpa", "the source converts at the first to_checkpoint")
class FirstToCheckpointConverts(CPA):
    def on_to_checkpoint(self, ctx: MoveContext, message: Message) -> None:
        if self.first("to_checkpoint"):
            ctx.to_checkpoint()
        self.all_in("to_checkpoint", message.sender, self.move.upstream)


@protocol("cpa", "start from empty state")
class EmptyState(CPA):
    def on_to_state(self, ctx: MoveContext, message: Message) -> None:
        if not ctx.has_state():
            ctx._instances.open(self.move.new)
        ctx.after_backlog("replayed", note=message.sender)


@protocol("cpa", "the redirect comes before the buffer")
class RedirectFirst(CPA):
    def on_move(self, ctx: MoveContext, message: Message) -> None:
        ctx.route(self.move.new)
        ctx.send(self.move.target, "to_state")
        ctx.send(self.move.source, "to_checkpoint", turn=True)
        ctx.replay()


@protocol("cpa", "to_checkpoint does not wait its turn")
class FastToCheckpoint(CPA):
    def on_move(self, ctx: MoveContext, message: Message) -> None:
        ctx.pauses()
        ctx.replay()
        ctx.route(self.move.new)
        ctx.send(self.move.target, "to_state")
        ctx.send(self.move.source, "to_checkpoint")


@protocol("cpa", "the old owner's checkpoints go on")
class StillCheckpointed(CPA):
    def start(self, ctx: MoveContext) -> None:
        for task in self.move.upstream:
            ctx.send(task, "move")


# -- CPAL


@protocol("cpal", "redirect instead of duplicate")
class RedirectInsteadOfDuplicate(CPAL):
    def on_move(self, ctx: MoveContext, message: Message) -> None:
        ctx.replay(turn=True)
        ctx.route(self.move.new)
        ctx.send(self.move.target, "to_state", turn=True)


@protocol("cpal", "no buffering after sync_group")
class NothingHeld(CPAL):
    def on_sync_group(self, ctx: MoveContext, message: Message) -> None:
        ctx.pauses()
        if self.all_in("sync_group", message.sender, self.move.upstream):
            ctx.unmute()
            ctx.after_backlog("caught_up")


@protocol("cpal", "buffered tuples are dropped")
class HeldDropped(CPAL):
    def on_sync_group(self, ctx: MoveContext, message: Message) -> None:
        ctx.hold(message.sender)
        if self.all_in("sync_group", message.sender, self.move.upstream):
            ctx.unmute()
            ctx._plane.tasks[ctx.me].side.clear()
            ctx.release()
            ctx.after_backlog("caught_up")


@protocol("cpal", "buffered tuples are held for ever")
class HeldForEver(CPAL):
    def on_sync_group(self, ctx: MoveContext, message: Message) -> None:
        ctx.hold(message.sender)
        if self.all_in("sync_group", message.sender, self.move.upstream):
            ctx.unmute()
            ctx.after_backlog("caught_up")


@protocol("cpal", "not muted")
class NotMuted(CPAL):
    def on_to_state(self, ctx: MoveContext, message: Message) -> None:
        if not ctx.has_state():
            ctx.install()
        ctx.after_backlog("replayed", note=message.sender)


@protocol("cpal", "never unmuted")
class NeverUnmuted(CPAL):
    def on_sync_group(self, ctx: MoveContext, message: Message) -> None:
        ctx.hold(message.sender)
        if self.all_in("sync_group", message.sender, self.move.upstream):
            ctx.release()
            ctx.after_backlog("caught_up")


@protocol("cpal", "one sync_group suffices")
class OneSyncGroupSuffices(CPAL):
    def on_sync_group(self, ctx: MoveContext, message: Message) -> None:
        if self.first("sync_group"):
            ctx.unmute()
            ctx.after_backlog("caught_up")
        self.all_in("sync_group", message.sender, self.move.upstream)


@protocol("cpal", "processed_all_replay after the first to_state")
class SwitchAfterTheFirstReplay(CPAL):
    def on_replayed(self, ctx: MoveContext, message: Message) -> None:
        assert isinstance(message.note, int)
        if self.first("replayed"):
            self.ask_for_the_switch(ctx)
        self.all_in("replayed", message.note, self.move.upstream)


@protocol("cpal", "one to_checkpoint suffices")
class OneToCheckpointSuffices(CPAL):
    def on_to_checkpoint(self, ctx: MoveContext, message: Message) -> None:
        if self.first("to_checkpoint"):
            ctx.to_checkpoint()
        self.all_in("to_checkpoint", message.sender, self.move.upstream)


@protocol("cpal", "the switch before sync_group")
class SwitchFirst(CPAL):
    def on_processed_all_replay(self, ctx: MoveContext, message: Message) -> None:
        ctx.route(self.move.new)
        ctx.send(self.move.source, "to_checkpoint", turn=True)
        ctx.send(self.move.target, "sync_group")


@protocol("cpal", "sends nothing again after downstream was recovered")
class NeverResends(CPAL):
    def on_sync_group(self, ctx: MoveContext, message: Message) -> None:
        ctx._run.resend = False
        super().on_sync_group(ctx, message)


# -- direct


@protocol("direct", "trim before the checkpoint is stored")
class TrimsFirst(Direct):
    def start(self, ctx: MoveContext) -> None:
        plane = ctx._plane
        plane.trim(self.move.old, len(plane._numbered[self.move.old].applied))
        super().start(ctx)


@protocol("direct", "does not wait for the checkpoint")
class DoesNotWait(Direct):
    def start(self, ctx: MoveContext) -> None:
        ctx.checkpoint_to_target()
        CPA.start(self, ctx)


@protocol("direct", "takes the first checkpoint that is stored for the right one")
class AnyCheckpoint(Direct):
    def on_stored(self, ctx: MoveContext, message: Message) -> None:
        ctx.freeze_checkpoints()
        ctx.load_at_target("loaded")


@protocol("direct", "checkpoints go on while the target reads one")
class FreezesLate(Direct):
    def on_stored(self, ctx: MoveContext, message: Message) -> None:
        if ctx.target_has_checkpoint():
            ctx.load_at_target("loaded")
        else:
            ctx.checkpoint_to_target()


# -- a plan over a whole operator


@protocol("replication", "the new instance begins without the state")
class BeginsWithoutTheState(Replication):
    def start(self, ctx: MoveContext) -> None:
        CPAL.start(self, ctx)


@protocol("replication", "both instances answer while they run beside each other")
class BothAnswer(Replication):
    def on_to_state(self, ctx: MoveContext, message: Message) -> None:
        if not ctx.has_state():
            ctx.install()
        ctx.after_backlog("replayed", note=message.sender)


@protocol("stop_and_go", "only the first task goes on")
class OneGoesOn(StopAndGo):
    def on_stopped(self, ctx: StopContext, message: Message) -> None:
        assert isinstance(message.note, int)
        if self.all_in("stopped", message.note, self.plan.members):
            ctx.send(self.plan.members[0], "go")
            for task in self.plan.members[1:]:
                ctx.send(task, "pretend")

    def on_pretend(self, ctx: StopContext, message: Message) -> None:
        ctx.tell("gone", note=ctx.me)


@protocol("stop_and_go", "the coordinator hears of one task for all")
class OneStandsForAll(StopAndGo):
    def on_gone(self, ctx: StopContext, message: Message) -> None:
        if self.first("gone"):
            ctx.goes_on()
            ctx.done(Fact.RUNS)
        self._heard.setdefault("gone", set())


# -- pause, drain, resume


@protocol("pause_drain_resume", "the state is sent after the first drain")
class OneDrainSuffices(PauseDrainResume):
    def on_drain(self, ctx: MoveContext, message: Message) -> None:
        if self.first("drain"):
            self.all_in("drain", message.sender, ())
            self.send_state(ctx)


@protocol("pause_drain_resume", "drain does not wait its turn")
class DrainAhead(PauseDrainResume):
    def on_move(self, ctx: MoveContext, message: Message) -> None:
        ctx.pauses()
        ctx.keep_too()
        ctx.route(self.move.new)
        ctx.send(self.move.source, "drain")


@protocol("pause_drain_resume", "drain comes before the redirect")
class DrainFirst(PauseDrainResume):
    def on_move(self, ctx: MoveContext, message: Message) -> None:
        ctx.pauses()
        ctx.keep_too()
        ctx.send(self.move.source, "drain", turn=True)
        ctx.after_backlog("redirect")

    def on_redirect(self, ctx: MoveContext, message: Message) -> None:
        ctx.route(self.move.new)


@protocol("pause_drain_resume", "the history of the old instance is not kept for the new one")
class WithoutTheHistory(PauseDrainResume):
    def on_move(self, ctx: MoveContext, message: Message) -> None:
        ctx.pauses()
        ctx.route(self.move.new)
        ctx.send(self.move.source, "drain", turn=True)


@protocol("pause_drain_resume", "the old instance stays the owner")
class NeverOwns(PauseDrainResume):
    def on_read(self, ctx: MoveContext, message: Message) -> None:
        ctx.install()
        ctx.done(Owns.HOLDS)
        ctx.after_backlog("caught_up")
