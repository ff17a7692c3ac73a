"""Numbers that stand for kinds: of events, edges, states, messages, items in queues, and why the kernel returns."""

from __future__ import annotations

NONE = -1
NEVER = 2**63 - 2  # after all instants of a run

# Kinds of events, edges, states, messages, visits.
ARRIVE, END, CREATE, REPLAY, ROUND, AT_REMOTE, STORED, TRIM = range(8)
DUE, STALE = 8, 9
CREDIT, GO_ON, DEPART = 10, 11, 12
TICK, MARKED, TIMER, PASSED = 13, 14, 15, 16
DONE, ACK = 17, 18
SLICED, TRIMMING, CONFIRM = 19, 20, 21  # of slices and their acks
WRITTEN = 22
BORN = 23  # a post-dated output
COME, UNPAUSE, ACT = 24, 25, 26  # of actions: no others come after them
BROADCAST, FORWARD, SHUFFLE, GROUPED, KEYED = range(5)
NO_STATE, PER_KEY, PER_TUPLE, FIXED, RECENT, OPEN = range(6)
DATA, LOCAL, REPLAYED, CHECKPOINTED, TRIMMED, SENT, ACKED = range(7)
MESSAGE_KINDS = ("data", "local", "replay", "checkpoint", "trim", "protocol", "ack")
TUPLE, SNAPSHOT, CONTROL, MARK, CHORE, MAIL, BUNDLE, RECEIPT, COPY, POST_DATED, GONE = range(11)
CALM = 2  # in place of 1 in `measured`
REFUSED = 2  # in place of 1 in `arrived`: a duplicate that is being dropped
CRASHED, DUPLICATE, MOVED, KILLED, DISCARDED = range(5)
REASONS = ("crash", "duplicate", "moved", "kill", "parcel")
# Why the kernel returns.
LIMIT, TOLD, ASKED, WORKED, GROW, REFILL = range(6)
