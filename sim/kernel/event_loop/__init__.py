"""The event loop: a compiled data plane that can do all that the specification says.

`state` says which module owns which record and array; `entities` has the records of items, tasks, partitions and hosts,
and `codes` the numbers that stand for kinds. `loop` does one event after another, and `events` says which is first.
`tasks` has queues and services, `channels` links and sending, `rows` what is recorded. What control does is in `verbs`,
what it asks in `answers`. `buffers` is what is kept for replay; queues with a bound are `outbox` and `backpressure`.

A visit is a tuple at a task. `visit`, `task`, `partition`, `host` are numbers. Where a function reads several fields of
a record it calls the record of a visit `e`, of a task `t`, of a partition `u`, of a host `h`, and of an operator `op`.
"""
