"""Event time as tasks and their partitions have heard of it.

By the rules each partition hears of each key group that sends to it (`sim.plain.watermarks`). But nearly always all
partitions of a task have heard the same, and of all key groups that are at one task upstream. So event time is kept for
pairs of tasks, and for single ones only where it may differ:

- A partition *follows* its task while the next watermark of each sender counts for it as for the others there. Any verb
  that may change this lets it `part` first. It follows again (`follow`) once it has heard the same, and watermarks that
  it would not hear cannot come any more.
- A group *has a speaker* while one task speaks for it. Any verb that may change this takes the speaker away first
  (`silence`). Until a watermark of its next speaker has come to a task, the task keeps what it heard of the group as an
  exception.

Watermarks of a channel keep their order, and are later each time. Both conditions follow from that: what one watermark
does, all later ones do.

The partitions of a task are in a list, by number, so that nobody has to go through those of other tasks.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.unfinished import oldest
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

HEARING = np.dtype(
    [
        ("slots", "i8"),  # tasks that hear or speak, dead ones included whose place nobody has taken
        ("room", "i8"),  # places for them in `voices`
        ("most_senders", "i8"),  # of an operator: places of a task in `exceptions`
        ("channels", "i8"),  # in use
    ],
    align=True,
)

# What a partition has heard of a group that sends to it, where it does not follow its task; in its checkpoints, always.
CHANNEL = np.dtype([("event", "i8"), ("stored", "i8")], align=True)

# The last watermark from a task to a task, its number, and of how many groups it tells those that follow; the number of
# what came last, which may be a farewell.
VOICE = np.dtype([("event", "i8"), ("serial", "i8"), ("groups", "i8"), ("come", "i8")], align=True)

# The instance that alone is of a group, and its task, whose watermarks count for it; or NONE.
SPEAKER = np.dtype([("task", "i4"), ("instance", "i4")], align=True)


@kernel
def event_of(state: State, partition: int) -> int:
    """Return the event time of a partition."""
    u = state.partitions[partition]
    return state.tasks[u.task].event if u.follows else u.event


@kernel
def least_event_of(state: State, partition: int) -> int:
    """Return the least event time that the partition can have from now on: that of its stored checkpoint, if any.

    Before its first checkpoint it may only begin anew; then all its tuples come again.
    """
    u = state.partitions[partition]
    if u.stored:
        return u.event_stored
    return state.unfinished[oldest(state, partition)].event if u.saving else event_of(state, partition)


@kernel
def _heard_by(state: State, task: int, number: int) -> int:
    """Return what those that follow the task have heard of the sender of that number."""
    t = state.tasks[task]
    own = state.exceptions[t.slot * state.hearing.most_senders + number]
    if own > 0:
        return own - 1
    group = state.senders[state.operators[t.operator].first_sender + number]
    return state.voices[t.slot * state.hearing.room + state.tasks[state.speakers[group].task].slot].event


@kernel
def heard_of(state: State, partition: int, number: int) -> int:
    """Return what a partition has heard of the sender of that number."""
    u = state.partitions[partition]
    return _heard_by(state, u.task, number) if u.follows else state.channels[u.first_channel + number].event


@kernel
def copy_heard(state: State, partition: int, events: np.ndarray) -> None:
    """Copy what a partition has heard of all that send to it into an array of that length."""
    for number in range(events.shape[0]):
        events[number] = heard_of(state, partition, number)


@kernel
def count_again(state: State, task: int) -> None:
    """Find the event time of those that follow the task, and how many voices and exceptions are no further."""
    t = state.tasks[task]
    least, behind = np.int64(2**62), 0
    first = t.slot * state.hearing.room
    for k in range(first, first + state.hearing.slots):
        v = state.voices[k]
        if v.groups > 0 and v.event <= least:
            behind = behind + 1 if v.event == least else 1
            least = v.event
    first = t.slot * state.hearing.most_senders
    for k in range(first, first + state.operators[t.operator].senders if t.exceptions > 0 else first):
        own = state.exceptions[k] - 1
        if 0 <= own <= least:
            behind = behind + 1 if own == least else 1
            least = own
    t.event = least
    t.behind = behind


# -- tasks


@kernel
def free_slot(state: State) -> int:
    """Return a place for a task that hears or speaks: that of a dead one, or the next."""
    for task in range(state.cluster.tasks):
        t = state.tasks[task]
        free = state.operators[t.operator].timed and not t.alive and t.slot != NONE and t.followers == 0
        # Where nothing is sent again, what has left the task may be still on its way, and its last farewell.
        if free and (state.options.keeps_outputs or not was_left(state, task)):
            slot = t.slot
            t.slot = NONE
            return slot
    state.hearing.slots += 1
    return state.hearing.slots - 1


@kernel
def was_left(state: State, task: int) -> bool:
    """Return whether a partition was taken out of the task."""
    for partition in range(state.partitions.shape[0]):
        rule = state.partitions[partition].left
        while rule != NONE:
            if state.rules[rule].origin == task:
                return True
            rule = state.rules[rule].next
    return False


@kernel
def begin_to_hear(state: State, task: int, slot: int) -> None:
    """A task has heard and said nothing yet, and nothing is there."""
    state.tasks[task].slot = slot
    state.tasks[task].first_here = NONE
    room = state.hearing.room
    for k in range(state.hearing.slots):
        here, there = state.voices[slot * room + k], state.voices[k * room + slot]
        here.event = here.serial = here.groups = 0
        here.come = state.clock.serial  # all that is older was not sent to it
        there.event = there.serial = there.groups = there.come = 0


@kernel
def begin_to_follow(state: State, task: int) -> None:
    """At the start of a run all partitions of the task follow it, and nothing was said."""
    t = state.tasks[task]
    op = state.operators[t.operator]
    for k in range(op.partitions):
        partition = op.first_partition + op.partitions - 1 - k  # the last first: each is put at the begin of the list
        u = state.partitions[partition]
        if u.task == task:
            _put_here(state, partition, task)
            u.follows = op.common
            t.followers += op.common
            t.others += not op.common
    for k in range(op.first_sender, op.first_sender + op.senders if t.followers > 0 else op.first_sender):
        speaker = state.speakers[state.senders[k]].task
        state.voices[t.slot * state.hearing.room + state.tasks[speaker].slot].groups += 1
    if t.followers > 0 and op.senders > 0:
        count_again(state, task)


# -- what differs


@kernel
def part(state: State, partition: int) -> None:
    """The partition has an event time of its own from now on, which is that of its task at first."""
    u = state.partitions[partition]
    if not u.follows:
        return
    t = state.tasks[u.task]
    u.event = t.event
    u.behind = 0
    for number in range(u.channels):
        c = state.channels[u.first_channel + number]
        c.event = _heard_by(state, u.task, number)
        if c.event == u.event:
            u.behind += 1
    u.follows = 0
    t.followers -= 1
    t.others += 1


@kernel
def part_all(state: State, task: int) -> None:
    """All that follow the task have event times of their own from now on."""
    partition = state.tasks[task].first_here if state.tasks[task].followers > 0 else NONE
    while partition != NONE:
        part(state, partition)
        partition = state.partitions[partition].next_here


@kernel
def leave(state: State, partition: int, task: int) -> None:
    """The partition comes to another task, or (NONE) is over: it neither hears nor speaks as before."""
    u = state.partitions[partition]
    part(state, partition)
    silence(state, partition)
    if state.operators[u.operator].timed and not u.retired:
        _take_away(state, partition)
        state.tasks[u.task].others -= 1
        if task != NONE:
            _put_here(state, partition, task)
            state.tasks[task].others += 1


@kernel
def come(state: State, instance: int, task: int) -> None:
    """One more instance of its group comes to a task."""
    silence(state, instance)
    if state.operators[state.tasks[task].operator].timed:
        _put_here(state, instance, task)
        state.tasks[task].others += 1


@kernel
def _put_here(state: State, partition: int, task: int) -> None:
    """Put the partition into the list of the task."""
    t = state.tasks[task]
    before, following = NONE, t.first_here
    while following != NONE and following < partition:
        before, following = following, state.partitions[following].next_here
    state.partitions[partition].next_here = following
    if before == NONE:
        t.first_here = partition
    else:
        state.partitions[before].next_here = partition


@kernel
def _take_away(state: State, partition: int) -> None:
    """Take the partition off the list of its task."""
    u = state.partitions[partition]
    t = state.tasks[u.task]
    if t.first_here == partition:
        t.first_here = u.next_here
        return
    before = t.first_here
    while state.partitions[before].next_here != partition:
        before = state.partitions[before].next_here
    state.partitions[before].next_here = u.next_here


@kernel
def silence(state: State, partition: int) -> None:
    """No task speaks for the group of the partition until one is heard that does: exceptions stay as they are."""
    group = state.partitions[partition].group
    if state.speakers.shape[0] == 0 or state.speakers[group].task == NONE:
        return
    slot = state.tasks[state.speakers[group].task].slot
    state.speakers[group].task = NONE
    op = state.operators[state.partitions[group].operator]
    for k in range(op.first_edge, op.first_edge + op.edges):
        edge = state.edges[k]
        if state.operators[edge.down].timed and state.operators[edge.down].common:
            number = edge.first_sender + state.partitions[group].index
            for task in range(state.cluster.tasks):
                t = state.tasks[task]
                if t.operator == edge.down and t.followers > 0:
                    _except(state, task, number, slot)


@kernel
def _except(state: State, task: int, number: int, slot: int) -> None:
    """Keep what the task heard of a group as an exception, if its voice has told of it until now."""
    t = state.tasks[task]
    at = t.slot * state.hearing.most_senders + number
    if state.exceptions[at] > 0:
        return
    v = state.voices[t.slot * state.hearing.room + slot]
    state.exceptions[at] = v.event + 1
    t.exceptions += 1
    v.groups -= 1
    if v.event == t.event and v.groups > 0:
        t.behind += 1  # beside the voice, which tells of others


# -- watermarks


@kernel
def speaks(state: State, group: int, origin: int, serial: int, task: int) -> bool:
    """Return whether a watermark comes from where an instance is, and was made since that has sent all that it kept.

    All that the instance has sent to the task of the watermark from other tasks has to have come there.
    """
    speaker = state.speakers[group]
    if speaker.task != NONE:
        since = state.partitions[speaker.instance].live_at
        return speaker.task == origin and serial >= since and _has_come(state, speaker.instance, task)
    if _speaks_alone(state, group, origin, serial):
        return _has_come(state, group, task)
    for partition in range(state.partitions.shape[0] - state.cluster.extra_instances, state.partitions.shape[0]):
        if state.partitions[partition].group == group and _speaks_alone(state, partition, origin, serial):
            return True
    return False


@kernel
def _has_come(state: State, instance: int, task: int) -> bool:
    """Return whether all that an instance has sent to a task from tasks that it was taken out of has come."""
    rule = state.partitions[instance].left
    while rule != NONE:
        r = state.rules[rule]
        slot = state.tasks[r.origin].slot
        if slot != NONE and state.voices[state.tasks[task].slot * state.hearing.room + slot].come < r.since:
            return False
        rule = r.next
    return True


@kernel
def _speaks_alone(state: State, partition: int, origin: int, serial: int) -> bool:
    u = state.partitions[partition]
    return u.task == origin and u.live and not u.muted and serial >= u.live_at


@kernel
def _has_speaker(state: State, group: int, origin: int) -> bool:
    """Return whether the task, which speaks for the group, is the only one that can."""
    speaker = state.speakers[group]
    if speaker.task != NONE:
        return speaker.task == origin
    found, alone = 0, group
    if not state.partitions[group].retired:
        found = 1
    for partition in range(state.partitions.shape[0] - state.cluster.extra_instances, state.partitions.shape[0]):
        if state.partitions[partition].group == group and not state.partitions[partition].retired:
            found += 1
            alone = partition
    if found != 1:
        return False
    speaker.task = origin
    speaker.instance = alone
    return True


@kernel
def may_rise(state: State, task: int, origin: int) -> bool:
    """Return False if the next watermark from there leaves the event time of all partitions of the task as it is."""
    t = state.tasks[task]
    if t.others > 0 or t.exceptions > 0:
        return True
    v = state.voices[t.slot * state.hearing.room + state.tasks[origin].slot]
    return v.groups > 0 and v.event == t.event and t.behind == 1


@kernel
def note_come(state: State, task: int, origin: int, serial: int) -> None:
    """Note that all has come to a task that was sent from another before that number."""
    state.voices[state.tasks[task].slot * state.hearing.room + state.tasks[origin].slot].come = serial


@kernel
def hear_at_task(state: State, task: int, origin: int, event: int, serial: int) -> None:
    """A watermark of a task that is alive comes to a task, and so to all partitions that follow it."""
    t = state.tasks[task]
    v = state.voices[t.slot * state.hearing.room + state.tasks[origin].slot]
    before = v.event
    v.event = event
    v.serial = serial
    if t.followers == 0:
        return
    if t.exceptions > 0:
        _hear_of_exceptions(state, task, origin, event, serial)
        count_again(state, task)
    elif v.groups > 0 and before == t.event and event > before:
        t.behind -= 1
        if t.behind == 0:
            count_again(state, task)


@kernel
def _hear_of_exceptions(state: State, task: int, origin: int, event: int, serial: int) -> None:
    """Hear of the groups of which the voice of their task did not tell; from now on it may."""
    t = state.tasks[task]
    op = state.operators[t.operator]
    first = t.slot * state.hearing.most_senders
    for number in range(op.senders):
        own = state.exceptions[first + number]
        group = state.senders[op.first_sender + number]
        if own > 0 and speaks(state, group, origin, serial, task):
            state.exceptions[first + number] = max(own, event + 1)
            if own <= event + 1 and _has_speaker(state, group, origin):
                state.exceptions[first + number] = 0
                t.exceptions -= 1
                state.voices[t.slot * state.hearing.room + state.tasks[origin].slot].groups += 1


@kernel
def hear(state: State, partition: int, origin: int, event: int, serial: int) -> None:
    """A watermark comes to a partition with an event time of its own: the least of what came of all its senders."""
    u = state.partitions[partition]
    for number in range(u.channels):
        c = state.channels[u.first_channel + number]
        if event > c.event and speaks(state, state.senders[u.first_sender + number], origin, serial, u.task):
            if c.event == u.event:
                u.behind -= 1
            c.event = event
    if u.behind == 0:
        least = event
        for k in range(u.first_channel, u.first_channel + u.channels):
            least = min(least, state.channels[k].event)
        u.event = least
        for k in range(u.first_channel, u.first_channel + u.channels):
            if state.channels[k].event == least:
                u.behind += 1


# -- following again


@kernel
def follow(state: State, partition: int, begun: int) -> None:
    """Let a live partition follow its task if from now on both hear the same; a watermark begun then was just heard."""
    u = state.partitions[partition]
    t, group = state.tasks[u.task], state.partitions[u.group]
    if not state.operators[t.operator].common or t.rules != NONE or begun <= u.freed_at or u.goal != NONE:
        return
    if group.owner != partition or group.routes != NONE or (t.followers > 0 and t.event != u.event):
        return
    first = state.operators[t.operator].first_sender
    since = max(u.assigned_at, u.owned_at)
    for number in range(u.channels):
        if not _heard_since(state, u.task, state.senders[first + number], since):
            return
        if t.followers > 0 and state.channels[u.first_channel + number].event != _heard_by(state, u.task, number):
            return
    if t.followers == 0:
        _take_over(state, partition)
    u.follows = 1
    t.followers += 1
    t.others -= 1


@kernel
def _heard_since(state: State, task: int, group: int, since: int) -> bool:
    """Return whether no watermark will speak for the group to the task that was made before."""
    speaker = state.speakers[group]
    if speaker.task != NONE:
        return _comes_since(state, task, speaker.instance, since)
    if not _comes_since(state, task, group, since):
        return False
    for partition in range(state.partitions.shape[0] - state.cluster.extra_instances, state.partitions.shape[0]):
        if state.partitions[partition].group == group and not _comes_since(state, task, partition, since):
            return False
    return True


@kernel
def _comes_since(state: State, task: int, instance: int, since: int) -> bool:
    """Return the same for one instance; what is not live, or muted, only speaks by later watermarks."""
    u = state.partitions[instance]
    if not u.live or u.muted or u.live_at >= since:
        return True
    return state.voices[state.tasks[task].slot * state.hearing.room + state.tasks[u.task].slot].serial >= since


@kernel
def _take_over(state: State, partition: int) -> None:
    """What the partition has heard becomes that of its task, which nobody follows."""
    u = state.partitions[partition]
    t = state.tasks[u.task]
    op = state.operators[t.operator]
    first = t.slot * state.hearing.room
    for k in range(first, first + state.hearing.slots):
        state.voices[k].groups = 0
    t.exceptions = 0
    for number in range(op.senders):
        event = state.channels[u.first_channel + number].event
        speaker = state.speakers[state.senders[op.first_sender + number]]
        told = False
        if speaker.task != NONE:
            v = state.voices[first + state.tasks[speaker.task].slot]
            told = v.event == event and v.serial >= state.partitions[speaker.instance].live_at
            told = told and _has_come(state, speaker.instance, u.task)
            v.groups += told
        state.exceptions[t.slot * state.hearing.most_senders + number] = 0 if told else event + 1
        t.exceptions += not told
    count_again(state, u.task)
