"""Records of events, of tuples and tasks, and of the hosts, cores and links that they share."""

from __future__ import annotations

import numpy as np

from sim.kernel.tools.memory_layout import in_lines

WAKES = 4

_i8, _i4, _u8, _f8, _b = "i8", "i4", "u8", "f8", "u1"

EVENT = np.dtype([("time", _i8), ("rank", _i8), ("seq", _i8), ("kind", _i4), ("ref", _i4)], align=True)

# The next event of each task of its own rank.
OWN_EVENT = np.dtype([("seq", _i8), ("kind", _i4), ("ref", _i4)], align=True)

VISIT = np.dtype(
    [
        ("id", _u8),
        ("created", _i8),
        ("key", _i8),
        ("arrival", _i8),
        ("start", _i8),
        ("serial", _i8),
        ("ticket", _i8),
        ("service", _i8),  # its time on a host of speed 1, or UNSURE: not drawn yet
        ("next", _i4),
        ("partition", _i4),
        ("origin", _i4),
        ("task", _i4),
        ("node", _i4),  # where it is kept, as long as no host has died
        ("kind", _b),
        ("wire", _b),
        ("arrived", _b),
        ("replayed", _b),
    ],
    align=True,
)

TASK = in_lines(
    [
        # what every tuple needs, in one line
        ("host", _i4),
        ("cores", _i4),
        ("operator", _i4),
        ("next_on_cores", _i4),
        ("idle_threads", _i4),
        ("queue_head", _i4),
        ("queue_tail", _i4),
        ("front_head", _i4),
        ("front_tail", _i4),
        ("serving_head", _i4),
        ("serving_tail", _i4),
        ("alive", _b),
        ("watched", _b),
        ("has_service", _b),  # also while a task without one is stopped: then what comes waits
        ("place", _i4),  # of its next event in `own`
        ("busy", _i8),
        ("queue_n", _i8),
        ("lead", _i8),  # taken off the ticket of what is at the head: the priority of the operator
        # and the rest
        ("rules", _i4),
        ("died", _i8),
        ("front_n", _i8),  # tuples, without work
        ("mark", _i8),
        ("served", _i8),  # of its tuples from the warm-up on, where the pace changes: time in service
        ("used", _i8),  # and work that was done in it
        ("places", _i8),  # for tuples in the queue and under way, 0: no bound
        ("taken", _i8),
        ("unsent_n", _i8),  # outputs that wait for room at their receivers
        ("unsent_mail", _i8),  # messages and watermarks behind them
        ("blocked", _i8),  # for how long outputs waited [ns], without the present time
        ("blocked_since", _i8),
        ("unsent_head", _i4),
        ("unsent_tail", _i4),
        ("waits_at", _i4),  # the task at which the first of them waits for room, or NONE
        ("next_waiting", _i4),  # behind this task, at the same receiver
        ("first_waiting", _i4),  # of the tasks that wait for room here
        ("last_waiting", _i4),
        ("giving", _b),  # the event is set at which the first of them goes on
        ("loose", _b),  # the event is set at which this task goes on whose first unsent output was taken away
        ("event_sent", _i8),  # the last watermark
        ("next_end", _i8),  # of the windows here
        ("marks", _i8),  # watermarks that wait for services of other threads
        ("paused_until", _i8),  # 0: not paused, NONE: without an end
        ("side_n", _i8),  # tuples
        ("back_n", _i8),  # tuples and messages
        ("hand_head", _i4),  # messages of which the listener is being told
        ("hand_tail", _i4),
        ("side_head", _i4),  # what the rules hold
        ("side_tail", _i4),
        ("barriers", _i4),  # those that wait for their twins on other channels
        ("barriers_tail", _i4),
        ("back_head", _i4),  # what has come behind them
        ("back_tail", _i4),
    ]
)

CORES = np.dtype([("free", _i4), ("first", _i4), ("last", _i4)], align=True)

HOST = np.dtype(
    [
        ("life", _i8),
        ("tickets", _i8),
        ("link_free", _i8),
        ("rate", _f8),  # bytes per second, 0: no bound
        ("speed", _f8),
        ("cores", _i4),  # the shared ones, or NONE
        ("core_count", _i4),
        ("alive", _b),
        ("trusted", _b),  # in use, and not suspected by control
        ("shared", _b),
        # where the pace changes, as in `sharing`
        ("paced", _b),
        ("even", _b),  # the cores are shared by all services
        ("warm", _b),  # `done_before` is known
        ("pace", _i8),  # parts per million
        ("in_service", _i8),
        ("done", _i8),
        ("done_part", _i8),  # and parts of a nanosecond
        ("done_before", _i8),  # `done` at the end of the warm-up
        ("before_part", _i8),
        ("changed", _i8),  # when `done` was brought up to date
        ("next_time", _i8),  # of the next end
        ("next_task", _i8),
        ("root", _i8),
        ("wakes", _i8),  # events that are set, earliest last
        ("wake_time", _i8, (WAKES,)),
        ("wake_task", _i8, (WAKES,)),
        ("fair", _b),  # its link is shared evenly
        ("link_done", _i8),  # work of each channel with something to send, since time 0 [ns of the whole link]
        ("link_changed", _i8),  # when a channel began or a message left last
        ("due", _i8),  # when the next message leaves, if no channel begins before
        ("alarm", _i8),  # the earliest event that is set for that, or NONE
        ("active", _i8),  # channels with something to send
        ("first_lane", _i4),
        ("last_lane", _i4),
        # what checkpoints cost the tuples on the link, as in `link_use`
        ("free_alone", _i8),  # when the link would be free if it had carried no checkpoint
        ("uploads", _i8),  # checkpoints on the link, where it is shared evenly
        ("upload_left", _i8),  # when the last of them left it
        ("carried", _i8),  # tuples that left it
        ("delayed", _i8),
        ("delay", _i8),  # total
        ("delay_most", _i8),
    ],
    align=True,
)

# A service in progress on such a host, at the place of its visit.
SERVICE_SHARE = np.dtype(
    [
        ("begin", _i8),  # `done` of the host at its start
        ("end", _i8),  # and at its end
        ("part", _i8),  # parts of a nanosecond of both
        ("serial", _i8),
        ("task", _i4),
        ("before", _i4),  # in the list of its task, unless it is the head
        ("child", _i4),
        ("sibling", _i4),
    ],
    align=True,
)

# A message on a link that is shared evenly: `ref` is a visit, the first of a replay, or a transfer, as `kind` says.
# `tuples` is how many tuples it has, `posted` when it was sent, `alone` when it would have left without checkpoints.
PARCEL = np.dtype(
    [
        ("work", _i8),
        ("serial", _i8),
        ("posted", _i8),
        ("alone", _i8),
        ("kind", _i4),
        ("ref", _i4),
        ("next", _i4),
        ("tuples", _i4),
    ],
    align=True,
)

# A channel over such a link. Those with something to send are a list at the host in the order in which their first
# messages leave: when `done` of the host has come to `finish`, of equals the one that was sent first.
LANE = np.dtype(
    [
        ("finish", _i8),
        ("serial", _i8),  # of the first message
        ("origin", _i4),
        ("receiver", _i4),
        ("host", _i4),
        ("first", _i4),
        ("last", _i4),
        ("before", _i4),
        ("next", _i4),
    ],
    align=True,
)
