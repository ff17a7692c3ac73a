"""Trimming by acks that is broken on purpose: each has to be noticed, but for what is only slower, or the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lab.laboratory import Laboratory
from lab.slicing import Tamper
from sim.plain.partition import Checkpoint, Partition
from sim.plain.trimming import Confirmation, Mark, TrimmingProtocol

MUTANTS: dict[str, Tamper] = {}
HARMLESS: dict[str, Tamper] = {}
"""Only slower, or the same in every state and at every sink."""


def broken(title: str, among: dict[str, Tamper] = MUTANTS) -> Callable[[Tamper], Tamper]:
    """Put a function in a list."""

    def listed(tamper: Tamper) -> Tamper:
        among[title] = tamper
        return tamper

    return listed


def protocol_of(lab: Laboratory) -> Any:
    """Return the protocol, of which anything may be replaced."""
    assert isinstance(lab.plane.trimming, TrimmingProtocol)
    return lab.plane.trimming


# -- confirming


def _confirms(protocol: Any, allows: Callable[[Partition, Mark, int], bool]) -> None:
    protocol._is_confirmed = allows


def _saved(partition: Partition, mark: Mark) -> bool:
    checkpoint = partition.checkpoint
    return not partition.operator.description.stateful or (checkpoint is not None and mark.applied <= checkpoint.count)


def _acked(protocol: Any, partition: Partition, mark: Mark, level: int, how: Callable[[Any], bool] = all) -> bool:
    own = protocol.of(partition)
    return how(
        kept <= own.acked.get(receiver, [0] * protocol.levels)[level] or kept <= own.trimmed.get(receiver, 0)
        for receiver, kept in mark.kept.items()
    )


@broken("L1 before the checkpoint")
def before_the_checkpoint(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    _confirms(protocol, lambda partition, mark, level: _acked(protocol, partition, mark, level - 1))


@broken("L1 when the checkpoint is taken, not stored")
def before_it_is_stored(lab: Laboratory) -> None:
    protocol = protocol_of(lab)

    def allows(partition: Partition, mark: Mark, level: int) -> bool:
        saved = not partition.operator.description.stateful or mark.applied <= partition.applied_at_snapshot
        return saved and _acked(protocol, partition, mark, level - 1)

    _confirms(protocol, allows)


@broken("L1 on receipt")
def on_receipt(lab: Laboratory) -> None:
    _confirms(protocol_of(lab), lambda partition, mark, _: _saved(partition, mark))


@broken("L1 when one receiver has acknowledged")
def one_receiver_suffices(lab: Laboratory) -> None:
    protocol = protocol_of(lab)

    def allows(partition: Partition, mark: Mark, level: int) -> bool:
        return _saved(partition, mark) and (not mark.kept or _acked(protocol, partition, mark, level - 1, any))

    _confirms(protocol, allows)


@broken("L2 when L0 has come")
def one_level_for_all(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    _confirms(protocol, lambda partition, mark, _: _saved(partition, mark) and _acked(protocol, partition, mark, 0))


@broken("one slice too many is confirmed")
def one_slice_too_many(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    confirmed = protocol.confirmed

    def confirms(partition: Partition) -> list[int]:
        counts: list[int] = confirmed(partition)
        marks = protocol.of(partition).marks
        if not partition.operator.is_sink and protocol.levels > 1 and marks:
            counts[-1] = max(counts[-1], marks[0].applied)
        return counts

    protocol.confirmed = confirms


@broken("what is not in an ended slice is confirmed with it")
def beyond_the_mark(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    confirmed = protocol.confirmed

    def confirms(partition: Partition) -> list[int]:
        counts: list[int] = confirmed(partition)
        if not partition.operator.is_sink and not protocol.of(partition).marks:
            counts = [len(partition.applied)] * protocol.levels
        return counts

    protocol.confirmed = confirms


@broken("a slice forgets the outputs that were trimmed before it")
def counts_from_zero(lab: Laboratory) -> None:
    protocol = protocol_of(lab)

    def marks(partition: Partition) -> None:
        kept = {receiver: len(rows) for receiver, rows in partition.kept.items()}
        protocol.of(partition).marks.append(Mark(len(partition.applied), kept))

    protocol._mark = marks


# -- trimming


@broken("trims at L0")
def trims_at_the_lowest_level(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    acknowledge = protocol._acknowledge

    def acknowledges(said: Confirmation) -> None:
        acknowledge(said._replace(counts=[*said.counts[:-1], said.counts[0]]))

    protocol._acknowledge = acknowledges


@broken("one output too many is trimmed")
def one_output_too_many(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    acknowledge = protocol._acknowledge

    def acknowledges(said: Confirmation) -> None:
        before = protocol.of(said.sender).trimmed.get(said.receiver, 0)
        acknowledge(said)
        own, rows = protocol.of(said.sender), said.sender.kept.get(said.receiver)
        if own.trimmed[said.receiver] > before and rows:
            rows.popleft()
            own.trimmed[said.receiver] += 1

    protocol._acknowledge = acknowledges


@broken("trims in any order")
def trims_in_any_order(lab: Laboratory) -> None:
    def trim(self: Partition, receiver: Partition, count: int) -> int:
        rows, position = self.kept.get(receiver, deque()), receiver.position
        receiver.trimmed = max(receiver.trimmed, count)
        left = [row for row in rows if position.get(row.id, count) >= count]
        trimmed = len(rows) - len(left)
        rows.clear()
        rows.extend(left)
        return trimmed

    for partition in lab.plane.all_partitions():
        partition.trim = trim.__get__(partition)  # type: ignore[method-assign]


# -- acks of others


@broken("acks of a dead incarnation are accepted")
def accepts_old_acks(lab: Laboratory) -> None:
    protocol = protocol_of(lab)

    def comes(goal: Any, said: Sequence[Confirmation]) -> None:
        for one in said:
            if goal.alive and one.sender.task is goal and one.sender.live:
                protocol._acknowledge(one)

    protocol._comes = comes


@broken("acks are accepted at a task that has lost the outputs")
def accepts_acks_elsewhere(lab: Laboratory) -> None:
    protocol = protocol_of(lab)

    def comes(goal: Any, said: Sequence[Confirmation]) -> None:
        for one in said:
            if one.incarnation == one.receiver.incarnation:
                protocol._acknowledge(one)

    protocol._comes = comes


@broken("acks of a receiver count after its restore")
def remembers_acks(lab: Laboratory) -> None:
    protocol_of(lab).forget_acks_of = lambda receiver: None


@broken("with the acks of a receiver it is forgotten what was trimmed")
def forgets_trims(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    forget = protocol.forget_acks_of

    def forgets(receiver: Partition) -> None:
        forget(receiver)
        for sender in receiver.senders:
            protocol.of(sender).trimmed.pop(receiver, None)

    protocol.forget_acks_of = forgets


# -- recovery


@broken("no replay")
def no_replay(lab: Laboratory) -> None:
    lab.recovery.ask_upstream = lambda partition: None  # type: ignore[method-assign]


@broken("replay out of order")
def replays_out_of_order(lab: Laboratory) -> None:
    replay = lab.plane.replay

    def reversed_replay(sender: int, receiver: int, turn: bool = False) -> tuple[int, int]:
        numbered = lab.plane.instances()
        rows = numbered[sender].kept.get(numbered[receiver])
        if rows:
            rows.reverse()
        done = replay(sender, receiver, turn)
        if rows:
            rows.reverse()
        return done

    lab.plane.replay = reversed_replay  # type: ignore[method-assign]


@broken("no restore")
def no_restore(lab: Laboratory) -> None:
    protocol_of(lab).state_to_restore = lambda partition: None


@broken("no duplicate is dropped")
def keeps_duplicates(lab: Laboratory) -> None:
    lab.plane.drops_duplicates = False


@broken("a checkpoint holds no outputs")
def literal(lab: Laboratory) -> None:
    protocol_of(lab).safe = False


@broken("the outputs in a checkpoint are not sent again")
def resends_nothing(lab: Laboratory) -> None:
    opens = lab.recovery.open
    lab.recovery.open = lambda partition, resend=True: opens(partition, resend=False)  # type: ignore[method-assign]


@broken("the outputs in a checkpoint are sent again, and not kept again")
def keeps_nothing_again(lab: Laboratory) -> None:
    opens = lab.recovery.open

    def without(partition: int, resend: bool = True) -> None:
        opens(partition, resend)
        lab.plane.instances()[partition].kept.clear()

    lab.recovery.open = without  # type: ignore[method-assign]


@broken("a restored task goes on with its old tables")
def old_tables(lab: Laboratory) -> None:
    protocol_of(lab).begin_again = lambda partition: None


@broken("a task without state is restored with all that it had applied")
def restores_too_much(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    restored = protocol.state_to_restore

    def restores(partition: Partition) -> Checkpoint | None:
        state: Checkpoint | None = restored(partition)
        if state is None or partition.operator.description.stateful:
            return state
        return replace(state, count=len(partition.applied))

    protocol.state_to_restore = restores


@broken("a checkpoint of an incarnation that is over is stored")
def stores_old_checkpoints(lab: Laboratory) -> None:
    stored = lab.plane.saver._stored

    def stores(transfer: Any) -> None:
        stored(replace(transfer, incarnation=transfer.partition.incarnation))

    lab.plane.saver._stored = stores  # type: ignore[method-assign]


@broken("a task without state starts from nothing")
def starts_from_nothing(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    restored = protocol.state_to_restore
    protocol.state_to_restore = lambda one: restored(one) if one.operator.description.stateful else None


# -- what only changes when something happens


@broken("a task without state starts from what it had confirmed", HARMLESS)
def starts_from_the_confirmed(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    restored = protocol.state_to_restore

    def restores(partition: Partition) -> Checkpoint | None:
        state: Checkpoint | None = restored(partition)
        if state is None or partition.operator.description.stateful:
            return state
        return replace(state, count=max(state.count, protocol.of(partition).confirmed[-1]))

    protocol.state_to_restore = restores


@broken("the restored state is no slice", HARMLESS)
def no_first_slice(lab: Laboratory) -> None:
    protocol = protocol_of(lab)
    begin = protocol.begin_again

    def begins(partition: Partition) -> None:
        begin(partition)
        protocol.of(partition).marks.clear()

    protocol.begin_again = begins
