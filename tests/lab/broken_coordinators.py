"""Coordinators, recoveries and planes that are broken on purpose: each has to be noticed."""

from __future__ import annotations

from typing import Any

from lab.breaking import around
from lab.laboratory import Laboratory
from sim.migration.move import Fact, MoveContext
from sim.migration.protocol import Message


@around("cpa", "retire before hand-down")
def hands_down_after_retiring(lab: Laboratory) -> None:
    retire, hand_down = lab.instances.retire, lab.plane.hand_down

    def retired_first(old: int, new: int) -> bool:
        retire(old)
        return hand_down(old, new)

    lab.plane.hand_down = retired_first  # type: ignore[method-assign]


@around("cpa", "the state is not handed down")
def never_hands_down(lab: Laboratory) -> None:
    lab.plane.hand_down = lambda old, new: False  # type: ignore[method-assign]


@around("cpa", "the state is handed down before the new owner has one")
def hands_down_early(lab: Laboratory) -> None:
    runtime = lab.coordinator.runtime
    deliver = runtime.deliver

    def early(message: Message) -> None:
        run = runtime.runs[message.run]
        deliver(message)
        if run.handing_down and not run.over and Fact.HOLDS not in run.facts:
            run.handing_down = False
            MoveContext(runtime, run, message.to)._hand_down()

    runtime.deliver = early  # type: ignore[method-assign]


@around("cpa", "a checkpoint is stored after the conversion")
def stores_after_conversion(lab: Laboratory) -> None:
    freeze = lab.plane.freeze
    lab.plane.freeze = lambda partition, frozen: None if frozen else freeze(partition, frozen)  # type: ignore[method-assign]


@around("cpa", "the checkpoint that was under way is stored during the move")
def stores_what_is_under_way(lab: Laboratory) -> None:
    """No new checkpoint is begun, but that one trims what the target has to be sent."""
    plane = lab.plane

    def freeze(partition: int, frozen: bool) -> None:
        plane.instances()[partition].saving = frozen

    plane.freeze = freeze  # type: ignore[method-assign]


@around("cpa", "a checkpoint of an incarnation that is over is stored")
def accepts_old_incarnation(lab: Laboratory) -> None:
    saver = lab.plane.saver
    stored = saver._stored

    def wrongly(transfer: Any) -> None:
        object.__setattr__(transfer, "incarnation", transfer.partition.incarnation)
        stored(transfer)

    saver._stored = wrongly  # type: ignore[method-assign]


@around("cpa", "trim beyond what the checkpoint holds")
def trims_too_much(lab: Laboratory) -> None:
    saver = lab.plane.saver
    later = saver._trim_later
    saver._trim_later = lambda partition, count: later(partition, len(partition.applied))  # type: ignore[method-assign]


@around("cpa", "downstream keeps duplicates")
def keeps_duplicates(lab: Laboratory) -> None:
    lab.plane.drops_duplicates = False


@around("cpal", "what the dead had not sent is not sent again")
def unsent_is_lost(lab: Laboratory) -> None:
    lab.crash.host_died.clear()


@around("cpa", "a move that is over is obeyed")
def over_is_obeyed(lab: Laboratory) -> None:
    runtime = lab.coordinator.runtime

    def deliver(message: Message) -> None:
        run = runtime.runs[message.run]
        getattr(run.at(message.to), f"on_{message.kind}")(run.protocol.context(runtime, run, message.to), message)

    runtime.deliver = deliver  # type: ignore[method-assign]


@around("cpa", "what was said to the dead reaches a new instance")
def reaches_a_new_instance(lab: Laboratory) -> None:
    runtime, cluster = lab.coordinator.runtime, lab.cluster
    deliver, arrives = runtime.deliver, lab.plane._message_arrives

    def comes(message: Any, task: Any) -> None:
        if task.alive:
            arrives(message, task)
            return
        operator = cluster.task_operator[task.index]
        successors = [t for t, o in enumerate(cluster.task_operator) if o == operator and cluster.task_alive[t]]
        said = runtime._sent.pop(message.token, None)
        if successors and said is not None:
            deliver(said._replace(to=successors[-1]))

    lab.plane._message_arrives = comes  # type: ignore[method-assign]


@around("cpa", "a move goes on with who is left")
def stays_open(lab: Laboratory) -> None:
    lab.migrations.cancelled = lambda run: None  # type: ignore[method-assign]


@around("cpal", "table entries outlive their move")
def keeps_routes(lab: Laboratory) -> None:
    lab.migrations._route_to_owner = lambda run: None  # type: ignore[method-assign]


def _calls_off_without(lab: Laboratory, verb: str) -> None:
    """Calling a move off leaves this verb out."""
    call_off, plane = lab.migrations.cancelled, lab.plane

    def quietly(run: Any) -> None:
        before = getattr(plane, verb)
        setattr(plane, verb, lambda *_: (0, 0))
        call_off(run)
        setattr(plane, verb, before)

    lab.migrations.cancelled = quietly  # type: ignore[method-assign]


@around("cpa", "nothing is sent again when a move is called off")
def no_replay_after_calling_off(lab: Laboratory) -> None:
    _calls_off_without(lab, "replay")


@around("cpa", "nothing is kept for the other when a move is called off")
def nothing_copied_back(lab: Laboratory) -> None:
    _calls_off_without(lab, "copy_kept")


@around("cpa", "a move that is called off leaves its group frozen")
def stays_frozen(lab: Laboratory) -> None:
    freeze = lab.plane.freeze
    lab.plane.freeze = lambda partition, frozen: freeze(partition, True)  # type: ignore[method-assign]


@around("cpal", "what was processed in silence is sent by nobody")
def stays_silent(lab: Laboratory) -> None:
    def go_on(move: Any) -> None:
        lab.plane.mute(move.new, False)
        if not lab.cluster.partition_live[move.new] and lab.cluster.task_alive[move.target]:
            lab.migrations._warm(move)

    lab.migrations._go_on = go_on  # type: ignore[method-assign]


@around("cpal", "the only state is given up when a move is called off")
def gives_up_the_state(lab: Laboratory) -> None:
    """The group stays with the old instance, although that is dead and only the new one has a state."""
    live, call_off = lab.cluster.partition_live, lab.migrations.cancelled

    def wrongly(run: Any) -> None:
        before = live[run.move.new]
        if not lab.cluster.retired(run.move.old):
            live[run.move.new] = False
        call_off(run)
        if not lab.cluster.retired(run.move.new):
            live[run.move.new] = before

    lab.migrations.cancelled = wrongly  # type: ignore[method-assign]


@around("cpa", "groups that send to each other move at once")
def two_at_once(lab: Laboratory) -> None:
    coordinator = lab.coordinator

    def same_group(request: Any, ahead: Any) -> bool:
        return any(one._groups[group] for one in (coordinator._claimed, ahead) for _, group in request.territory)

    coordinator._is_blocked = same_group  # type: ignore[method-assign]


@around("cpa", "two moves of a group at once")
def same_group_twice(lab: Laboratory) -> None:
    lab.coordinator._is_blocked = lambda request, ahead: False  # type: ignore[method-assign]


@around("cpa", "a move begins while its group is being restored")
def begins_while_down(lab: Laboratory) -> None:
    lab.migrations._is_down = lambda group: False  # type: ignore[method-assign]


@around("cpa", "who is down forgets what it has for an instance that is over")
def forgets_for_the_dead(lab: Laboratory) -> None:
    retire = lab.plane.retire

    def forgets(partition: int) -> None:
        retire(partition)
        old = lab.plane.instances()[partition]
        for sender in old.senders:
            sender.kept.pop(old, None)
            if sender.checkpoint:
                kept = tuple((to, rows) for to, rows in sender.checkpoint.kept if to is not old)
                object.__setattr__(sender.checkpoint, "kept", kept)

    lab.plane.retire = forgets  # type: ignore[method-assign]


@around("cpa", "who is restored sends to instances that are over")
def sends_to_what_is_over(lab: Laboratory) -> None:
    lab.cluster.successor_of = lambda instance: instance  # type: ignore[method-assign]


@around("cpa", "a move does not wait until those upstream are restored")
def begins_while_upstream_is_down(lab: Laboratory) -> None:
    migrations, cluster = lab.migrations, lab.cluster
    migrations._is_down = lambda group: not lab.state.view.partition_live(cluster.owner_of(group))  # type: ignore[method-assign]


@around("direct", "a move asks only those upstream that really live")
def asks_who_lives(lab: Laboratory) -> None:
    begin, view, alive = lab.migrations.begin, lab.state.view, lab.cluster.task_alive

    def begins(request: Any) -> Any:
        right = view.task_alive
        view.task_alive = lambda task: alive[task]  # type: ignore[method-assign]
        run = begin(request)
        view.task_alive = right  # type: ignore[method-assign]
        return run

    lab.migrations.begin = begins  # type: ignore[method-assign]


@around("direct", "control knows at once which tasks and checkpoint hosts are dead")
def knows_at_once(lab: Laboratory) -> None:
    lab.state.view.task_alive = lambda task: lab.cluster.task_alive[task]  # type: ignore[method-assign]
    lab.state.view.checkpoint_host = lambda partition, truth: truth  # type: ignore[method-assign]


@around("lazy_move", "checkpoints go to the target of a move that was called off")
def leaves_the_checkpoint_host(lab: Laboratory) -> None:
    call_off = lab.migrations.cancelled

    def forgets_the_plan(run: Any) -> None:
        run.directed = False
        call_off(run)

    lab.migrations.cancelled = forgets_the_plan  # type: ignore[method-assign]


@around("direct", "a second move inherits the checkpoint host of the first")
def inherits_from_the_planned_partition(lab: Laboratory) -> None:
    cluster, new_instance = lab.cluster, lab.cluster.new_instance

    def made(partition: int, task: int) -> int:
        instance = new_instance(partition, task)
        cluster.planned_checkpoint_host[instance] = cluster.planned_checkpoint_host[partition]
        return instance

    cluster.new_instance = made  # type: ignore[method-assign]


@around("cpa", "nobody remembers what upstream has let go for a group that moves")
def forgets_what_was_trimmed(lab: Laboratory) -> None:
    adopt, retire = lab.plane.adopt, lab.plane.retire

    def adopts(instance: int, partition: int) -> None:
        adopt(instance, partition)
        lab.plane.instances()[instance].trimmed = 0

    def retires(partition: int) -> None:
        before = [one.trimmed for one in lab.plane.instances()]
        retire(partition)
        for one, trimmed in zip(lab.plane.instances(), before, strict=True):
            one.trimmed = trimmed

    lab.plane.adopt, lab.plane.retire = adopts, retires  # type: ignore[method-assign]


@around("cpa", "a new instance keeps nothing for groups that have moved")
def keeps_nothing_for_who_has_moved(lab: Laboratory) -> None:
    opens, plane = lab.instances.open, lab.plane

    def quietly(instance: int) -> None:
        copy_kept = plane.copy_kept
        plane.copy_kept = lambda *_: None  # type: ignore[method-assign]
        opens(instance)
        plane.copy_kept = copy_kept  # type: ignore[method-assign]

    lab.instances.open = quietly  # type: ignore[method-assign]


@around("stop_and_go", "tasks stay stopped where a run is cancelled")
def stays_stopped(lab: Laboratory) -> None:
    lab.stops.cancelled = lambda run: None  # type: ignore[method-assign]
