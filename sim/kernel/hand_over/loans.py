"""Tuples that the scan lends to the event loop for a time, and gets back: all that can matter to control until then.

Everything before the begin of a loan is done, nothing at it. The event loop gets what arrives before its end, services
in progress, of each queue the first tuples, as many as can be served until then, and all that waits for key groups that
are on their way. So what is left with the scan could not have had its turn, and goes on behind what comes back.

A task has two lanes: what is in front (or aside, as long as a rule holds it) and the queue. Of the queue of the scan
the tuples before the place `ahead` are of the first lane. A place in a queue keeps its number. Messages that wait for
their turn in a queue stay with the event loop, which knows their places (`TURN`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.event_loop.actions import has_waited
from sim.kernel.event_loop.channels import count_message
from sim.kernel.event_loop.codes import NONE, SENT, TUPLE
from sim.kernel.event_loop.events import event_at, first_of, replay_vacant
from sim.kernel.event_loop.rules import STOP
from sim.kernel.scan.entities import CHUNK
from sim.kernel.scan.placing import is_held, task_for
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State

FAR_NS = 2**62
# A message that waits for its turn behind the tuples of a queue before `place`; the turn comes at `at`, if it is known.
TURN = np.dtype([("task", "i8"), ("visit", "i8"), ("place", "i8"), ("at", "i8"), ("lent", "i8")], align=True)

# What is known of a task between two loans.
LENT = np.dtype(
    [
        ("last", "i8"),  # visit of the last tuple that was lent of its queue, or NONE
        ("ahead", "i8"),  # tuples before this place are in front, or aside; FAR_NS: all that come are
        ("stopped", "i8"),  # the scan starts nothing at the task
        ("changed", "i8"),  # control has done something at the task, or its turns in the queue came otherwise
        ("near", "i8"),  # what is sent to the task may come at the same instant
    ],
    align=True,
)

COUNTS = np.dtype(
    [
        ("turns", "i8"),  # messages that wait for their turn
        ("faults", "i8"),  # tasks of which the scan has kept tuples that belong between others
        ("coming", "i8"),  # tuples on their way
        ("first", "i8"),  # tuples in the first lane of a task
        ("waiting", "i8"),  # tuples and messages in both
        ("last", "i8"),  # place of the last one that was lent, or NONE
        ("due", "i8"),  # when the first turn of a message comes
        ("event", "i8"),  # when the first event is that the event loop has left
    ],
    align=True,
)


# -- what control does at a task


@kernel
def is_stopped(loop: State, task: int) -> int:
    """Return whether a task serves for control, or starts nothing, or what control wants comes next: 1 or 0."""
    t = loop.tasks[task]
    if t.idle_threads < -(STOP >> 1) or t.rules != NONE or t.side_head != NONE or works(loop, task):
        return 1
    return 0


@kernel
def works(loop: State, task: int) -> bool:
    """Return whether a task works for control, or will before it comes to its queue."""
    t = loop.tasks[task]
    for head in (t.serving_head, t.front_head):
        visit = head
        while visit != NONE:
            if loop.visits[visit].kind != TUPLE:
                return True
            visit = loop.visits[visit].next
    return False


@kernel
def is_idle(loop: State, task: int) -> bool:
    """Return whether the task has looked at all that waits there, so that what a rule holds is aside."""
    return loop.tasks[task].serving_head == NONE and loop.requests.dispatch != task and not works(loop, task)


@kernel
def note_places(loop: State, scan: State, until: int) -> bool:
    """Tell the scan which tasks have key groups, and which will; return whether some change their tasks until then."""
    placed, due = False, False
    for k in range(loop.partitions.shape[0]):
        u = loop.partitions[k]
        goes = u.goal != NONE
        placed = placed or goes or u.taken == 1
        due = due or (goes and u.placed_from <= until)
        scan.held_from[k] = u.placed_from if goes else (0 if u.taken == 1 else FAR_NS)
        scan.goals[k] = u.goal if goes else u.task
        scan.partition_task[k] = u.task
        scan.partition_host[k] = scan.servers[u.task].host
    scan.options.placed = placed
    return due


# -- when control may be told something


@kernel
def next_event(loop: State) -> int:
    """Return when the first event is that the event loop has, or FAR_NS."""
    replay_vacant(loop)
    place = first_of(loop)
    return FAR_NS if place == NONE else event_at(loop, place)[0]


@kernel
def turn_at(scan: State, task: int, end: int, now: int) -> int:
    """Return when all in front of a place in a queue has been served, if nothing comes in front of it."""
    q = scan.queues[task]
    piece, place, at = q.head, q.head_place, max(now, scan.servers[task].free)
    for _ in range(max(0, end - q.gone)):
        if place == CHUNK:
            piece = scan.chunk_next[piece]
            place = 0
        e = scan.chunks[piece * CHUNK + place]
        at += 0 if is_held(scan, e) else e.ns
        place += 1
    return at


# -- messages that line up


@kernel
def line_up(loop: State, scan: State, now: int, lent: np.ndarray, turns: np.ndarray, counts: np.ndarray) -> int:
    """Send messages again whose turn comes now; return when the next turn comes, or NONE where that needs a loan.

    That needs none if something waits behind each of them, and nothing comes to their tasks at this instant: then each
    goes behind all that waits, and its turn comes when that has been served.
    """
    loop.clock.now = now
    if loop.messages.rows + loop.messages.counts.shape[0] > loop.message_rows.shape[0]:
        return NONE
    for k in range(counts[0].turns):
        if turns[k].at <= now:
            for other in range(counts[0].turns):  # two at one task keep their order
                if other != k and turns[other].task == turns[k].task:
                    return NONE
            if not _goes_behind(loop, scan, now, turns[k], lent):
                return NONE
    following = FAR_NS
    for k in range(counts[0].turns):
        one = turns[k]
        if one.at <= now:
            count_message(loop, SENT, 1, 0)
            loop.visits[one.visit].arrival = now
            q = scan.queues[one.task]
            one.place = q.gone + q.n
            one.at = turn_at(scan, one.task, one.place, now)
        following = min(following, one.at)
    return following


@kernel
def _goes_behind(loop: State, scan: State, now: int, one: Any, lent: np.ndarray) -> bool:
    """Return whether a message goes behind all that waits at its task: its turn comes now, and it has waited for it."""
    q, server = scan.queues[one.task], scan.servers[one.task]
    if not has_waited(loop, one.visit) or one.at < now or server.free != now or q.gone != one.place or q.n == 0:
        return False
    if lent[one.task].near == 1 or turn_at(scan, one.task, q.gone + q.n, now) == now:
        return False
    b = scan.boxes[server.operator]
    for k in range(b.n):
        e = scan.box[b.first + k]
        if e.at == now and task_for(scan, e.partition, e.created) == one.task:
            return False
    return True


@kernel
def last_older(scan: State, above: np.ndarray, operator: int, time: int) -> int:
    """Return from when on the scan may have nothing left that is older than a time, at an operator or above it.

    NONE if there is nothing; FAR_NS if that is for control to say. It is not later than when the last is applied.
    """
    operators, found = scan.options.operators, NONE
    for place in range(operators):
        if not above[operator * operators + place]:
            continue
        b = scan.boxes[place]
        for k in range(b.n):
            if scan.box[b.first + k].created < time:
                found = max(found, scan.box[b.first + k].at)
        stage = scan.stages[place]
        for k in range(stage.first_task, stage.first_task + stage.tasks):
            task = scan.stage_tasks[k]
            server = scan.servers[task]
            if server.serving > 0 and scan.slots[server.first_thread].created < time:
                found = max(found, scan.slots[server.first_thread].end)
            found = max(found, _last_in_queue(scan, above, operator, task, time, server.free))
    for queue in range(scan.options.tasks, scan.queues.shape[0]):
        after = FAR_NS if queue == scan.options.aside else 0
        found = max(found, _last_in_queue(scan, above, operator, queue, time, after))
    return found


@kernel
def _last_in_queue(scan: State, above: np.ndarray, operator: int, queue: int, time: int, free: int) -> int:
    """Return when the last older tuple of a queue has been served, or NONE, where the first can begin then."""
    q = scan.queues[queue]
    piece, place, at, found = q.head, q.head_place, free, NONE
    for _ in range(q.n):
        if place == CHUNK:
            piece = scan.chunk_next[piece]
            place = 0
        e = scan.chunks[piece * CHUNK + place]
        at = max(at, e.at)
        if not is_held(scan, e):
            at = min(FAR_NS, at + e.ns)
        if e.created < time and above[operator * scan.options.operators + scan.partition_operator[e.partition]]:
            found = at
        place += 1
    return found
