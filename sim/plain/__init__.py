"""The plain engine: one event for each step of each tuple, written to be read. It specifies what the compiled one does.

Start here to learn what happens to a tuple. Rows of the compiled engine (`sim.kernel`) equal those of this one, bit for
bit; `holdfast run --engine plain` takes this one. A tuple's way is short: a source emits it (`Source.emit_one`), it is
sent over a channel (`Channels.emit`, `Outbox.offer`, `Channels.send_tuple`, `Link.send`), arrives at a task
(`Task.arrive`), waits in its queue, is served when a core is free (`Cores.dispatch`, `Task.take`), and at the end of
its service changes the state and makes outputs (`Task._complete`, `Partition.apply`), which take the same way. Read the
modules in this order; none imports one that comes later.

`link`: links between hosts. How long a message holds the link of its host: first in first out, or shared evenly by the
channels.

`open_keys`: what an operator holds by key until the last post-dated output of the key leaves.

`partition`: the nouns. A partition is a key group with its state, the outputs that it keeps for replay, and its
checkpoint. Items travel and wait: tuples (`Visit`), messages, watermarks, work.

`views`: the rows of the run, one for each tuple that a task has processed, and interfaces by which the parts below
reach the plane around them.

`outbox`: what is made and not sent. With bounded queues a task that receives has places, and a task that sends an
outbox whose head waits for one. Where a configuration is late, a task withholds what it is for.

`task`: the heart. A task has a queue, and a lane in front of it for replays and work; cores take what arrived first.
Whether a tuple is held, dropped or a duplicate is decided at its turn.

`host`: hosts, and the processor of a host whose cores are shared evenly or whose pace changes.

`channels`: emitting, sending, arriving, replaying and dropping tuples. Sources emit arrivals that were drawn ahead of
the run; these wait while the task is down, paused, or has unsent outputs. The state that all verbs share is here, too.

`watermarks`: event time. Watermarks follow tuples over channels and through queues; windows end where they pass.

`checkpoint`: the life of a checkpoint: snapshot, writing, transfer, and trimming upstream once it is stored.

`overtaking`: barriers that overtake tuples, and the copies of these that belong to a checkpoint as in-flight data.

`acker`: the trees of tuples that follow from roots, and the verbs by which roots fail and are emitted again.

`trimming`: the other way to trim: slices, and rounds of acks of several levels.

`audit`: the ledger at the end. Was every tuple applied once?

`instances`: verbs of migration protocols: pauses, holds, messages and barriers; a key group at two tasks.

`parcels`: verbs for whole dataflows: single tasks are killed, state and tuples travel outside of tasks.

`plane`: `PlainPlane`, the verbs and questions of `sim.data_plane.DataPlane` by which control acts on all of it.
"""
