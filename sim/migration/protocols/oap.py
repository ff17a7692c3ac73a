"""OAP: online adjustment of an operator. [SPATE, Elastic upstream backup, Cluster Computing 2019]"""

from __future__ import annotations

from sim.migration.adjustment import Adjusted, Adjustment, AdjustmentContext, AdjustmentProtocol
from sim.migration.protocol import Message


class OAP(AdjustmentProtocol):
    """Give an operator more tasks, or fewer: v_i is the operator, v_{i-1} sends to it, v_{i+1} gets its outputs.

    Scale-up and scale-down are the same steps: key groups go from tasks to tasks. Paused: the tasks of v_i, from T0 to
    Downstream_Get_Ready; those of v_{i-1}, from Scale_Up_Init to Scale_Up_FIN. Copied: the last checkpoints of the key
    groups, or new ones (`plan.checkpoint`), and in the reading `safe` what upstream keeps for them. Lost: nothing in
    the reading `safe`. As printed (`literal`), upstream resumes with the next output, and what was on its way or is not
    in the checkpoints is lost.

    Not in the paper: where the last checkpoint of a key group is gone, or lacks what nobody upstream could send again,
    a new one is taken in any case. The old instances stay until the new ones have got all that upstream keeps for them,
    so that the failure of one task meanwhile is survived. And acks need not stop: one says to which instance it goes,
    and which of the applied tuples of which instance it confirms, so that an ack in the old numbering never trims under
    the new one.
    """

    def __init__(self, plan: Adjustment) -> None:
        super().__init__(plan)
        self.awaited: set[int] = set()  # old instances whose new checkpoints are awaited

    def start(self, ctx: AdjustmentContext) -> None:
        """Take new checkpoints first, or begin with those that there are, where these are enough."""
        for part in self.plan.parts:
            if self.plan.checkpoint == "new" or not ctx.has_enough(part):
                self.awaited.add(part.old)
                ctx.take_checkpoint(part)
        if not self.awaited:
            self.begin(ctx)

    def on_stored(self, ctx: AdjustmentContext, message: Message) -> None:
        """Begin when all new checkpoints are stored."""
        assert isinstance(message.note, int)
        if self.all_in("stored", message.note, self.awaited):
            self.begin(ctx)

    def begin(self, ctx: AdjustmentContext) -> None:
        """Tell the tasks of v_i; their checkpoints freeze first, or upstream could trim what the parts lack."""
        for part in self.plan.parts:
            ctx.freeze_checkpoint(part)
        for task in self.plan.members:
            ctx.send(task, "adjust")

    # T0, v_i

    def on_adjust(self, ctx: AdjustmentContext, message: Message) -> None:
        """Stop sending output; send Scale_Up_Init upstream and downstream, and its parts of the state to others."""
        ctx.pauses()
        ctx.pause()
        self.all_in("adjust", ctx.me, ())
        for task in self.plan.upstream if ctx.me in self.plan.before else ():
            ctx.send(task, "scale_up_init")
        for task in self.plan.downstream if ctx.me in self.plan.before else ():
            ctx.send(task, "downstream_init")
        for task in self.plan.targets:
            if self.plan.given(ctx.me, task):
                ctx.send(task, "partition_state")
        self.try_to_go_on(ctx)

    # T1, v_{i-1}

    def on_scale_up_init(self, ctx: AdjustmentContext, message: Message) -> None:
        """Stop sending to v_i. The buffers are split at T2: a service that has begun may still add an output."""
        ctx.pause()
        self.all_in("scale_up_init", message.sender, self.plan.before)
        self.try_to_resume(ctx)

    # T1, v_{i+1}

    def on_downstream_init(self, ctx: AdjustmentContext, message: Message) -> None:
        """Learn that v_i is adjusted; acks go on (see above)."""

    # T1, v_i

    def on_partition_state(self, ctx: AdjustmentContext, message: Message) -> None:
        """Fetch the parts of the checkpoint that one task gives this one."""
        ctx.load(self.plan.given(message.sender, ctx.me), "loaded", message.sender)

    def on_loaded(self, ctx: AdjustmentContext, message: Message) -> None:
        """Install them; with the last ones send Scale_Up_FIN upstream and Slice_Partition_State downstream."""
        assert isinstance(message.note, int)
        for part in self.plan.given(message.note, ctx.me):
            ctx.install(part)
        if self.all_in("loaded", message.note, self.plan.sources_of(ctx.me)):
            for task in self.plan.upstream:
                ctx.send(task, "scale_up_fin")
            for task in self.plan.downstream:
                ctx.send(task, "slice_partition_state")
            self.try_to_go_on(ctx)

    # T2, v_{i-1}

    def on_scale_up_fin(self, ctx: AdjustmentContext, message: Message) -> None:
        """Resume sending, once all parts are in place."""
        self.all_in("scale_up_fin", message.sender, self.plan.targets)
        self.try_to_resume(ctx)

    def try_to_resume(self, ctx: AdjustmentContext) -> None:
        """Split the buffered slices by the new mapping, send them in the reading `safe`, and resume."""
        stopped, ready = self.heard("scale_up_init"), self.heard("scale_up_fin")
        if not (stopped >= set(self.plan.before) and ready >= set(self.plan.targets)):
            return
        for part in self.plan.parts:
            if self.plan.reading == "safe":
                # Channels are first in first out: the new instance gets what is kept first, then what both get.
                ctx.split(part)
                ctx.route(part, part.old, part.new)
            else:
                ctx.route(part, part.new)
        for task in self.plan.targets:
            ctx.send(task, "resent")  # behind what was sent again
        ctx.resume()

    # T2, v_{i+1}

    def on_slice_partition_state(self, ctx: AdjustmentContext, message: Message) -> None:
        """Send Downstream_Get_Ready, once it knows of all parts."""
        if self.all_in("slice_partition_state", message.sender, self.plan.targets):
            for task in self.plan.members:
                ctx.send(task, "downstream_get_ready")

    # T3 to T5, v_i

    def on_downstream_get_ready(self, ctx: AdjustmentContext, message: Message) -> None:
        """Send output again, once all of v_{i+1} are ready."""
        self.all_in("downstream_get_ready", message.sender, self.plan.downstream)
        self.try_to_go_on(ctx)

    def try_to_go_on(self, ctx: AdjustmentContext) -> None:
        """Go on when v_{i+1} is ready, and no part is awaited here."""
        stopped, there = not self.first("adjust"), self.heard("loaded") >= self.plan.sources_of(ctx.me)
        ready = self.heard("downstream_get_ready") >= set(self.plan.downstream)
        if stopped and there and ready and self.first("gone_on"):
            self.all_in("gone_on", ctx.me, ())
            ctx.go_on()
            ctx.goes_on()
            ctx.tell("goes_on")

    # behind the paper: the old instances end

    def on_resent(self, ctx: AdjustmentContext, message: Message) -> None:
        """Tell the coordinator once everything from upstream is here that the parts of the state lack."""
        if self.all_in("resent", message.sender, self.plan.upstream):
            ctx.tell("received")

    def on_received(self, ctx: AdjustmentContext, message: Message) -> None:
        """Make the new instances owners when all have what they need: from here on there is no way back."""
        if self.all_in("received", message.sender, self.plan.targets):
            ctx.commit()
            for task in self.plan.upstream:
                ctx.send(task, "switch")

    def on_switch(self, ctx: AdjustmentContext, message: Message) -> None:
        """Send to the new instances alone."""
        for part in self.plan.parts:
            ctx.route(part, part.new)
        ctx.tell("switched")

    def on_switched(self, ctx: AdjustmentContext, message: Message) -> None:
        """Have the old instances end when nobody sends to them any more."""
        if self.all_in("switched", message.sender, self.plan.upstream):
            for task in {part.source: None for part in self.plan.parts}:
                ctx.send(task, "let_go")

    def on_let_go(self, ctx: AdjustmentContext, message: Message) -> None:
        """End the instances whose key groups have gone; what still comes for them is dropped."""
        for part in self.plan.given(ctx.me):
            ctx.let_go(part)
        ctx.tell("gone")

    def on_gone(self, ctx: AdjustmentContext, message: Message) -> None:
        """Note that the old instances of a task have ended."""
        if self.all_in("gone", message.sender, {part.source for part in self.plan.parts}):
            ctx.done(Adjusted.GONE)

    def on_goes_on(self, ctx: AdjustmentContext, message: Message) -> None:
        """Note that a task of v_i goes on."""
        if self.all_in("goes_on", message.sender, self.plan.members):
            ctx.done(Adjusted.RESUMED)
