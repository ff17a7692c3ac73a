"""Adjustments that are broken on purpose: each has to be noticed, but for what is only slower, or the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lab.laboratory import Laboratory
from lab.slicing import Tamper
from sim.migration.adjustment import Adjustment, AdjustmentContext, Part
from sim.migration.protocol import Message
from sim.migration.protocols.oap import OAP
from sim.plain.trimming import Confirmation

MUTANTS: dict[str, Tamper] = {}
HARMLESS: dict[str, Tamper] = {}
"""Only slower, or the same in every state and at every sink."""


def broken(title: str, among: dict[str, Tamper] = MUTANTS) -> Callable[[Tamper], Tamper]:
    """Put a function in a list."""

    def listed(tamper: Tamper) -> Tamper:
        among[title] = tamper
        return tamper

    return listed


def protocol(title: str, among: dict[str, Tamper] = MUTANTS) -> Callable[[type[OAP]], type[OAP]]:
    """Put a protocol in a list."""

    def listed(made: type[OAP]) -> type[OAP]:
        among[title] = lambda lab: lab.adjustments.protocols.__setitem__("oap", made)
        return made

    return listed


def verbs(title: str, among: dict[str, Tamper] = MUTANTS) -> Callable[[type[AdjustmentContext]], Any]:
    """Put verbs in a list, with which the protocol is given others."""

    def listed(made: type[AdjustmentContext]) -> Any:
        protocol(title, among)(type(made.__name__, (OAP,), {"context": made}))
        return made

    return listed


# -- upstream


@protocol("upstream resumes at T1, by the new mapping")
class ResumesAtT1(OAP):
    def on_scale_up_init(self, ctx: AdjustmentContext, message: Message) -> None:
        self.all_in("scale_up_init", message.sender, self.plan.before)
        for part in self.plan.parts:
            ctx.route(part, part.new)
        self.try_to_resume(ctx)


@protocol("upstream resumes with the first Scale_Up_FIN")
class ResumesWithTheFirst(OAP):
    def try_to_resume(self, ctx: AdjustmentContext) -> None:
        ready = self.heard("scale_up_fin")
        if self.heard("scale_up_init") >= set(self.plan.before) and ready and self.first("resumed"):
            self.all_in("resumed", ctx.me, ())
            self._heard["scale_up_fin"] = set(self.plan.targets)
            super().try_to_resume(ctx)
            self._heard["scale_up_fin"] = {*ready}


@protocol("nothing is sent again")
class SendsNothingAgain(OAP):
    def __init__(self, plan: Adjustment) -> None:
        super().__init__(replace(plan, reading="literal"))


@verbs("buffers are split, and what is in them is not sent")
class OnlySplits(AdjustmentContext):
    def split(self, part: Part) -> None:
        for sender in self._plane.senders(part.old):
            if self._cluster.partition_task[sender] == self.me:
                self._plane.copy_kept(sender, part.old, part.new)


@verbs("what is sent again is not kept for the new instance")
class KeepsNothing(AdjustmentContext):
    def split(self, part: Part) -> None:
        super().split(part)
        for sender in self._plane.senders(part.new):
            if self._cluster.partition_task[sender] == self.me:
                plane: Any = self._plane
                plane.instances()[sender].kept[plane.instances()[part.new]].clear()


@verbs("buffers are split by count, not by key")
class SplitsByCount(AdjustmentContext):
    def split(self, part: Part) -> None:
        plane: Any = self._plane
        numbered = plane.instances()
        others = [one.new for one in self._run.plan.parts]
        for sender in plane.senders(part.old):
            if self._cluster.partition_task[sender] == self.me:
                for number, row in enumerate([*numbered[sender].kept.get(numbered[part.old], ())]):
                    other = numbered[others[number % len(others)]]
                    numbered[sender].keep(other, row)
                plane.replay(sender, part.new, missing=True)


@protocol("old and new do not both get what is sent meanwhile")
class SendsToTheNewAlone(OAP):
    def try_to_resume(self, ctx: AdjustmentContext) -> None:
        route = ctx.route
        ctx.route = lambda part, *instances: route(part, instances[-1])  # type: ignore[method-assign]
        super().try_to_resume(ctx)


@protocol("what is kept is sent behind new outputs")
class SendsAgainTooLate(OAP):
    def try_to_resume(self, ctx: AdjustmentContext) -> None:
        ready = self.heard("scale_up_fin") >= set(self.plan.targets)
        if not (self.heard("scale_up_init") >= set(self.plan.before) and ready):
            return
        for part in self.plan.parts:
            ctx.route(part, part.old, part.new)
        ctx.resume()
        ctx.timer(5, "split_late")

    def on_split_late(self, ctx: AdjustmentContext, message: Message) -> None:
        for part in self.plan.parts:
            ctx.split(part)
        for task in self.plan.targets:
            ctx.send(task, "resent")


# -- acks


@broken("an ack in the old numbering trims under the new one")
def old_acks_count(lab: Laboratory) -> None:
    trimming: Any = lab.plane.trimming
    acknowledge = trimming._acknowledge

    def acknowledges(said: Confirmation) -> None:
        owner = said.receiver.group.owner
        for other in said.sender.kept:
            if other.group is said.receiver.group and other is not said.receiver:
                count = said.counts[0]  # of the old instance: it has more than the new one
                kept = said.sender.kept[other]
                ids = {*said.receiver.applied[:count]}
                while kept and kept[0].id in ids:
                    kept.popleft()
        if owner is said.receiver or not said.receiver.retired:
            acknowledge(said)

    trimming._acknowledge = acknowledges


@broken("slices do not wait for the new instance")
def slices_do_not_wait(lab: Laboratory) -> None:
    trimming: Any = lab.plane.trimming
    trimming.split_slices = lambda *_: None


@broken("an instance begins without slices", HARMLESS)
def no_first_slice(lab: Laboratory) -> None:
    trimming: Any = lab.plane.trimming
    begin = trimming.begin_again

    def begins(partition: Any) -> None:
        if partition.group is partition:  # a restore of a planned one
            begin(partition)
        else:
            trimming._slices[partition] = type(trimming.of(partition))([0] * trimming.levels)

    trimming.begin_again = begins


@broken("slices wait for instances that are over")
def waits_for_the_retired(lab: Laboratory) -> None:
    trimming: Any = lab.plane.trimming

    def confirmed(partition: Any, mark: Any, level: int) -> bool:
        own = trimming.of(partition)
        acked = all(
            kept <= own.acked.get(receiver, [0] * trimming.levels)[level - 1] or kept <= own.trimmed.get(receiver, 0)
            for receiver, kept in mark.kept.items()
        )
        saved = partition.checkpoint.count if partition.checkpoint else 0
        return acked and (not partition.operator.description.stateful or mark.applied <= saved)

    trimming._is_confirmed = confirmed


# -- checkpoints


@verbs("the checkpoint is not partitioned: new instances begin empty")
class BeginsEmpty(AdjustmentContext):
    def install(self, part: Part) -> None:
        self._instances.open(part.new)


@verbs("the checkpoint does not freeze")
class DoesNotFreeze(AdjustmentContext):
    def freeze_checkpoint(self, part: Part) -> None:
        pass


@verbs("a checkpoint that is gone counts as empty")
class TakesTheMissingForEmpty(AdjustmentContext):
    def _are_there(self, parts: Any) -> bool:
        return True

    def has_enough(self, part: Part) -> bool:
        return not self._services.has_failed_upstream(part)


@verbs("the last checkpoint is enough after a failure upstream")
class LastIsEnough(AdjustmentContext):
    def has_enough(self, part: Part) -> bool:
        return self._plane.checkpoint_host(part.old) is not None


@protocol("it begins when the first new checkpoint is stored")
class BeginsWithTheFirst(OAP):
    begun = False

    def on_stored(self, ctx: AdjustmentContext, message: Message) -> None:
        if not self.begun:
            self.begun = True
            self.begin(ctx)


@verbs("a merge keeps what one task had")
class MergesOne(AdjustmentContext):
    def install(self, part: Part) -> None:
        first = self._run.plan.taken(self.me)[0]
        if part.source == first.source:
            super().install(part)
        else:
            self._instances.open(part.new)


@protocol("Scale_Up_FIN comes with the first part")
class FinishesWithTheFirstPart(OAP):
    def on_loaded(self, ctx: AdjustmentContext, message: Message) -> None:
        assert isinstance(message.note, int)
        for part in self.plan.given(message.note, ctx.me):
            ctx.install(part)
        first = self.first("loaded")
        self.all_in("loaded", message.note, self.plan.sources_of(ctx.me))
        if first:
            for task in self.plan.upstream:
                ctx.send(task, "scale_up_fin")
            for task in self.plan.downstream:
                ctx.send(task, "slice_partition_state")
        self.try_to_go_on(ctx)


# -- the switch


@protocol("new instances own their groups with Scale_Up_FIN")
class OwnsAtOnce(OAP):
    def on_scale_up_fin(self, ctx: AdjustmentContext, message: Message) -> None:
        super().on_scale_up_fin(ctx, message)
        ctx.commit()


@protocol("new instances own their groups when the first has got all")
class OwnsWithTheFirst(OAP):
    def on_received(self, ctx: AdjustmentContext, message: Message) -> None:
        if self.first("received"):
            self.all_in("received", message.sender, ())
            ctx.commit()
            for task in self.plan.upstream:
                ctx.send(task, "switch")


@protocol("a task has got all when the first task upstream has sent it")
class ReceivedFromOne(OAP):
    def on_resent(self, ctx: AdjustmentContext, message: Message) -> None:
        if self.first("resent"):
            self.all_in("resent", message.sender, ())
            ctx.tell("received")


@protocol("old instances end when the first task upstream has switched")
class EndsWithTheFirst(OAP):
    def on_switched(self, ctx: AdjustmentContext, message: Message) -> None:
        if self.first("switched"):
            self.all_in("switched", message.sender, ())
            for task in {part.source: None for part in self.plan.parts}:
                ctx.send(task, "let_go")


@protocol("old instances end before the new ones have got all")
class EndsTooSoon(OAP):
    def on_loaded(self, ctx: AdjustmentContext, message: Message) -> None:
        super().on_loaded(ctx, message)
        ctx.commit()
        assert isinstance(message.note, int)
        for part in self.plan.given(message.note, ctx.me):
            ctx.let_go(part)


# -- downstream, and the end


@protocol("a task goes on with the first Downstream_Get_Ready", HARMLESS)
class GoesOnWithTheFirst(OAP):
    def try_to_go_on(self, ctx: AdjustmentContext) -> None:
        there = self.heard("loaded") >= self.plan.sources_of(ctx.me)
        if not self.first("adjust") and there and not self.first("downstream_get_ready") and self.first("gone_on"):
            self.all_in("gone_on", ctx.me, ())
            ctx.go_on()
            ctx.tell("goes_on")


@protocol("tasks of the operator do not go on")
class StaysPaused(OAP):
    def try_to_go_on(self, ctx: AdjustmentContext) -> None:
        pass


@protocol("upstream goes on meanwhile, to the old instances", HARMLESS)
class UpstreamGoesOn(OAP):
    def on_scale_up_init(self, ctx: AdjustmentContext, message: Message) -> None:
        self.all_in("scale_up_init", message.sender, self.plan.before)
        self.try_to_resume(ctx)


# -- crashes


@broken("a run is undone after the switch")
def undone_too_late(lab: Laboratory) -> None:
    adjustments: Any = lab.adjustments
    undo = adjustments._undo

    def finishes(run: Any) -> None:
        for part in run.plan.parts:
            if not lab.cluster.retired(part.old):
                adjustments.instances.own(part.old)
        undo(run)

    adjustments._finish = finishes


@broken("a run is finished before the switch")
def finished_too_soon(lab: Laboratory) -> None:
    adjustments: Any = lab.adjustments
    finish = adjustments._finish

    def undoes(run: Any) -> None:
        for part in run.plan.parts:
            adjustments.instances.own(part.new)
        finish(run)

    adjustments._undo = undoes


@broken("tasks stay paused after a crash")
def stay_paused(lab: Laboratory) -> None:
    plane: Any = lab.plane
    cancelled = lab.adjustments.cancelled

    def cancels(run: Any) -> None:
        unpause, plane.unpause = plane.unpause, lambda task: None
        cancelled(run)
        plane.unpause = unpause

    lab.adjustments.cancelled = cancels  # type: ignore[method-assign]


@broken("routes stay as they were when a run is undone")
def routes_stay(lab: Laboratory) -> None:
    lab.adjustments._route_to_owners = lambda run: None  # type: ignore[method-assign]


@broken("checkpoints stay frozen when a run is undone")
def stay_frozen(lab: Laboratory) -> None:
    plane: Any = lab.plane
    undo = lab.adjustments._undo

    def undoes(run: Any) -> None:
        freeze, plane.freeze = plane.freeze, lambda partition, frozen: None
        undo(run)
        plane.freeze = freeze

    lab.adjustments._undo = undoes  # type: ignore[method-assign]


@broken("checkpoints that were not frozen are")
def unfrozen_too_often(lab: Laboratory) -> None:
    plane: Any = lab.plane
    undo = lab.adjustments._undo

    def undoes(run: Any) -> None:
        undo(run)
        for part in run.plan.parts:
            plane.freeze(part.old, False)

    lab.adjustments._undo = undoes  # type: ignore[method-assign]


@broken("a crash after a scale-up brings the old instances back")
def old_parallelism(lab: Laboratory) -> None:
    restore = lab.recovery.restore

    def restores(recovery: Any) -> None:
        numbered: Any = lab.plane.instances()
        partition = numbered[recovery.partition]
        if partition.adopted and not partition.saved:
            # From what the old instance would have: nothing that the new one began with.
            partition.checkpoint = None
        restore(recovery)

    lab.recovery.restore = restores  # type: ignore[method-assign]


@broken("nobody sends again what the host of an old instance had not sent")
def no_resend(lab: Laboratory) -> None:
    lab.adjustments._resend = lambda parts: None  # type: ignore[method-assign]
