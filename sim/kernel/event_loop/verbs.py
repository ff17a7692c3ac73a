"""Verbs of the control plane: crash, assign, install, release, replay; and its questions."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.backpressure import take_along
from sim.kernel.event_loop.buffers import cut_log, forget_handed, forget_live, forget_stored, restore_kept, unapply
from sim.kernel.event_loop.channels import replay
from sim.kernel.event_loop.codes import BUNDLE, CONTROL, CRASHED, MARK, NEVER, NONE, SNAPSHOT, TUPLE
from sim.kernel.event_loop.emitting import emit_arrivals, emit_ticks, forget_again, lose_what_waits
from sim.kernel.event_loop.fair_links import close_link, forget_use, least_arrival
from sim.kernel.event_loop.free_lists import free_transfer, free_visit, new_visit
from sim.kernel.event_loop.hash_tables import cut_keys, find_pair
from sim.kernel.event_loop.heard import leave, part, silence
from sim.kernel.event_loop.outbox import count_withheld, give, leave_place, stop_waiting, take_withheld
from sim.kernel.event_loop.passages import forget_passage
from sim.kernel.event_loop.placing import forget_tables
from sim.kernel.event_loop.restoring import restore_time
from sim.kernel.event_loop.roots import lose_acks
from sim.kernel.event_loop.rules import ANY, beside, rules_without, without_rules
from sim.kernel.event_loop.sharing import forget_services, stop, used
from sim.kernel.event_loop.tasks import death, dispatch, drop, drop_bundle, note_turn, put_in_front, ticket
from sim.kernel.event_loop.trimming import begin_again, forget_acks_of, has_slices, restorable
from sim.kernel.event_loop.watermarks import take_last_leave
from sim.kernel.event_loop.windows import NEVER_ENDS
from sim.kernel.tools.cache import allocating, kernel
from sim.kernel.tools.pointer import State

CLUSTER = np.dtype(
    [
        ("tasks", "i8"),
        ("threads", "i8"),  # of all tasks
        ("extra_instances", "i8"),  # instances of key groups beside the planned ones: the last partitions
    ],
    align=True,
)


@kernel
def add_task(state: State, task: int, operator: int, host: int, cores: int, idle_threads: int, one_core: bool) -> None:
    """A new, empty task on these cores, which may be a single one that it shares."""
    t = state.tasks[task]
    t.operator = operator
    t.host = host
    t.cores = cores
    t.next_on_cores = NONE
    t.idle_threads = idle_threads
    t.front_head = t.front_tail = t.queue_head = t.queue_tail = t.serving_head = t.serving_tail = NONE
    without_rules(state, task)
    t.alive = 1
    t.has_service = state.operators[operator].has_service
    t.lead = state.operators[operator].priority << 42
    t.chained = state.operators[operator].chained
    t.places = state.operators[operator].buffer
    t.unsent_head = t.unsent_tail = t.waits_at = t.next_waiting = t.first_waiting = t.last_waiting = NONE
    t.next_end = NEVER_ENDS
    t.routing = NONE
    t.withheld = NONE
    state.cluster.threads += idle_threads
    c = state.cores[cores]
    t.place = task
    if one_core and t.has_service:
        other = c.first
        while other != NONE and not state.operators[state.tasks[other].operator].has_service:
            other = state.tasks[other].next_on_cores
        if other != NONE:
            t.place = state.tasks[other].place
    if c.first == NONE:
        c.first = task
    else:
        state.tasks[c.last].next_on_cores = task
    c.last = task
    state.cluster.tasks = max(state.cluster.tasks, task + 1)


@kernel
def _drop_chain(state: State, head: int, task: int) -> None:
    while head != NONE:
        e = state.visits[head]
        following = e.next
        if e.kind == SNAPSHOT:
            free_transfer(state, np.int64(e.id))
        elif e.kind == TUPLE:
            drop(state, head, task, death(state, task))
        if state.extended and e.kind == BUNDLE:
            drop_bundle(state, head, task)
        else:
            free_visit(state, head)
        head = following


@kernel
def crash_task(state: State, task: int) -> None:
    """The task ends with what it has in service and in its lanes."""
    t = state.tasks[task]
    t.alive = 0
    t.died = state.clock.now
    serving, front, queue = t.serving_head, t.front_head, t.queue_head
    t.serving_head = t.serving_tail = t.front_head = t.front_tail = t.queue_head = t.queue_tail = NONE
    t.front_n = t.queue_n = t.polled = 0
    _drop_chain(state, serving, task)
    _drop_chain(state, front, task)
    _drop_chain(state, queue, task)
    if state.extended:
        forget_passage(state, task)
    hand, barriers, back, side = t.hand_head, t.barriers, t.back_head, t.side_head
    rules_without(state, t.rules, ANY, ANY)
    without_rules(state, task)
    _drop_chain(state, back, task)
    _drop_chain(state, side, task)
    _drop_chain(state, barriers, task)
    _drop_chain(state, hand, task)
    if state.extended and state.options.bounded:
        _lose_unsent(state, task)
    if state.extended and state.options.withholds:
        _lose_withheld(state, task)
    if state.extended and state.options.acks:
        lose_acks(state, task)


@kernel
def _lose_unsent(state: State, task: int) -> None:
    t = state.tasks[task]
    stop_waiting(state, task)
    visit = t.unsent_head
    t.unsent_head = t.unsent_tail = NONE
    t.unsent_n = t.unsent_mail = 0
    _drop_unsent(state, visit, task)


@kernel
def _lose_withheld(state: State, task: int) -> None:
    found = state.tasks[task].withheld
    while found != NONE:
        _drop_unsent(state, take_withheld(state, found), task)
        found = state.withheld[found].next


@kernel
def _drop_unsent(state: State, head: int, task: int) -> None:
    """Drop outputs that a task has not sent at their receivers."""
    while head != NONE:
        following = state.visits[head].next
        if state.visits[head].kind == TUPLE:
            drop(state, head, state.partitions[state.visits[head].partition].task, death(state, task))
        free_visit(state, head)
        head = following


@kernel
def _drop_held(state: State, partition: int, task: int) -> None:
    u = state.partitions[partition]
    held = u.held_head
    u.held_head = u.held_tail = NONE
    u.held_n = 0
    _drop_chain(state, held, task)


@kernel
def _lose_held(state: State, task: int) -> None:
    """Lose what a task that died held for key groups that were to come there."""
    for partition in range(state.partitions.shape[0]):
        if state.partitions[partition].goal == task:
            _drop_held(state, partition, task)


@kernel
def lose_partition(state: State, partition: int) -> None:
    """Lose what the partition kept in memory; a source reads a durable log and keeps it."""
    u = state.partitions[partition]
    if state.extended:
        part(state, partition)
        silence(state, partition)
    u.live = 0
    u.taken = 0
    u.saving = 0
    if u.goal == NONE:  # else what waits is at the next task
        _drop_held(state, partition, u.task)
    if state.extended:
        lose_what_waits(state, partition)
    if not u.is_source:
        forget_live(state, partition)
    elif state.extended and not state.options.acks:  # with an acker the log knows what was to be emitted again
        forget_again(state, partition)


@kernel
def lose_travelling(state: State, partition: int) -> None:
    """Lose the state of a partition that was taken; what waits for it stays, at a task that lives."""
    u = state.partitions[partition]
    head, tail, n = u.held_head, u.held_tail, u.held_n
    u.held_head = u.held_tail = NONE
    u.held_n = 0
    lose_partition(state, partition)
    u.held_head = head
    u.held_tail = tail
    u.held_n = n


@kernel
def _count_no_replays(state: State, partitions: np.ndarray) -> None:
    """These partitions are lost: count no replayed tuples, before drops count as some that are done."""
    for k in range(partitions.shape[0]):
        state.partitions[partitions[k]].replay_task = NONE


@allocating
def cut_links(state: State, host: int) -> None:
    """Drop the tuples that a dead host had not sent yet, in the order of sending."""
    found = np.empty(state.visits.shape[0] - state.visit_pool.left, np.int64)
    n = 0
    for visit in range(state.visits.shape[0]):
        e = state.visits[visit]
        if e.wire and state.tasks[e.origin].host == host:
            origin = state.tasks[e.origin]
            if not origin.alive and (e.arrival == NONE or origin.died <= e.arrival - state.options.latency):
                found[n] = visit
                n += 1
    serials = np.empty(n, np.int64)
    for k in range(n):
        serials[k] = state.visits[found[k]].serial
        state.visits[found[k]].wire = 0  # the event of its arrival frees the place
        if state.extended and state.options.bounded and not state.visits[found[k]].replayed:
            leave_place(state, state.visits[found[k]].task)
    for k in np.argsort(serials):
        drop(state, found[k], state.visits[found[k]].task, CRASHED)
        if state.visits[found[k]].arrival == NONE:
            free_visit(state, found[k])  # it was on a shared link: there is no event of its arrival


@allocating
def crash_host(state: State, host: int, tasks: np.ndarray, partitions: np.ndarray) -> None:
    """The host dies with these tasks and partitions."""
    h = state.hosts[host]
    h.alive = 0
    h.life += 1
    h.link_free = 0
    forget_use(state, host)
    if state.extended and h.paced:
        stop(state, host, tasks)
    _count_no_replays(state, partitions)
    for k in range(tasks.shape[0]):
        crash_task(state, tasks[k])
    for k in range(partitions.shape[0]):
        lose_partition(state, partitions[k])
    if state.extended and state.options.placed:
        for k in range(tasks.shape[0]):
            _lose_held(state, tasks[k])
    if state.extended:
        _cut_off_the_killed(state, host)
    close_link(state, host)
    cut_links(state, host)
    _take_last_leaves(state, tasks)
    if state.extended and state.options.bounded:
        for k in range(tasks.shape[0]):
            give(state, tasks[k])  # a dead task has room
    for partition in range(state.partitions.shape[0]):
        if state.partitions[partition].stored and state.partitions[partition].stored_checkpoint_host == host:
            forget_stored(state, partition)
            if state.extended and state.partitions[partition].stored_from != NONE:
                forget_handed(state, partition)


@kernel
def _take_last_leaves(state: State, tasks: np.ndarray) -> None:
    """Let a last farewell come from each of these tasks whose key groups have moved, where nothing is sent again."""
    for k in range(tasks.shape[0]):
        if state.extended and state.options.placed and not state.options.keeps_outputs:
            take_last_leave(state, tasks[k])


@kernel
def _cut_off_the_killed(state: State, host: int) -> None:
    """Let what tasks had sent that were killed on a host be lost with the host, unless it has left the link."""
    for task in range(state.cluster.tasks):
        t = state.tasks[task]
        if t.host == host and t.killed and t.died == NEVER:
            t.died = state.clock.now


@kernel
def kill_task(state: State, task: int, partitions: np.ndarray) -> None:
    """The task dies with these partitions; its host, and what has left the task, go on."""
    t = state.tasks[task]
    t.killed = 1
    _count_no_replays(state, partitions)
    _leave_cores(state, task)
    if state.hosts[t.host].paced:
        forget_services(state, task)
    crash_task(state, task)
    t.died = NEVER
    for k in range(partitions.shape[0]):
        lose_partition(state, partitions[k])
    if state.options.placed:
        _lose_held(state, task)
    if state.options.bounded:
        give(state, task)  # a dead task has room
    dispatch(state, t.cores)


@kernel
def _leave_cores(state: State, task: int) -> None:
    """Free the cores that serve the task, and take it off the tasks on them."""
    t = state.tasks[task]
    c = state.cores[t.cores]
    visit = t.serving_head
    while visit != NONE:
        e = state.visits[visit]
        if e.kind != MARK or e.arrived == 0:  # a watermark that waits for other threads has freed its core
            c.free += 1
        visit = e.next
    before, one = NONE, c.first
    while one != task:
        before, one = one, state.tasks[one].next_on_cores
    if before == NONE:
        c.first = t.next_on_cores
    else:
        state.tasks[before].next_on_cores = t.next_on_cores
    if c.last == task:
        c.last = before


@kernel
def assign(state: State, partition: int, task: int) -> None:
    """Tuples for the partition go to this task; a new incarnation."""
    u = state.partitions[partition]
    if state.extended:
        leave(state, partition, task)
    u.task = task
    u.goal = NONE
    u.placed_from = 0
    u.taken = 0
    if state.extended and state.options.placed:
        forget_tables(state, partition)
        if state.options.keeps_outputs:  # else what it had sent from a task that lives is still on its way
            u.left = rules_without(state, u.left, ANY, ANY)
    u.incarnation += 1
    u.assigned_at = state.clock.serial
    u.replay_task = task
    u.replay_pending = 0
    u.replayed_at = NONE
    if state.extended and state.options.trims:
        forget_acks_of(state, partition)


@kernel
def open_partition(state: State, partition: int) -> None:
    """The partition is live."""
    if state.extended:
        silence(state, partition)
    state.partitions[partition].live = 1
    state.partitions[partition].live_at = state.clock.serial


@kernel
def install(state: State, partition: int) -> int:
    """The state of the stored checkpoint, or none; how many tuples are missing that upstream may have forgotten."""
    u = state.partitions[partition]
    count = restorable(state, partition)
    missing = max(0, u.trimmed - count)
    u.trimmed = min(u.trimmed, count)
    if state.extended and u.stored and u.stored_from != NONE:
        return missing  # the rest is done by `instances.inherit`
    cut_log(state, partition, count)
    cut_keys(state, partition, count)
    if state.extended and state.options.rolls_back and state.ids.clean:
        unapply(state, partition, count)
    u.touched = 0
    u.based = u.epoch
    u.epoch += 1
    u.at_snapshot = count
    u.new_kept_bytes = 0
    restore_kept(state, partition)
    if state.extended:
        restore_time(state, partition, count)
        if state.options.trims:
            begin_again(state, partition)
    return missing


@kernel
def release(state: State, partition: int) -> None:
    """Put the tuples that the partition held in front of the queue of its task, in order."""
    u = state.partitions[partition]
    held = u.held_head
    u.held_head = u.held_tail = NONE
    u.held_n = 0
    if state.extended and held != NONE:
        part(state, partition)
        u.freed_at = note_turn(state)
    while held != NONE:
        following = state.visits[held].next
        put_in_front(state, held, u.task)
        held = following
    if state.tasks[u.task].has_service:
        dispatch(state, state.tasks[u.task].cores)


@kernel
def resume(state: State, source: int) -> None:
    """Emit what arrived before now and waits."""
    b = state.sources[source]
    upto = b.arrived
    while upto > b.emitted and state.arrivals[b.offset + upto - 1 - b.base].time >= state.clock.now:
        upto -= 1
    emit_arrivals(state, source, upto)


@kernel
def resume_timer(state: State, partition: int) -> None:
    """Emit what the timer did not at the instants before now."""
    if state.extended:
        emit_ticks(
            state, partition, (state.clock.now - 1) // state.operators[state.partitions[partition].operator].timer
        )


@kernel
def replay_between(state: State, sender: int, receiver: int, turn: bool, missing: bool) -> tuple[int, int]:
    """Send all that is kept for the receiver again, or is `missing` there; (tuples, bytes)."""
    pair = find_pair(state, sender, receiver)
    if pair == NONE:
        return 0, 0
    if state.extended and state.options.bounded and state.pairs[pair].live != NONE:
        take_along(state, sender, receiver)
    return replay(state, sender, pair, turn, missing)


@kernel
def work(state: State, task: int, ns: int, token: int) -> None:
    """Occupy the task for a time, ahead of its queue."""
    visit = new_visit(state)
    e = state.visits[visit]
    e.kind = CONTROL
    e.id = token
    e.created = ns
    e.ticket = ticket(state, state.tasks[task].host)
    e.wire = 0
    e.replayed = 0
    put_in_front(state, visit, task)
    dispatch(state, state.tasks[task].cores)


@allocating
def partners(state: State, partition: int, incoming: bool) -> np.ndarray:
    """Return the partitions that keep outputs for this one, or for which this one keeps outputs, rising."""
    n = 0
    pair = state.partitions[partition].in_pair if incoming else state.partitions[partition].out_pair
    found = np.empty(state.partitions.shape[0], np.int64)
    while pair != NONE:
        p = state.pairs[pair]
        if p.live != NONE:
            found[n] = p.sender if incoming else p.receiver
            n += 1
        pair = p.next_in if incoming else p.next_out
    return np.sort(found[:n])


@kernel
def last_arrival(state: State, task: int, operators: np.ndarray, before: int) -> int:
    """Return when the last tuple under way to the task from tasks of the marked operators arrives, at least, or NONE.

    Only those count that were sent before that number.
    """
    last = least_arrival(state, task, operators, before) if state.extended and state.options.fair else NONE
    for visit in range(state.visits.shape[0]):
        e = state.visits[visit]
        if e.wire and e.task == task and e.serial < before and operators[state.tasks[e.origin].operator]:
            last = max(last, e.arrival)
    return last


@kernel
def watch(state: State, tasks: np.ndarray) -> None:
    """Exactly these tasks are watched."""
    for task in range(state.cluster.tasks):
        state.tasks[task].watched = 0
    for k in range(tasks.shape[0]):
        state.tasks[tasks[k]].watched = 1


@kernel
def cpu(state: State, rows: np.ndarray) -> int:
    """Return rows (task, time in service, CPU time used) of the tasks on hosts whose pace changes; how many."""
    n = 0
    for task in range(state.cluster.tasks):
        if state.extended and state.hosts[state.tasks[task].host].paced:
            served, work_done = used(state, task)
            rows[n, 0] = task
            rows[n, 1] = served
            rows[n, 2] = work_done
            n += 1
    return n


@kernel
def sample_buffers(state: State, rows: np.ndarray) -> int:
    """Return rows (task, taken, unsent, blocked, kept bytes, unconfirmed, slices) of the live tasks; how many."""
    for task in range(state.cluster.tasks):
        rows[task, 4] = rows[task, 5] = rows[task, 6] = 0
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        if u.task == NONE:
            continue
        rows[u.task, 4] += u.kept_rows * state.operators[u.operator].bytes
        if state.options.trims and u.live and has_slices(state, partition):
            levels, s = state.slicing.levels, state.slices[partition]
            rows[u.task, 5] += u.applied - state.confirmed[(partition + 1) * levels - 1]
            rows[u.task, 6] += s.end - s.first
    n = 0
    for task in range(state.cluster.tasks):
        t = state.tasks[task]
        if t.alive:
            rows[n, 0] = task
            rows[n, 1] = t.taken if t.places > 0 else 0
            rows[n, 2] = t.unsent_n + count_withheld(state, task)
            rows[n, 3] = t.blocked + (state.clock.now - t.blocked_since if t.unsent_head != NONE else 0)
            for column in range(4, 7):
                rows[n, column] = rows[task, column]
            n += 1
    return n


@kernel
def sample(state: State, rows: np.ndarray) -> int:
    """Return rows (task, host, queue, busy, buffered) of the live tasks; how many."""
    for task in range(state.cluster.tasks):
        rows[task, 2] = state.tasks[task].queue_n + state.tasks[task].front_n + beside(state, task)
        rows[task, 4] = count_withheld(state, task)
    for partition in range(state.partitions.shape[0]):
        u = state.partitions[partition]
        if u.task != NONE:
            rows[u.task if u.goal == NONE else u.goal, 2] += u.held_n
            rows[u.task, 4] += u.kept_rows
    n = 0
    for task in range(state.cluster.tasks):
        t = state.tasks[task]
        if t.alive:
            rows[n, 0] = task
            rows[n, 1] = t.host
            rows[n, 2] = rows[task, 2]
            rows[n, 3] = t.busy
            rows[n, 4] = rows[task, 4]
            n += 1
    return n
