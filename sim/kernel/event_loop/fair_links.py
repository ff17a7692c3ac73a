"""Links that are shared evenly: each of the n channels with something to send advances at 1/n of the rate.

What is left of the first message of a channel is a whole number of ns of the whole link. Whenever a channel begins or
a message leaves, it is reduced by the time since the last such change / n, rounded down: by the same for all, so that
one count for each host (`done`) stands for what is taken off all of them, and their order never changes.

The delay that checkpoints on a host's link cause its tuples, compared with a link that carries no checkpoints.

That link would send everything else, first in first out, at the same instants. A tuple is delayed if it leaves later
than it would have left there; on a link that is shared evenly only if a checkpoint was on the link with it.
"""

from __future__ import annotations

import numpy as np

from sim.clock import ARRIVAL, HOST_RECEIVER, LINK, MESSAGE, RECEIVER
from sim.kernel.event_loop.codes import (
    ACK,
    ARRIVE,
    AT_REMOTE,
    BUNDLE,
    COME,
    CONFIRM,
    DEPART,
    MARKED,
    NONE,
    REPLAY,
    STORED,
)
from sim.kernel.event_loop.events import next_serial, push
from sim.kernel.event_loop.free_lists import free_confirmations, free_transfer, free_visit
from sim.kernel.event_loop.hash_tables import slot_of
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State


@kernel
def leaves_alone(state: State, host: int, held: int) -> int:
    """Return when a message that holds the link so long would have left it without checkpoints."""
    h = state.hosts[host]
    h.free_alone = max(state.clock.now, h.free_alone) + held
    return h.free_alone


@kernel
def count_tuples(state: State, host: int, tuples: int, late: int) -> None:
    """Count tuples that left the link, so much later than they would have left it without checkpoints."""
    h = state.hosts[host]
    h.carried += tuples
    if late > 0 and tuples > 0:
        h.delayed += tuples
        h.delay += tuples * late
        h.delay_most = max(h.delay_most, late)


@kernel
def forget_use(state: State, host: int) -> None:
    """The host died: its link is empty."""
    h = state.hosts[host]
    h.free_alone = h.uploads = h.upload_left = 0


FAIR_LINKS = np.dtype([("lanes", "i8")])  # in use


# A message on a link that is shared evenly: `ref` is a visit, the first of a replay, or a transfer, as `kind` says.
# `tuples` is how many tuples it has, `posted` when it was sent, `alone` when it would have left without checkpoints.
PARCEL = np.dtype(
    [
        ("work", "i8"),
        ("serial", "i8"),
        ("posted", "i8"),
        ("alone", "i8"),
        ("kind", "i4"),
        ("ref", "i4"),
        ("next", "i4"),
        ("tuples", "i4"),
    ],
    align=True,
)

# A channel over such a link. Those with something to send are a list at the host in the order in which their first
# messages leave: when `done` of the host has come to `finish`, of equals the one that was sent first.
LANE = np.dtype(
    [
        ("finish", "i8"),
        ("serial", "i8"),  # of the first message
        ("origin", "i4"),
        ("receiver", "i4"),
        ("host", "i4"),
        ("first", "i4"),
        ("last", "i4"),
        ("before", "i4"),
        ("next", "i4"),
    ],
    align=True,
)


_NS = 1e9


@kernel
def fair_room(state: State, need: int) -> bool:
    """Return whether there is room for so many messages, of which an event sends the store one at the most."""
    if not state.options.fair_hosts:
        need = 1
    return not state.options.fair or (
        state.parcel_pool.left >= need and state.fair_links.lanes + need <= state.lanes.shape[0]
    )


@kernel
def rehash_lanes(lanes: np.ndarray, used: int, index: np.ndarray) -> None:
    """Enter all channels into an empty index."""
    size = index.shape[0]
    for n in range(used):
        k = slot_of(lanes[n].origin, lanes[n].receiver, size)
        while index[k] != NONE:
            k = (k + 1) & (size - 1)
        index[k] = n


@kernel
def _lane_of(state: State, host: int, origin: int, receiver: int) -> int:
    """Return the number of a channel, which is made if there is none yet."""
    index, size = state.lane_index, state.lane_index.shape[0]
    k = slot_of(origin, receiver, size)
    while index[k] != NONE:
        n = index[k]
        if state.lanes[n].origin == origin and state.lanes[n].receiver == receiver:
            return n
        k = (k + 1) & (size - 1)
    n = state.fair_links.lanes
    state.fair_links.lanes = n + 1
    index[k] = n
    lane = state.lanes[n]
    lane.origin = origin
    lane.receiver = receiver
    lane.host = host
    lane.first = lane.last = NONE
    return n


@kernel
def _work_off(state: State, host: int) -> None:
    h, now = state.hosts[host], state.clock.now
    if h.active > 0:
        h.link_done += (now - h.link_changed) // h.active
    h.link_changed = now


@kernel
def _set_departure(state: State, host: int) -> None:
    """Say when the next message leaves; an event that is set for an earlier instant looks again then."""
    h = state.hosts[host]
    if h.active == 0:
        return
    h.due = state.clock.now + (state.lanes[h.first_lane].finish - h.link_done) * h.active
    if h.alarm == NONE or h.due < h.alarm:
        h.alarm = h.due
        push(state, h.due, LINK + host, next_serial(state), DEPART, host)


@kernel
def _put_in_order(state: State, host: int, number: int) -> None:
    """The first message of the channel is new: find its place among those that leave."""
    h, lane = state.hosts[host], state.lanes[number]
    parcel = state.parcels[lane.first]
    lane.finish = h.link_done + parcel.work
    lane.serial = parcel.serial
    before = h.last_lane
    while before != NONE:
        other = state.lanes[before]
        if other.finish < lane.finish or (other.finish == lane.finish and other.serial < lane.serial):
            break
        before = other.before
    lane.before = before
    if before == NONE:
        lane.next = h.first_lane
        h.first_lane = number
    else:
        lane.next = state.lanes[before].next
        state.lanes[before].next = number
    if lane.next == NONE:
        h.last_lane = number
    else:
        state.lanes[lane.next].before = number


@kernel
def post(state: State, host: int, origin: int, receiver: int, size: int, kind: int, ref: int, tuples: int) -> None:
    """Send a message of so many tuples over the link; what happens when it arrives is an event of that kind."""
    p = state.parcel_pool.free
    parcel = state.parcels[p]
    state.parcel_pool.free = parcel.next
    state.parcel_pool.left -= 1
    parcel.work = np.int64(np.rint(size * _NS / state.hosts[host].rate))
    parcel.serial = next_serial(state)
    parcel.kind = kind
    parcel.ref = ref
    parcel.next = NONE
    parcel.tuples = tuples
    parcel.posted = state.clock.now
    if _is_upload(kind):
        state.hosts[host].uploads += 1
    else:
        parcel.alone = leaves_alone(state, host, parcel.work)
    n = _lane_of(state, host, origin, receiver)
    lane = state.lanes[n]
    if lane.first != NONE:
        state.parcels[lane.last].next = p
        lane.last = p
        return
    lane.first = lane.last = p
    _work_off(state, host)
    _put_in_order(state, host, n)
    state.hosts[host].active += 1
    _set_departure(state, host)


@kernel
def _is_upload(kind: int) -> bool:
    return kind in (STORED, AT_REMOTE)


@kernel
def _count_use(state: State, host: int, number: int) -> None:
    """A message leaves the link: count its tuples, and what checkpoints that were there with it cost them."""
    h, parcel = state.hosts[host], state.parcels[number]
    if _is_upload(parcel.kind):
        h.uploads -= 1
        h.upload_left = state.clock.now
        return
    met = h.uploads > 0 or h.upload_left > parcel.posted
    count_tuples(state, host, parcel.tuples, state.clock.now - parcel.alone if met else 0)


@kernel
def _free_parcel(state: State, number: int) -> None:
    state.parcels[number].next = state.parcel_pool.free
    state.parcel_pool.free = number
    state.parcel_pool.left += 1


@kernel
def depart(state: State, host: int) -> None:
    """A message leaves the link, if one is due."""
    h = state.hosts[host]
    if h.alarm == state.clock.now:
        h.alarm = NONE
    if h.active == 0:
        return
    if h.due != state.clock.now:
        _set_alarm(state, host)
        return
    _work_off(state, host)
    n = h.first_lane
    lane = state.lanes[n]
    h.first_lane = lane.next
    if lane.next == NONE:
        h.last_lane = NONE
    else:
        state.lanes[lane.next].before = NONE
    p = lane.first
    lane.first = state.parcels[p].next
    if lane.first == NONE:
        lane.last = NONE
        h.active -= 1
    else:
        _put_in_order(state, host, n)
    _set_departure(state, host)
    _count_use(state, host, p)
    kind, ref = state.parcels[p].kind, state.parcels[p].ref
    _free_parcel(state, p)
    if h.store:  # it is there; when it has left the host of its task it knows already
        push(state, state.clock.now, MESSAGE + HOST_RECEIVER * RECEIVER + lane.origin, next_serial(state), kind, ref)
    else:
        _left(state, kind, ref, lane.origin, lane.receiver)


@kernel
def _set_alarm(state: State, host: int) -> None:
    h = state.hosts[host]
    if h.alarm == NONE:
        h.alarm = h.due
        push(state, h.due, LINK + host, next_serial(state), DEPART, host)


@kernel
def _left(state: State, kind: int, ref: int, origin: int, receiver: int) -> None:
    """The message has left: set the event of its arrival."""
    arrival = state.clock.now + state.options.latency
    rank = MESSAGE
    if kind == MARKED:
        rank = ARRIVAL
    elif kind == ARRIVE:
        rank = ARRIVAL
        state.visits[ref].arrival = arrival
    elif kind == COME:
        rank = ARRIVAL
        if state.visits[ref].kind == BUNDLE:
            _note_arrival(state, state.visits[ref].created, arrival)
        else:
            state.visits[ref].key = state.clock.now
    elif kind == REPLAY:
        _note_arrival(state, ref, arrival)
    elif kind == ACK:
        state.visits[ref].key = state.clock.now
    elif kind == CONFIRM:
        state.confirmations[ref].departure = state.clock.now
    else:
        state.transfers[ref].departure = state.clock.now
    push(state, arrival, rank + receiver * RECEIVER + origin, next_serial(state), kind, ref)


@kernel
def _note_arrival(state: State, visit: int, arrival: int) -> None:
    """The tuples of a chain arrive then."""
    while visit != NONE:
        state.visits[visit].arrival = arrival
        visit = state.visits[visit].next


@kernel
def close_link(state: State, host: int) -> None:
    """The host died: nothing leaves any more. Visits that were on the link are left to those who drop them."""
    h = state.hosts[host]
    n = h.first_lane
    while n != NONE:
        lane = state.lanes[n]
        p = lane.first
        while p != NONE:
            following = state.parcels[p].next
            if _is_upload(state.parcels[p].kind):
                ref = state.parcels[p].ref
                free_transfer(state, ref)
            elif state.parcels[p].kind == CONFIRM:
                free_confirmations(state, state.parcels[p].ref)
            elif state.parcels[p].kind in (ACK, COME, MARKED):
                ref = state.parcels[p].ref
                free_visit(state, ref)
            _free_parcel(state, p)
            p = following
        lane.first = lane.last = NONE
        n = lane.next
    h.first_lane = h.last_lane = NONE
    h.active = 0


@kernel
def _has_tuples(state: State, number: int) -> bool:
    """Return whether the message is of tuples, not a watermark, an ack or one of a protocol."""
    kind = state.parcels[number].kind
    return kind not in (ACK, CONFIRM, MARKED) and (
        kind != COME or state.visits[state.parcels[number].ref].kind == BUNDLE
    )


@kernel
def least_arrival(state: State, task: int, operators: np.ndarray, before: int) -> int:
    """Return the earliest arrival of the last tuple that is on a shared link to the task, or NONE.

    Only sendings before that number count. `operators` (n_operators,) marks the operators that count.
    """
    last = NONE
    for n in range(state.fair_links.lanes):
        lane = state.lanes[n]
        if lane.receiver != task or lane.first == NONE or not operators[state.tasks[lane.origin].operator]:
            continue
        h = state.hosts[lane.host]
        left = lane.finish - h.link_done - (state.clock.now - h.link_changed) // h.active
        p = lane.first
        while p != NONE and state.parcels[p].serial < before:
            if _has_tuples(state, p):
                last = max(last, state.clock.now + left + state.options.latency)
            p = state.parcels[p].next
            if p != NONE:
                left += state.parcels[p].work
    return last
