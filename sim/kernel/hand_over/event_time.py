"""Event time in hand-overs: watermarks that tasks have heard and said, and timers.

The scan keeps the last watermark of each channel for a task. The event loop does so for a pair of tasks, or where
inputs are forward ones for a partition and a group that sends to it. Watermarks that are on their way, or wait, are
handed over with the tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sim.clock import TICKS, TIMERS
from sim.control.cluster import RunPlan
from sim.kernel.event_loop.codes import MARK, NONE, TICK, TIMER
from sim.kernel.scan import entities
from sim.kernel.scan import windows as scan_windows
from sim.kernel.scan.entities import SIDE
from sim.kernel.scan.state import ScanState
from sim.kernel.tools.pointer import State

_MOST_LEVELS = 2
_MOST_RANKS = 2**31


class Event(NamedTuple):
    """Hold events of the event loop (n,) that watermarks of sources, or timers, have set."""

    time: np.ndarray
    rank: np.ndarray
    kind: int
    ref: np.ndarray


def voices_of(scan: ScanState) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield each task that hears watermarks, the tasks that send them, and where `voices` has the last of each."""
    for task in np.flatnonzero(scan.listeners["voices"]).tolist():
        listener = scan.listeners[task]
        places = int(listener["first_voice"]) + np.arange(int(listener["voices"]))
        heard = scan.voices[places] != scan_windows.NEVER
        yield task, int(listener["first_sender"]) + np.flatnonzero(heard), places[heard]


# -- to the event loop


def to_loop(scan: ScanState, loop: State) -> list[Event]:
    """Make the event time of the event loop that of the scan; return the events that it has set."""
    _tell(scan, loop)
    return _set_events(scan, loop)


def _tell(scan: ScanState, loop: State) -> None:
    """Fill in what tasks have heard and said."""
    room, serial = int(loop.hearing["room"]), int(loop.clock["serial"])
    voices, tasks = loop.voices.reshape(room, room), loop.tasks
    count = scan.listeners.size
    tasks["event_sent"][:count], tasks["next_end"][:count] = scan.listeners["sent"], scan.listeners["next_end"]
    tasks["marks"][:count] = 0
    for task, senders, places in voices_of(scan):
        row, slots, heard = voices[tasks["slot"][task]], tasks["slot"][senders], scan.voices[places]
        row["event"][slots], row["serial"][slots], row["come"][slots] = heard, serial, serial
        if tasks["followers"][task]:
            tasks["event"][task] = heard.min()
            tasks["behind"][task] = (heard == heard.min()).sum()
            continue
        by_task = np.zeros(count, np.int64)
        by_task[senders] = heard
        listener = scan.listeners[task]
        first = int(listener["first_here"])
        for partition in scan.partitions_here[first : first + int(listener["here"])].tolist():
            u = loop.partitions[partition]
            events = by_task[scan.partition_task[_senders(loop, partition)]]
            loop.channels["event"][u["first_channel"] + np.arange(events.size)] = events
            u["event"] = events.min(initial=scan_windows.NEVER)
            u["behind"] = (events == u["event"]).sum()


def _senders(loop: State, partition: int) -> np.ndarray:
    """Return the groups that send to a partition (n_channels,)."""
    u = loop.partitions[partition]
    return loop.senders[int(u["first_sender"]) : int(u["first_sender"] + u["channels"])]


def _set_events(scan: ScanState, loop: State) -> list[Event]:
    u = loop.partitions[: scan.timer_ticks.size]
    u["ticks"] = u["ticks_due"] = scan.timer_ticks
    source = np.flatnonzero(scan.sources["watermark"] > 0)
    sends = scan.partition_task[scan.sources["partition"][source]].astype(np.int64)
    found = [Event(scan.next_ticks[source], TICKS + sends, TICK, source)]
    every = scan.operators["timer"][u["operator"]]
    due = np.flatnonzero(every > 0)
    times = (scan.timer_ticks[due] + 1) * every[due]
    found.append(Event(times, TIMERS + scan.partition_task[due].astype(np.int64), TIMER, due))
    return found


def name_inputs(scan: ScanState, plan: RunPlan, made: np.ndarray) -> None:
    """Let the sender tell the input of items (n,) that have come to a join; the scan has it in their keys."""
    operator = scan.servers["operator"][made["task"]]
    there = np.flatnonzero((scan.operators["joins"][operator] != NONE) & (made["arrived"] == 1) & (made["key"] >= 0))
    side = made["key"][there] >> SIDE
    made["key"][there] &= (1 << SIDE) - 1
    for join in np.unique(operator[there]).tolist():
        first = int(scan.operators["joins"][join])
        inputs = [one.index for one in plan.operators if any(edge.down.index == join for edge in one.edges)]
        inputs = [first, *(one for one in inputs if one != first)]
        tasks = scan.partition_task[[plan.first_partition[one] for one in inputs]]
        here = operator[there] == join
        made["origin"][there[here]] = tasks[side[here]]


def set_marks(scan: ScanState, made: np.ndarray, parcels: np.ndarray) -> None:
    """Make watermarks of those items (n,) that are watermarks among the parcels (n,) of the scan."""
    marks = np.flatnonzero(parcels["key"] == entities.MARK)
    for name, value in (("kind", MARK), ("wire", 0), ("arrived", 0), ("id", 0), ("created", 0), ("partition", NONE)):
        made[name][marks] = value
    made["key"][marks] = parcels["created"][marks]
    made["origin"][marks] = parcels["id"][marks].astype(np.int64) % int(scan.options["tasks"])


# -- to the scan


def hindrance(loop: State, partition_task: np.ndarray, task_host: np.ndarray, latency_ns: int) -> str | None:
    """Return what of event time the scan does not know."""
    timed = loop.operators["timed"] == 1
    tasks = loop.tasks[: task_host.size]
    own = timed[tasks["operator"]] & (tasks["alive"] == 1)
    common = own & (loop.operators["common"][tasks["operator"]] == 1)
    if ((tasks["others"] > 0) & common).any() or ((tasks["exceptions"] > 0) & own).any():
        return "key groups of a task have different event times"
    if ((tasks["speaks_anew"] > 0) & own).any() or ((tasks["marks"] > 0) & own).any():
        return "watermarks wait to be sent, or to pass"
    u = loop.partitions[: partition_task.size]
    if (u["ticks"] != u["ticks_due"]).any():
        return "outputs of a timer wait"
    for partition in np.flatnonzero(timed[u["operator"]] & ~common[partition_task]).tolist():
        events, senders = _channels(loop, partition), partition_task[_senders(loop, partition)]
        order = np.argsort(senders, kind="stable")
        if (np.diff(events[order])[np.diff(senders[order]) == 0] != 0).any():
            return "a task has heard of some key groups of another, and of some not"
    backward = goes_back(loop, partition_task, task_host, latency_ns)
    if backward.any() and (not is_in_levels(loop) or tasks.size**2 + tasks.size >= _MOST_RANKS):
        return "watermarks go back to tasks with lower numbers, over several operators"
    return None


def goes_back(loop: State, partition_task: np.ndarray, task_host: np.ndarray, latency_ns: int) -> np.ndarray:
    """Return over which edges (n_edges,) watermarks, or what they cause, may reach tasks with lower numbers at once.

    Those of sources are sent before anything arrives.
    """
    operators, u = loop.operators, loop.partitions[: partition_task.size]
    found = np.zeros(loop.edges.shape[0], np.bool_)
    for up in np.flatnonzero((operators["timed"] == 1) & (operators["is_source"] == 0)).tolist():
        senders = np.unique(partition_task[u["operator"] == up])
        first = int(operators["first_edge"][up])
        for edge in range(first, first + int(operators["edges"][up])):
            receivers = np.unique(partition_task[u["operator"] == loop.edges["down"][edge]])
            at_once = (task_host[senders][:, None] == task_host[receivers][None, :]) | (latency_ns == 0)
            found[edge] = ((senders[:, None] > receivers[None, :]) & at_once).any()
    return found


def is_in_levels(loop: State) -> bool:
    """Return whether watermarks pass two operators at most, and equally many on all ways to an operator behind them.

    Then what is late has the order that its rank says (`sim.kernel.scan.event_time`).
    """
    operators = loop.operators
    passing = np.flatnonzero((operators["timed"] == 1) & (operators["is_source"] == 0)).tolist()
    edges = [
        (up, down)
        for up in passing
        for down in loop.edges["down"][int(operators["first_edge"][up]) :][: int(operators["edges"][up])].tolist()
    ]
    level = dict.fromkeys({*passing} - {down for _, down in edges}, 1)
    for _ in passing:
        for up, down in edges:
            if up in level and level.setdefault(down, level[up] + 1) != level[up] + 1:
                return False
    return all(level[up] <= _MOST_LEVELS for up, _ in edges)


def _channels(loop: State, partition: int) -> np.ndarray:
    """Return what a partition with an event time of its own has heard of each group that sends to it (n_channels,)."""
    u = loop.partitions[partition]
    return loop.channels["event"][int(u["first_channel"]) : int(u["first_channel"] + u["channels"])]


def to_scan(scan: ScanState, loop: State, events: np.ndarray) -> None:
    """Make the event time of a scan that has just been made that of the event loop, which has these events (n,)."""
    _tell_scan(scan, loop)
    latency_ns, tasks = int(scan.options["latency"]), int(scan.options["tasks"])
    if goes_back(loop, scan.partition_task, scan.task_host, latency_ns).any():
        scan.options["goes_back"], scan.options["ranks"] = 1, tasks * (tasks + 1)
    ticks = events[events["kind"] == TICK]
    scan.next_ticks[ticks["ref"]] = ticks["time"]
    u = loop.partitions[: scan.timer_ticks.size]
    scan.timer_ticks[:] = u["ticks"]


def _tell_scan(scan: ScanState, loop: State) -> None:
    room = int(loop.hearing["room"])
    voices, tasks = loop.voices.reshape(room, room), loop.tasks
    scan.listeners["sent"] = tasks["event_sent"][: scan.listeners.size]
    for task, senders, places in voices_of(scan):
        listener = scan.listeners[task]
        if tasks["followers"][task]:
            heard = voices["event"][tasks["slot"][task], tasks["slot"][senders]]
        else:  # it has one partition
            partition = int(scan.partitions_here[int(listener["first_here"])])
            by_task = np.zeros(scan.listeners.size, np.int64)
            by_task[scan.partition_task[_senders(loop, partition)]] = _channels(loop, partition)
            heard = by_task[senders]
        scan.voices[places] = heard
        listener["event"], listener["behind"] = heard.min(), (heard == heard.min()).sum()
