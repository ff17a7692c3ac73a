"""The queue trimming protocol: slices of what partitions process, and rounds of acks by which upstream trims outputs.

The rules are those of `sim.plain.trimming`. A mark is a count of applied tuples of a partition. Marks stand in rings:
those of a partition that are open have numbers from `first` to before `end`. An output has the number of its slice
beside it (`node_slices`), that of the first mark that counts it, so no mark needs a count for each receiver: a slice is
acknowledged if the first output that is not, of each pair, is of a later one. Numbers of slices rise within a pair.
"""

from __future__ import annotations

import numpy as np

from sim.clock import MESSAGE, RECEIVER
from sim.kernel.event_loop.buffers import let_go, next_node, read_ahead, reads_on, trim
from sim.kernel.event_loop.channels import count_message, departure
from sim.kernel.event_loop.codes import ACKED, CONFIRM, NONE, SLICED, TRIMMING
from sim.kernel.event_loop.events import next_control_number, next_serial, push
from sim.kernel.event_loop.fair_links import post
from sim.kernel.event_loop.free_lists import free_confirmations, new_confirmation
from sim.kernel.event_loop.hash_tables import position
from sim.kernel.event_loop.timed_actions import chore
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

# What the plan fixes, and how many marks a ring has room for.
SLICING = np.dtype(
    [
        ("levels", "i8"),
        ("slice", "i8"),  # time between two marks
        ("every", "i8"),  # and between two rounds
        ("bytes", "i8"),  # of an ack
        ("work", "i8"),  # of each end of an ack
        ("ring", "i8"),
        ("most_open", "i8"),  # marks of a partition, as of the last time that all were marked
    ],
    align=True,
)

# The slices of a partition.
SLICES = np.dtype(
    [
        ("first", "i8"),  # of the marks that are open
        ("end", "i8"),
        ("next_here", "i4"),  # partition at the same task, during a round
        ("stateful", "u1"),
    ],
    align=True,
)

# What a round needs of a task: its partitions, the ack that is being made for it, and whom it acknowledges to.
ROUND_AT = np.dtype([("partitions", "i4"), ("ack", "i4"), ("goal", "i4")], align=True)


@kernel
def has_slices(state: State, partition: int) -> bool:
    """Return whether a partition waits for acks from downstream before it acknowledges."""
    u = state.partitions[partition]
    return state.slicing.levels > 1 and not u.is_source and not u.is_sink


@kernel
def add_slices(state: State, instance: int, group: int) -> None:
    """A further instance of a group has slices, too, and none so far."""
    state.slices[instance].stateful = state.slices[group].stateful


@kernel
def end_slices(state: State) -> None:
    """End a slice of each live partition, and set the next end."""
    most = 0
    for partition in range(state.partitions.shape[0]):
        if state.partitions[partition].live and has_slices(state, partition):
            _mark(state, partition)
        s = state.slices[partition]
        most = max(most, s.end - s.first)
    state.slicing.most_open = most
    push(state, state.clock.now + state.slicing.slice, 1, next_control_number(state), SLICED, 0)


@kernel
def _mark(state: State, partition: int) -> None:
    s, ring = state.slices[partition], state.slicing.ring
    state.slice_marks[partition * ring + s.end % ring] = state.partitions[partition].applied
    s.end += 1


# -- rounds of acks


@kernel
def round_of_acks(state: State, hops: int) -> None:
    """Have each task of the operators so far from the end acknowledge to all that keep outputs for it, in order.

    Only owners of their key groups do. Then set their next round.
    """
    for task in range(state.cluster.tasks):
        state.rounds_at[task].partitions = state.rounds_at[task].ack = NONE
    for partition in range(state.partitions.shape[0] - 1, -1, -1):
        u = state.partitions[partition]
        if u.live and not u.is_source and state.partitions[u.group].owner == partition:
            at = state.rounds_at[u.task]
            state.slices[partition].next_here = at.partitions
            at.partitions = partition
    for task in range(state.cluster.tasks):
        if state.hops_to_end[state.tasks[task].operator] != hops:
            continue
        goals, partition = 0, state.rounds_at[task].partitions
        while partition != NONE:
            _confirm(state, partition)
            goals = _acknowledge_to(state, partition, goals)
            partition = state.slices[partition].next_here
        _sort_goals(state, goals)
        for k in range(goals):
            goal = state.rounds_at[k].goal
            _send(state, task, goal, state.rounds_at[goal].ack)
            state.rounds_at[goal].ack = NONE
        _work(state, task, goals)
    push(state, state.clock.now + state.slicing.every, 1, next_control_number(state), TRIMMING, hops)


@kernel
def _confirm(state: State, partition: int) -> None:
    """Note by level how many of the first applied tuples the partition confirms now."""
    u, s, levels, ring = state.partitions[partition], state.slices[partition], state.slicing.levels, state.slicing.ring
    first = partition * levels
    state.confirmed[first] = u.applied
    for level in range(1, levels):
        if u.is_sink:
            state.confirmed[first + level] = u.applied
            continue
        # What was confirmed once stays so, although a receiver may have lost it with its host since.
        done = _confirmed_to(state, partition, level)
        if done > state.confirmed_to[first + level]:
            state.confirmed_to[first + level] = done
            state.confirmed[first + level] = state.slice_marks[partition * ring + (done - 1) % ring]
    if levels > 1 and not u.is_sink:
        s.first = state.confirmed_to[first + levels - 1]


@kernel
def _confirmed_to(state: State, partition: int, level: int) -> int:
    """Return up to which mark checkpoints have slices, and downstream acknowledges their outputs one level below."""
    u, s, ring = state.partitions[partition], state.slices[partition], state.slicing.ring
    before, done = state.confirmed_to[partition * state.slicing.levels + level], s.end
    if s.stateful:
        stored = u.stored_count if u.stored else 0
        done = before
        while done < s.end and state.slice_marks[partition * ring + done % ring] <= stored:
            done += 1
    pair = u.out_pair
    while pair != NONE and done > before:
        node = _first_not_acked(state, pair, level - 1)
        if node != NONE:
            done = min(done, state.node_slices[node])
        pair = state.pairs[pair].next_out
    return done


@kernel
def _first_not_acked(state: State, pair: int, level: int) -> int:
    """Return the first output of a pair that is live and not acknowledged at a level; none is NONE."""
    p, at = state.pairs[pair], pair * state.slicing.levels + level
    if p.live == NONE or state.acked[at] <= p.live_seq:
        return p.live
    # The last one that is acknowledged is not trimmed, so that it is still there.
    last = state.acked_node[at]
    return NONE if last == p.last else next_node(state, last)


@kernel
def _acknowledge_to(state: State, partition: int, goals: int) -> int:
    """Add what the partition confirms to the acks for all that keep outputs for it; return for how many tasks."""
    levels, pair = state.slicing.levels, state.partitions[partition].in_pair
    while pair != NONE:
        p = state.pairs[pair]
        if p.live != NONE:
            goal = state.partitions[p.sender].task
            made = new_confirmation(state)
            c = state.confirmations[made]
            c.pair = pair
            c.incarnation = state.partitions[partition].incarnation
            for level in range(levels):
                state.confirmed_counts[made * levels + level] = state.confirmed[partition * levels + level]
            c.next = state.rounds_at[goal].ack
            if c.next == NONE:
                state.rounds_at[goals].goal = goal
                goals += 1
            state.rounds_at[goal].ack = made
        pair = p.next_in
    return goals


@kernel
def _sort_goals(state: State, goals: int) -> None:
    """Sort the tasks to which acks go by their numbers."""
    for k in range(1, goals):
        goal, place = state.rounds_at[k].goal, k
        while place > 0 and state.rounds_at[place - 1].goal > goal:
            state.rounds_at[place].goal = state.rounds_at[place - 1].goal
            place -= 1
        state.rounds_at[place].goal = goal


@kernel
def _send(state: State, task: int, goal: int, ack: int) -> None:
    """Send an ack, whose first confirmation says when it has left its host."""
    count_message(state, ACKED, 1, state.slicing.bytes)
    c, host = state.confirmations[ack], state.tasks[task].host
    c.origin = task
    c.task = goal
    c.departure = arrival = state.clock.now
    if state.tasks[goal].host != host:
        if state.hosts[host].fair:
            post(state, host, task, goal, state.slicing.bytes, CONFIRM, ack, 0)
            return
        c.departure = departure(state, host, state.slicing.bytes, 0)
        arrival = c.departure + state.options.latency
    push(state, arrival, MESSAGE + goal * RECEIVER + task, next_serial(state), CONFIRM, ack)


@kernel
def _work(state: State, task: int, acks: int) -> None:
    """Occupy a task with acks that it sends or gets."""
    if acks * state.slicing.work > 0:
        chore(state, task, acks * state.slicing.work)


@kernel
def ack_arrives(state: State, ack: int) -> None:
    """Take in an ack, unless its sender died before it had left, or the task here has."""
    c = state.confirmations[ack]
    origin, goal = state.tasks[c.origin], c.task
    if state.tasks[goal].alive and (origin.alive or origin.died > c.departure):
        _work(state, goal, 1)
        one = ack
        while one != NONE:
            said = state.confirmations[one]
            p = state.pairs[said.pair]
            u = state.partitions[p.sender]
            # Of a sender that is elsewhere by now, or a receiver that was restored since, it is void.
            if u.task == goal and u.live and said.incarnation == state.partitions[p.receiver].incarnation:
                _acknowledge(state, said.pair, one)
            one = said.next
    free_confirmations(state, ack)


@kernel
def _acknowledge(state: State, pair: int, confirmation: int) -> None:
    """Note what is acknowledged of the outputs of a pair, and trim what is at the highest level."""
    levels = state.slicing.levels
    for level in range(levels - 1):
        _move_on(state, pair, level, state.confirmed_counts[confirmation * levels + level])
    count = state.confirmed_counts[confirmation * levels + levels - 1]
    receiver = state.partitions[state.pairs[pair].receiver]
    receiver.trimmed = max(receiver.trimmed, count)
    trim(state, pair, count)


@kernel
def _move_on(state: State, pair: int, level: int, count: int) -> None:
    """Acknowledge the outputs of a pair, in order, that are among the receiver's first `count` applied tuples."""
    p, at = state.pairs[pair], pair * state.slicing.levels + level
    if p.live == NONE:
        return
    seq, last, node = p.live_seq, NONE, _first_not_acked(state, pair, level)
    if state.acked[at] > seq:
        seq, last = state.acked[at], state.acked_node[at]
    ahead = read_ahead(state, node)
    while node != NONE:
        ahead = reads_on(state, node, ahead)
        one = state.nodes[node]
        pos = one.pos if state.ids.clean else position(state, p.receiver, one.id)
        if pos < 0 or pos >= count:
            break
        seq, last = seq + 1, node
        node = NONE if node == p.last else next_node(state, node)
    state.acked[at] = seq
    state.acked_node[at] = last


# -- upstream backup of the last time


@kernel
def trim_history(state: State) -> None:
    """Forget outputs that were created before the history, as far as receivers have applied them; set the next look.

    Where sources replay, others forget all that receivers have applied: it is not gone, as sources have it.
    """
    for pair in range(state.tables.pairs):
        p = state.pairs[pair]
        replays = state.partitions[p.sender].is_source or not state.options.sources_replay
        before = state.clock.now - state.options.history if replays else state.clock.now
        count = 0
        node = p.live
        while node != NONE and state.nodes[node].created < before:
            pos = state.nodes[node].pos if state.ids.clean else position(state, p.receiver, state.nodes[node].id)
            if pos < 0:
                break
            count = max(count, pos + 1)
            node = NONE if node == p.last else next_node(state, node)
        _trim_up_to(state, pair, node)
        if replays:
            receiver = state.partitions[p.receiver]
            receiver.trimmed = max(receiver.trimmed, count)
    push(state, state.clock.now + state.slicing.every, 1, next_control_number(state), TRIMMING, 0)


@kernel
def _trim_up_to(state: State, pair: int, node: int) -> None:
    """Forget the live outputs of a pair before one, or all of them."""
    p = state.pairs[pair]
    while p.live != node:
        p.live = NONE if p.live == p.last else next_node(state, p.live)
        p.live_seq += 1
        state.partitions[p.sender].kept_rows -= 1
    let_go(state, pair)


# -- crashes


@kernel
def forget_acks_of(state: State, receiver: int) -> None:
    """Forget what was acknowledged by an incarnation that is over, but for what is trimmed."""
    pair = state.partitions[receiver].in_pair
    while pair != NONE:
        _forget_acks(state, pair)
        pair = state.pairs[pair].next_in


@kernel
def _forget_acks(state: State, pair: int) -> None:
    for level in range(state.slicing.levels):
        state.acked[pair * state.slicing.levels + level] = 0


@kernel
def begin_again(state: State, partition: int) -> None:
    """Begin a new incarnation of the partition, whose state was restored: all of that is its first slice."""
    s, levels = state.slices[partition], state.slicing.levels
    s.first = s.end
    for level in range(levels):
        state.confirmed[partition * levels + level] = 0
        state.confirmed_to[partition * levels + level] = s.end
    pair = state.partitions[partition].out_pair
    while pair != NONE:
        _forget_acks(state, pair)
        pair = state.pairs[pair].next_out
    if has_slices(state, partition):
        _mark(state, partition)


@kernel
def restorable(state: State, partition: int) -> int:
    """Return how many applied tuples the partition comes back with: those of the stored checkpoint, if there is one.

    Without state it has no checkpoint. Then it is what upstream has let go: all that follows from it is downstream.
    """
    u = state.partitions[partition]
    if u.stored:
        return u.stored_count
    if state.extended and state.options.trims and not state.slices[partition].stateful:
        return u.trimmed
    return 0
