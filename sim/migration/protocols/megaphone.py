"""`megaphone`: key groups (bins) change their tasks in steps, each at a time that the whole operator has passed.

Source: Hoffmann, Lattuada, McSherry, Kalavri, Liagouris and Roscoe, *Megaphone: Latency-conscious state migration for
distributed streaming dataflows*, PVLDB 12(9), 2019.
"""

from __future__ import annotations

from typing import ClassVar

from sim.migration.protocol import Message
from sim.migration.reconfiguration import (
    ReconfigurationContext,
    ReconfigurationProtocol,
    TakenOut,
)


class Megaphone(ReconfigurationProtocol):
    """Route by the configuration at the time of a record; move states when the operator has passed that time.

    Paused: the key groups of a step, or with the scope `operator` all, from then until the states are installed.
    Copied: states. Lost: nothing. Twice: nothing.
    """

    context: ClassVar[type[ReconfigurationContext]] = ReconfigurationContext

    # -- at the coordinator

    def start(self, ctx: ReconfigurationContext) -> None:
        self._configure(ctx, 0)
        self._await(ctx, 0)

    def _configure(self, ctx: ReconfigurationContext, step: int) -> None:
        """Issue the configuration updates of a step: (time, bin, worker)."""
        from_ns = ctx.configure(step)
        if self.plan.late_ns:
            for task in self.plan.senders:
                ctx.send(task, "ahead", note=from_ns)
            ctx.when_due(step, "late", (step, from_ns))
        else:
            self._update(ctx, from_ns)

    def on_late(self, ctx: ReconfigurationContext, message: Message) -> None:
        """The updates of a step come after their time, which the frontier may have passed: then they begin the step."""
        step, from_ns = _pair(message)
        self._update(ctx, from_ns)
        ctx.when_heard("updated", step)

    def _update(self, ctx: ReconfigurationContext, from_ns: int) -> None:
        for task in self.plan.senders:
            ctx.send(task, "configure", note=from_ns)

    def on_updated(self, ctx: ReconfigurationContext, message: Message) -> None:
        """All who send to the operator have the updates."""
        assert isinstance(message.note, int)
        self.all_in(f"updated {message.note}", ctx.me, ())
        self._begin(ctx, message.note)

    def _await(self, ctx: ReconfigurationContext, step: int) -> None:
        """Let the step begin when its time is in the output frontier; all steps before are over."""
        self.all_in(f"awaited {step}", ctx.me, ())
        self._begin(ctx, step)

    def _begin(self, ctx: ReconfigurationContext, step: int) -> None:
        if self._may_begin(step):
            for carry in sorted(self.heard(f"lost {step}")):
                self._give_up(ctx, step, carry)
            ctx.when_passed(step, "passed", then="begun")

    def _may_begin(self, step: int) -> bool:
        updated = not self.plan.late_ns or bool(self.heard(f"updated {step}"))
        return updated and bool(self.heard(f"awaited {step}"))

    def on_begun(self, ctx: ReconfigurationContext, message: Message) -> None:
        """The states of the step have left: with `lag`, what comes from now on is for the next step."""
        assert isinstance(message.note, int)
        if self.plan.announced(message.note + 1) and ctx.goes_further:
            self._configure(ctx, message.note + 1)

    def on_stepped(self, ctx: ReconfigurationContext, message: Message) -> None:
        step, carry = _pair(message)
        if self.last_of(("stepped", step), carry, range(len(self.plan.steps[step]))) and ctx.over(step):
            if self.plan.drain:
                ctx.broadcast(self.plan.members, "drain", step + 1)
            elif self.plan.gap_ns:
                ctx.timer(self.plan.gap_ns, "next", step + 1)
            else:
                self._next(ctx, step + 1)

    def on_drained(self, ctx: ReconfigurationContext, message: Message) -> None:
        assert isinstance(message.note, int)
        if self.last_of(("drained", message.note), message.sender, self.plan.members):
            self._next(ctx, message.note)

    def on_next(self, ctx: ReconfigurationContext, message: Message) -> None:
        assert isinstance(message.note, int)
        self._next(ctx, message.note)

    def _next(self, ctx: ReconfigurationContext, step: int) -> None:
        if not self.plan.announced(step):
            self._configure(ctx, step)
        self._await(ctx, step)

    def on_lost(self, ctx: ReconfigurationContext, message: Message) -> None:
        """Tasks that take part are lost: say in their place that the states are there which never come.

        Of a step that has not begun it is said when it does: the one before is over, and who sends has the updates.
        """
        assert isinstance(message.note, TakenOut)
        for step, carry in message.note.carries:
            self.all_in(f"lost {step}", carry, ())
            if self._may_begin(step):
                self._give_up(ctx, step, carry)

    def _give_up(self, ctx: ReconfigurationContext, step: int, carry: int) -> None:
        if self.plan.scope == "operator":
            ctx.broadcast(self.plan.members, "installed", (step, carry))
        ctx.tell("stepped", (step, carry))

    # -- F: at each task that sends to the operator

    def on_ahead(self, ctx: ReconfigurationContext, message: Message) -> None:
        """Withhold what is born from the time of a step on: the control frontier stops there."""
        assert isinstance(message.note, int)
        ctx.withhold(message.note)

    def on_configure(self, ctx: ReconfigurationContext, message: Message) -> None:
        assert isinstance(message.note, int)
        ctx.place(message.note)
        if self.plan.late_ns:
            ctx.let_out()

    # -- S: at the tasks of the operator

    def on_passed(self, ctx: ReconfigurationContext, message: Message) -> None:
        """The time of the step is in the output frontier: all that is older has been applied."""
        assert isinstance(message.note, int)
        waits = self.answered(("installed", message.note)) < {*range(len(self.plan.steps[message.note]))}
        if self.plan.scope == "operator" and waits:
            ctx.hold()  # everything that is in flight has a time that is not passed
        ctx.give(message.note, "state")

    def on_state(self, ctx: ReconfigurationContext, message: Message) -> None:
        ctx.read(message.parcels[0], "read", message.note)

    def on_read(self, ctx: ReconfigurationContext, message: Message) -> None:
        step, _ = _pair(message)
        ctx.install(message.parcels[0], step)
        if self.plan.scope == "operator":
            ctx.broadcast(self.plan.members, "installed", message.note)
        # Behind it: who has heard of the last state of a run does not hear of anything more.
        ctx.tell("stepped", message.note)

    def on_installed(self, ctx: ReconfigurationContext, message: Message) -> None:
        step, carry = _pair(message)
        if self.last_of(("installed", step), carry, range(len(self.plan.steps[step]))):
            ctx.release()

    # Between steps: what has waited for the last one is served first.

    def on_drain(self, ctx: ReconfigurationContext, message: Message) -> None:
        ctx.line_up("turn", message.note)

    def on_turn(self, ctx: ReconfigurationContext, message: Message) -> None:
        ctx.tell("drained", message.note)


def _pair(message: Message) -> tuple[int, int]:
    assert isinstance(message.note, tuple)
    one, other = message.note
    return one, other
