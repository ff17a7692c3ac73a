"""What the control plane does to tuples: crash, assign, install, release, replay; and what it asks."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop.backpressure import take_along
from sim.kernel.event_loop.buffers import cut_log, forget_handed, forget_live, forget_stored, restore_kept
from sim.kernel.event_loop.channels import replay
from sim.kernel.event_loop.codes import BUNDLE, CONTROL, CRASHED, NONE, SNAPSHOT, TUPLE
from sim.kernel.event_loop.emitting import emit_arrivals, emit_ticks
from sim.kernel.event_loop.fair_links import close_link, least_arrival
from sim.kernel.event_loop.free_lists import free_transfer, free_visit, new_visit
from sim.kernel.event_loop.hash_tables import cut_keys, find_pair
from sim.kernel.event_loop.link_use import forget_use
from sim.kernel.event_loop.outbox import give, leave_place, stop_waiting
from sim.kernel.event_loop.restoring import restore_time
from sim.kernel.event_loop.rules import ANY, beside, rules_without, without_rules
from sim.kernel.event_loop.sharing import stop, used
from sim.kernel.event_loop.tasks import dispatch, drop, drop_bundle, note_turn, put_in_front, ticket
from sim.kernel.event_loop.windows import NEVER_ENDS
from sim.kernel.tools.compiling import allocating, kernel
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
def add_task(s: State, task: int, operator: int, host: int, cores: int, idle_threads: int, one_core: bool) -> None:
    """A new, empty task on these cores, which may be a single one that it shares."""
    t = s.tasks[task]
    t.operator = operator
    t.host = host
    t.cores = cores
    t.next_on_cores = NONE
    t.idle_threads = idle_threads
    t.front_head = t.front_tail = t.queue_head = t.queue_tail = t.serving_head = t.serving_tail = NONE
    without_rules(s, task)
    t.alive = 1
    t.has_service = s.operators[operator].has_service
    t.lead = s.operators[operator].priority << 42
    t.places = s.operators[operator].buffer
    t.unsent_head = t.unsent_tail = t.waits_at = t.next_waiting = t.first_waiting = t.last_waiting = NONE
    t.next_end = NEVER_ENDS
    s.cluster.threads += idle_threads
    c = s.cores[cores]
    t.place = task
    if one_core and t.has_service:
        other = c.first
        while other != NONE and not s.operators[s.tasks[other].operator].has_service:
            other = s.tasks[other].next_on_cores
        if other != NONE:
            t.place = s.tasks[other].place
    if c.first == NONE:
        c.first = task
    else:
        s.tasks[c.last].next_on_cores = task
    c.last = task
    s.cluster.tasks = max(s.cluster.tasks, task + 1)


@kernel
def _drop_chain(s: State, head: int, task: int) -> None:
    while head != NONE:
        e = s.visits[head]
        following = e.next
        if e.kind == SNAPSHOT:
            free_transfer(s, np.int64(e.id))
        elif e.kind == TUPLE:
            drop(s, head, task, CRASHED)
        if s.extended and e.kind == BUNDLE:
            drop_bundle(s, head, task)
        else:
            free_visit(s, head)
        head = following


@kernel
def crash_task(s: State, task: int) -> None:
    """The task ends with what it has in service and in its lanes."""
    t = s.tasks[task]
    t.alive = 0
    t.died = s.clock.now
    serving, front, queue = t.serving_head, t.front_head, t.queue_head
    t.serving_head = t.serving_tail = t.front_head = t.front_tail = t.queue_head = t.queue_tail = NONE
    t.front_n = t.queue_n = 0
    _drop_chain(s, serving, task)
    _drop_chain(s, front, task)
    _drop_chain(s, queue, task)
    hand, barriers, back, side = t.hand_head, t.barriers, t.back_head, t.side_head
    rules_without(s, t.rules, ANY, ANY)
    without_rules(s, task)
    _drop_chain(s, back, task)
    _drop_chain(s, side, task)
    _drop_chain(s, barriers, task)
    _drop_chain(s, hand, task)
    if s.extended and s.options.bounded:
        _lose_unsent(s, task)


@kernel
def _lose_unsent(s: State, task: int) -> None:
    t = s.tasks[task]
    stop_waiting(s, task)
    v = t.unsent_head
    t.unsent_head = t.unsent_tail = NONE
    t.unsent_n = t.unsent_mail = 0
    while v != NONE:
        following = s.visits[v].next
        if s.visits[v].kind == TUPLE:
            drop(s, v, s.partitions[s.visits[v].partition].task, CRASHED)
        free_visit(s, v)
        v = following


@kernel
def lose_partition(s: State, partition: int) -> None:
    """What the partition kept in memory is gone; a source reads a durable log and keeps it."""
    u = s.partitions[partition]
    u.live = 0
    u.saving = 0
    u.replay_task = NONE
    held = u.held_head
    u.held_head = u.held_tail = NONE
    u.held_n = 0
    _drop_chain(s, held, u.task)
    if not u.is_source:
        forget_live(s, partition)


@allocating
def cut_links(s: State, host: int) -> None:
    """What a dead host had not sent yet is gone; its tuples are dropped in the order of sending."""
    found = np.empty(s.visits.shape[0] - s.visit_pool.left, np.int64)
    n = 0
    for v in range(s.visits.shape[0]):
        e = s.visits[v]
        if e.wire and s.tasks[e.origin].host == host:
            origin = s.tasks[e.origin]
            if not origin.alive and (e.arrival == NONE or origin.died <= e.arrival - s.options.latency):
                found[n] = v
                n += 1
    serials = np.empty(n, np.int64)
    for k in range(n):
        serials[k] = s.visits[found[k]].serial
        s.visits[found[k]].wire = 0  # the event of its arrival frees the place
        if s.extended and s.options.bounded and not s.visits[found[k]].replayed:
            leave_place(s, s.visits[found[k]].task)
    for k in np.argsort(serials):
        drop(s, found[k], s.visits[found[k]].task, CRASHED)
        if s.visits[found[k]].arrival == NONE:
            free_visit(s, found[k])  # it was on a shared link: there is no event of its arrival


@allocating
def crash_host(s: State, host: int, tasks: np.ndarray, partitions: np.ndarray) -> None:
    """The host dies with these tasks and partitions."""
    h = s.hosts[host]
    h.alive = 0
    h.life += 1
    h.link_free = 0
    forget_use(s, host)
    if s.extended and h.paced:
        stop(s, host, tasks)
    for k in range(tasks.shape[0]):
        crash_task(s, tasks[k])
    for k in range(partitions.shape[0]):
        lose_partition(s, partitions[k])
    close_link(s, host)
    cut_links(s, host)
    if s.extended and s.options.bounded:
        for k in range(tasks.shape[0]):
            give(s, tasks[k])  # a dead task has room
    for partition in range(s.partitions.shape[0]):
        if s.partitions[partition].stored and s.partitions[partition].stored_checkpoint_host == host:
            forget_stored(s, partition)
            if s.extended and s.partitions[partition].stored_from != NONE:
                forget_handed(s, partition)


@kernel
def assign(s: State, partition: int, task: int) -> None:
    """Tuples for the partition go to this task; a new incarnation."""
    u = s.partitions[partition]
    u.task = task
    u.incarnation += 1
    u.assigned_at = s.clock.serial
    u.replay_task = task
    u.replay_pending = 0
    u.replayed_at = NONE


@kernel
def install(s: State, partition: int) -> int:
    """The state of the stored checkpoint, or none; how many tuples are missing that upstream may have forgotten."""
    u = s.partitions[partition]
    count = u.stored_count if u.stored else 0
    missing = max(0, u.trimmed - count)
    u.trimmed = min(u.trimmed, count)
    if s.extended and u.stored and u.stored_from != NONE:
        return missing  # the rest is done by `instances.inherit`
    cut_log(s, partition, count)
    cut_keys(s, partition, count)
    u.touched = 0
    u.epoch += 1
    u.at_snapshot = count
    u.new_kept_bytes = 0
    restore_kept(s, partition)
    if s.extended:
        restore_time(s, partition, count)
    return missing


@kernel
def release(s: State, partition: int) -> None:
    """What the partition held goes in front of the queue of its task, in order."""
    u = s.partitions[partition]
    held = u.held_head
    u.held_head = u.held_tail = NONE
    u.held_n = 0
    if s.extended and held != NONE:
        u.freed_at = note_turn(s)
    while held != NONE:
        following = s.visits[held].next
        put_in_front(s, held, u.task)
        held = following
    if s.tasks[u.task].has_service:
        dispatch(s, s.tasks[u.task].cores)


@kernel
def resume(s: State, source: int) -> None:
    """Emit what arrived before now and waits."""
    b = s.sources[source]
    upto = b.arrived
    while upto > b.emitted and s.arrivals[b.offset + upto - 1 - b.base].time >= s.clock.now:
        upto -= 1
    emit_arrivals(s, source, upto)


@kernel
def resume_timer(s: State, partition: int) -> None:
    """Emit what the timer did not at the instants before now."""
    if s.extended:
        emit_ticks(s, partition, (s.clock.now - 1) // s.operators[s.partitions[partition].operator].timer)


@kernel
def replay_between(s: State, sender: int, receiver: int, turn: bool) -> tuple[int, int]:
    """Send all that is kept for the receiver again; (tuples, bytes)."""
    pair = find_pair(s, sender, receiver)
    if pair == NONE:
        return 0, 0
    if s.extended and s.options.bounded and s.pairs[pair].live != NONE:
        take_along(s, sender, receiver)
    return replay(s, sender, pair, turn)


@kernel
def work(s: State, task: int, ns: int, token: int) -> None:
    """Occupy the task for a time, ahead of its queue."""
    v = new_visit(s)
    e = s.visits[v]
    e.kind = CONTROL
    e.id = token
    e.created = ns
    e.ticket = ticket(s, s.tasks[task].host)
    e.wire = 0
    e.replayed = 0
    put_in_front(s, v, task)
    dispatch(s, s.tasks[task].cores)


@allocating
def partners(s: State, partition: int, incoming: bool) -> np.ndarray:
    """Partitions that keep outputs for this one, or for which this one keeps outputs, rising."""
    n = 0
    pair = s.partitions[partition].in_pair if incoming else s.partitions[partition].out_pair
    found = np.empty(s.partitions.shape[0], np.int64)
    while pair != NONE:
        p = s.pairs[pair]
        if p.live != NONE:
            found[n] = p.sender if incoming else p.receiver
            n += 1
        pair = p.next_in if incoming else p.next_out
    return np.sort(found[:n])


@kernel
def last_arrival(s: State, task: int, operators: np.ndarray, before: int) -> int:
    """When the last tuple under way to the task from tasks of the marked operators arrives, at least, or NONE.

    Only those count that were sent before that number.
    """
    last = least_arrival(s, task, operators, before) if s.extended and s.options.fair else NONE
    for v in range(s.visits.shape[0]):
        e = s.visits[v]
        if e.wire and e.task == task and e.serial < before and operators[s.tasks[e.origin].operator]:
            last = max(last, e.arrival)
    return last


@kernel
def watch(s: State, tasks: np.ndarray) -> None:
    """Exactly these tasks are watched."""
    for task in range(s.cluster.tasks):
        s.tasks[task].watched = 0
    for k in range(tasks.shape[0]):
        s.tasks[tasks[k]].watched = 1


@kernel
def cpu(s: State, rows: np.ndarray) -> int:
    """Rows (task, time in service, CPU time used) of the tasks on hosts whose pace changes; how many."""
    n = 0
    for task in range(s.cluster.tasks):
        if s.extended and s.hosts[s.tasks[task].host].paced:
            served, work_done = used(s, task)
            rows[n, 0] = task
            rows[n, 1] = served
            rows[n, 2] = work_done
            n += 1
    return n


@kernel
def sample_buffers(s: State, rows: np.ndarray) -> int:
    """Rows (task, taken, unsent, blocked) of the live tasks; how many."""
    n = 0
    for task in range(s.cluster.tasks):
        t = s.tasks[task]
        if t.alive:
            rows[n, 0] = task
            rows[n, 1] = t.taken if t.places > 0 else 0
            rows[n, 2] = t.unsent_n
            rows[n, 3] = t.blocked + (s.clock.now - t.blocked_since if t.unsent_head != NONE else 0)
            n += 1
    return n


@kernel
def sample(s: State, rows: np.ndarray) -> int:
    """Rows (task, host, queue, busy, buffered) of the live tasks; how many."""
    for task in range(s.cluster.tasks):
        rows[task, 2] = s.tasks[task].queue_n + s.tasks[task].front_n + beside(s, task)
        rows[task, 4] = 0
    for partition in range(s.partitions.shape[0]):
        u = s.partitions[partition]
        if u.task != NONE:
            rows[u.task, 2] += u.held_n
            rows[u.task, 4] += u.kept_rows
    n = 0
    for task in range(s.cluster.tasks):
        t = s.tasks[task]
        if t.alive:
            rows[n, 0] = task
            rows[n, 1] = t.host
            rows[n, 2] = rows[task, 2]
            rows[n, 3] = t.busy
            rows[n, 4] = rows[task, 4]
            n += 1
    return n
