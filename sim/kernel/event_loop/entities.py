"""Things whose life leads through many modules: items of queues, tasks, partitions, hosts; and what both kernels use.

A comment in front of a group of fields says who writes them. `state` lists the writers of each whole record.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.tools.pointer import in_lines

WAKES = 4


VISIT = np.dtype(
    [
        ("id", "u8"),
        ("created", "i8"),
        ("key", "i8"),
        ("arrival", "i8"),
        ("start", "i8"),
        ("serial", "i8"),
        # Of a post-dated output: the key of the tuple that it is made of; `arrival`: the place of that tuple among the
        # applied ones; `start`: how often its partition had lost its outputs before.
        ("ticket", "i8"),
        ("service", "i8"),  # its time on a host of speed 1, or UNSURE: not drawn yet
        ("next", "i4"),
        ("partition", "i4"),
        ("origin", "i4"),
        ("task", "i4"),
        ("node", "i4"),  # where it is kept, as long as no host has died
        ("kind", "u1"),
        ("wire", "u1"),
        ("arrived", "u1"),
        ("replayed", "u1"),
    ],
    align=True,
)

TASK = in_lines(
    [
        # what every tuple needs, in one line
        ("host", "i4"),
        ("cores", "i4"),
        ("operator", "i4"),
        ("next_on_cores", "i4"),
        ("idle_threads", "i4"),
        ("queue_head", "i4"),
        ("queue_tail", "i4"),
        ("front_head", "i4"),
        ("front_tail", "i4"),
        ("serving_head", "i4"),
        ("serving_tail", "i4"),
        ("alive", "u1"),
        ("watched", "u1"),
        ("has_service", "u1"),  # also while a task without one is stopped: then what comes waits
        ("place", "i4"),  # of its next event in `own`
        ("busy", "i8"),
        ("queue_n", "i8"),
        ("lead", "i8"),  # taken off the ticket of what is at the head: the priority of the operator
        # and the rest; `rules` and `actions`: rules, `verbs`: the life of the task
        ("rules", "i4"),
        ("died", "i8"),  # when its host did, so NEVER while the host of a killed task is alive
        ("front_n", "i8"),  # tuples, without work
        ("polled", "i8"),  # of the last poll, not begun yet
        ("mark", "i8"),
        # `sharing`
        ("served", "i8"),  # of its tuples from the warm-up on, where the pace changes: time in service
        ("used", "i8"),  # and work that was done in it
        # `outbox` and `backpressure`: queues with a bound, and what is withheld
        ("places", "i8"),  # for tuples in the queue and under way, 0: no bound
        ("taken", "i8"),
        ("unsent_n", "i8"),  # outputs that wait for room at their receivers
        ("unsent_mail", "i8"),  # messages and watermarks behind them
        ("blocked", "i8"),  # for how long outputs waited [ns], without the present time
        ("blocked_since", "i8"),
        ("unsent_head", "i4"),
        ("unsent_tail", "i4"),
        ("waits_at", "i4"),  # the task at which the first of them waits for room, or NONE
        ("withheld", "i4"),  # the first list of what it withholds for an operator, or NONE
        ("next_waiting", "i4"),  # behind this task, at the same receiver
        ("first_waiting", "i4"),  # of the tasks that wait for room here
        ("last_waiting", "i4"),
        ("giving", "u1"),  # the event is set at which the first of them goes on
        ("loose", "u1"),  # the event is set at which this task goes on whose first unsent output was taken away
        ("killed", "u1"),  # `verbs`: it died alone, without its host
        ("chained", "u1"),  # `threads`: its cores are the thread of a chain
        # `event_time` and `windows`
        ("event_sent", "i8"),  # the last watermark
        ("speaks_anew", "u1"),  # it has got a partition since
        ("next_end", "i8"),  # of the windows here
        ("marks", "i8"),  # watermarks that wait for services of other threads
        # `heard`
        ("event", "i8"),  # event time of the partitions that follow the task
        ("behind", "i8"),  # voices and exceptions that are no further
        ("followers", "i8"),
        ("others", "i8"),  # partitions that are not over, and have event times of their own
        ("exceptions", "i8"),  # groups that have no voice here: what was heard of them is kept for each
        ("slot", "i4"),  # place among those that hear and speak
        ("first_here", "i4"),  # of its partitions that are not over, by number
        ("routing", "i4"),  # `placing`: where its routing table begins, or NONE
        # `actions` and `rules`: what is beside the lanes
        ("paused_until", "i8"),  # 0: not paused, NONE: without an end
        ("side_n", "i8"),  # tuples
        ("back_n", "i8"),  # tuples and messages
        ("back_tuples", "i8"),
        ("hand_head", "i4"),  # messages of which the listener is being told
        ("hand_tail", "i4"),
        ("side_head", "i4"),  # what the rules hold
        ("side_tail", "i4"),
        ("barriers", "i4"),  # those that wait for their twins on other channels
        ("barriers_tail", "i4"),
        ("back_head", "i4"),  # what has come behind them
        ("back_tail", "i4"),
        # `passages`: barriers that overtake here
        ("passage", "u1"),  # BEGUN or RECORDING, or 0: there are none
        ("hurried", "u1"),  # the listener is told of the first one when the service in progress has ended
        ("cuts", "i4"),  # those that have come
        ("left", "i8"),  # how many are to come
        ("passing", "i8"),  # their token
        ("overtaken", "i8"),  # bytes of in-flight data that were not sent to the store yet
    ]
)

CORES = np.dtype([("free", "i4"), ("first", "i4"), ("last", "i4")], align=True)

HOST = np.dtype(
    [
        ("life", "i8"),
        ("tickets", "i8"),
        ("link_free", "i8"),
        ("rate", "f8"),  # bytes per second, 0: no bound
        ("speed", "f8"),
        ("cores", "i4"),  # the shared ones, or NONE
        ("core_count", "i4"),
        ("alive", "u1"),
        ("trusted", "u1"),  # in use, and not suspected by control
        ("shared", "u1"),
        # where the pace changes, as in `sharing`
        ("paced", "u1"),
        ("even", "u1"),  # the cores are shared by all services
        ("warm", "u1"),  # `done_before` is known
        ("pace", "i8"),  # parts per million
        ("in_service", "i8"),
        ("done", "i8"),
        ("done_part", "i8"),  # and parts of a nanosecond
        ("done_before", "i8"),  # `done` at the end of the warm-up
        ("before_part", "i8"),
        ("changed", "i8"),  # when `done` was brought up to date
        ("next_time", "i8"),  # of the next end
        ("next_task", "i8"),
        ("root", "i8"),
        ("wakes", "i8"),  # events that are set, earliest last
        ("wake_time", "i8", (WAKES,)),
        ("wake_task", "i8", (WAKES,)),
        ("fair", "u1"),  # its link is shared evenly
        ("store", "u1"),  # it is no host, but the remote store, which is written by all with equal shares
        ("link_done", "i8"),  # work of each channel with something to send, since time 0 [ns of the whole link]
        ("link_changed", "i8"),  # when a channel began or a message left last
        ("due", "i8"),  # when the next message leaves, if no channel begins before
        ("alarm", "i8"),  # the earliest event that is set for that, or NONE
        ("active", "i8"),  # channels with something to send
        ("first_lane", "i4"),
        ("last_lane", "i4"),
        # what checkpoints cost the tuples on the link, as in `fair_links`
        ("free_alone", "i8"),  # when the link would be free if it had carried no checkpoint
        ("uploads", "i8"),  # checkpoints on the link, where it is shared evenly
        ("upload_left", "i8"),  # when the last of them left it
        ("carried", "i8"),  # tuples that left it
        ("delayed", "i8"),
        ("delay", "i8"),  # total
        ("delay_most", "i8"),
    ],
    align=True,
)


PARTITION = in_lines(
    [
        # what every tuple needs, in one line
        ("task", "i4"),
        ("operator", "i4"),
        ("live", "u1"),
        ("is_sink", "u1"),
        ("retired", "u1"),
        ("muted", "u1"),
        ("routed", "u1"),  # outputs for the group may go elsewhere than to this record
        ("saving", "u1"),
        ("again", "u1"),  # a sink may get tuples again that it had before its region was rolled back
        ("index", "i4"),
        ("first_key", "i4"),  # where its keys begin in the table of keys
        ("applied", "i8"),
        ("keys", "i8"),  # or bytes of them, where each input has entries of its own; as `touched`
        ("touched", "i8"),  # keys changed since the last snapshot; with barriers since the last complete one
        ("epoch", "i8"),  # counts snapshots: a key of an older one is not touched
        ("base", "i8"),  # of the applied tuples so many are forgotten: the log begins with the next
        # and the rest; `checkpoints` and `buffers`: snapshots, and what is kept for them
        ("trimmed", "i8"),
        ("at_snapshot", "i8"),
        ("new_kept_bytes", "i8"),
        ("kept_rows", "i8"),
        ("held_n", "i8"),
        ("stored_count", "i8"),
        ("stored_bytes", "i8"),  # state and kept outputs
        # `verbs` and `tasks`: recovery, and what is held until then
        ("replay_pending", "i8"),
        ("replayed_at", "i8"),
        ("incarnation", "i8"),
        ("replay_task", "i4"),
        ("held_head", "i4"),
        ("held_tail", "i4"),
        ("planned", "i4"),  # checkpoint host; Python writes it
        ("stored_checkpoint_host", "i4"),
        # `buffers` and `hash_tables`: the log, and the first of the pairs in which it sends and receives
        ("log_first", "i4"),
        ("log_last", "i4"),
        ("out_pair", "i4"),
        ("in_pair", "i4"),
        ("stored", "u1"),
        ("is_source", "u1"),
        # `event_time`, `windows`, `restoring`, `emitting` and `open_keys`
        ("newest", "i8"),  # event time
        ("newest_stored", "i8"),  # the same of the stored checkpoint
        ("ticks", "i8"),  # instants of the timer whose outputs were made
        ("ticks_due", "i8"),  # instants that have come
        ("ticks_stored", "i8"),
        ("follows", "u1"),  # its task, whose event time is that of the partition (`heard`); else, or in checkpoints:
        ("event", "i8"),  # event time: the least of its channels
        ("event_stored", "i8"),
        ("behind", "i8"),  # channels that are no further
        ("first_channel", "i8"),
        ("channels", "i8"),
        ("first_sender", "i8"),  # in the list of groups that send to it, one for each channel
        ("next_here", "i4"),  # partition of the same task
        ("post_dated", "i8"),  # outputs of a later time
        ("losses", "i8"),  # how often they were lost
        ("new_post_dated", "i8"),  # those of them that were made since the last complete checkpoint, at a snapshot
        ("open_tuples", "i8"),  # tuples of keys that such outputs keep open
        ("new_open_tuples", "i8"),  # those of them that have come since then, at a snapshot
        ("overdue_head", "i4"),  # those of them whose time came while it could not emit
        ("overdue_tail", "i4"),
        # `verbs`, `actions` and `instances`: since when marks count
        ("assigned_at", "i8"),  # sendings before it was assigned to its task
        ("live_at", "i8"),  # and live there
        ("freed_at", "i8"),  # the same of when what had been held for it went in front
        ("owned_at", "i8"),  # and the owner of its group
        # `windows` and `restoring`
        ("past_first", "i4"),  # nodes of the tuples in windows that had not ended at the stored checkpoint
        ("past_last", "i4"),
        ("panes", "i4"),
        ("recent_first", "i4"),  # nodes of the tuples that a state with a window may keep
        ("recent_last", "i4"),
        # `instances`
        ("group", "i4"),  # record that stands for all instances of the group
        ("owner", "i4"),  # of the group: the instance that owns it
        ("goal", "i4"),  # next task of the group, where tuples wait for it, or NONE
        ("placed_from", "i8"),  # tuples that were created earlier go to the task where it is
        ("taken", "u1"),  # the state is on its way to the task: it is live nowhere
        ("left", "i4"),  # tasks (`origin`) that it was taken out of, as rules
        ("routes", "i4"),  # targets (`partition`) of outputs of a task (`origin`), as rules
        ("adopted_from", "i4"),  # the partition whose first so many applied tuples it began with, or NONE
        ("adopted_count", "i8"),
        # `checkpoints`
        ("announced", "u1"),  # the listener is told when the next checkpoint is stored
        ("saved", "u1"),  # it has stored a checkpoint of its own
        ("based", "i8"),  # with barriers: epoch of the last complete checkpoint
        ("unmerged", "i8"),  # and bytes of its increments whose files are not merged
        ("stored_incarnation", "i8"),  # in which the stored checkpoint was taken
        # `passages` and `in_flight`: copies of tuples that barriers have overtaken
        ("overtaken_head", "i4"),  # in the checkpoint of the job that is under way
        ("overtaken_tail", "i4"),
        ("in_flight_head", "i4"),  # in the one that is complete
        ("in_flight_n", "i8"),
        ("in_flight_bytes", "i8"),
        # `tasks`, `counting`, `channels` and `loop`: statistics
        ("measured", "u1"),  # tuples are timed that arrive from an instant on; CALM: up to the first that does not wait
        ("measured_from", "i8"),
        ("longest", "i8"),
        ("came", "i8"),  # for its statistic: tuples that came from upstream,
        ("served", "i8"),  # services of tuples that ended,
        ("cpu", "i8"),  # work of these and of writing snapshots,
        ("received", "i8"),  # bytes from other hosts,
        ("sent", "i8"),  # and to them
        # forgetting of ids (`forgetting`)
        ("twice", "i8"),  # duplicates among the forgotten ids, where they are processed
        ("forgotten", "u8"),  # sum of the forgotten ids
        ("lent", "u1"),  # it has handed its state down, when ids were forgotten last
        (
            "stored_from",
            "i4",
        ),  # the partition that has handed its state down: the stored checkpoint is its log, and the
        # pending outputs of its pairs; or NONE
    ]
)

OPERATOR = np.dtype(
    [
        ("code", "u8"),
        ("bytes", "i8"),
        ("threads", "i8"),
        ("state_entry", "f8"),
        ("state_change", "f8"),  # of a fixed state, by each tuple; below zero all of it is in each checkpoint
        ("applied", "i8"),  # tuples
        ("sum", "u8"),  # of their ids: a fingerprint where no log is kept
        ("serialise", "f8"),  # bytes per second, 0: costs nothing
        ("state_model", "i4"),
        ("first_edge", "i4"),
        ("edges", "i4"),
        ("has_service", "u1"),
        ("is_source", "u1"),
        ("is_sink", "u1"),
        ("priority", "i8"),
        ("chained", "u1"),  # its tasks share threads with others
        ("buffer", "i8"),  # places of a task, 0: no bound
        ("timed", "u1"),  # watermarks come to it, or from it
        ("common", "u1"),  # all its partitions hear of the same groups:
        ("first_sender", "i8"),
        ("senders", "i8"),
        ("windowed", "u1"),
        ("reckoned", "u1"),  # no operator upstream has a window
        ("window_code", "u8"),
        ("length", "i8"),
        ("slide", "i8"),
        ("state_length", "i8"),
        ("first_task", "i8"),
        ("tasks", "i8"),
        ("first_partition", "i8"),
        ("partitions", "i8"),
        ("joins", "i8"),  # the first of the two operators whose tuples it brings together, or NONE
        ("timer", "i8"),  # time between two outputs of its timer
        ("timer_code", "u8"),
        ("postpones", "u1"),  # its outputs are post-dated
        ("first_closed", "i8"),  # where its keys begin in `closed_keys`, if they close
        ("poll", "i8"),  # most tuples that a task takes at a time, 0: it does not poll
        ("counts", "i8"),  # where `input_draws` has the selectivity of each input, by operator upstream, or NONE
        ("entries", "i8"),  # where `entry_bytes` has the state of a key of each input, by operator upstream, or NONE
    ],
    align=True,
)

EDGE = np.dtype(
    [
        ("code", "u8"),
        ("takes_code", "u8"),
        ("copy_code", "u8"),
        ("takes", "f8"),
        ("partitions", "i8"),
        ("first_partition", "i8"),
        ("table", "i8"),  # offset of the group of each key
        ("kind", "i4"),
        ("down", "i4"),
        ("first_sender", "i8"),  # where its senders begin among those of the operator downstream, if that has a list
    ],
    align=True,
)

SOURCE = np.dtype(
    [
        ("code", "u8"),
        ("base", "i8"),  # sequence number of the first arrival in the buffer
        ("have", "i8"),  # sequence number after the last in the buffer
        ("offset", "i8"),  # where the buffer begins
        ("room", "i8"),
        ("arrived", "i8"),  # sequence number of the next arrival event
        ("emitted", "i8"),
        ("partition", "i4"),
        ("more", "u1"),  # whether arrivals come after those in the buffer
        ("watermark", "i8"),  # time between two
        ("again_head", "i4"),  # visits of tuples that are to be emitted once more (`emitting`)
        ("again_tail", "i4"),
        ("again_n", "i8"),
        ("unread", "i8"),  # where control reads: when the first comes that is not read, else the greatest number
    ],
    align=True,
)

SOURCE_ARRIVAL = np.dtype([("time", "i8"), ("key", "i8")], align=True)

CHECKPOINT = np.dtype(
    [
        ("operator", "i8"),
        ("partition", "i8"),
        ("owner", "i8"),
        ("checkpoint_host", "i8"),
        ("taken", "i8"),
        ("stored", "i8"),
        ("bytes", "i8"),
        ("full", "i8"),
    ],
    align=True,
)

MESSAGE_ROW = np.dtype([("second", "i8"), ("kind", "i8"), ("count", "i8"), ("bytes", "i8")], align=True)
