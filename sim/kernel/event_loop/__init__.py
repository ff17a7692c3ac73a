"""The event loop: a compiled data plane that can do all that the specification says.

`state` has the arrays and `task_records` the record of a task; `loop` does one event after another, and `events` says
which is first. `tasks` has queues and services, `channels` links and sending, `rows` what is recorded. What control
does is in `verbs`, what it asks in `answers`. `buffers` is what is kept for replay; queues with a bound
are `outbox` and `backpressure`.
"""
