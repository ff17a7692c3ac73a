"""The compiled data planes: the rules of docs/reference/simulator.md, on arrays of records, in Numba.

`choice` says which of the two a run gets; `tools` serves both (compilation, cache, memory, random numbers). To read
what a tuple does, begin with `sim.plain`. The same things are found here in

| `sim.plain`              | event loop (`event_loop`)                  | scan (`scan`)                          |
|--------------------------|--------------------------------------------|----------------------------------------|
| `plane`                  | `plane`, `loop`, `events`                  | `plane`, `span`                        |
| `task`, with its queue   | `tasks`, `entities`                        | `links`, `entities`                    |
| `host`, `link`           | `sharing`, `fair_links`                    | `links`                                |
| `channels`               | `channels`                                 | `order`, `send`, `straight`            |
| `partition`, `instances` | `instances`, `buffers`, `hash_tables`      | `state`, `kept`                        |
| `outbox`                 | `outbox`, `backpressure`                   | -                                      |
| `checkpoint`             | `checkpoints`, `restoring`                 | `checkpoints`, `saving`                |
| `watermarks`             | `watermarks`, `event_time`, `windows`      | -                                      |
| `views` (rows)           | `rows`                                     | `rows`, `recording`, `histograms`      |
| `audit`                  | `audit`                                    | sums of `tools.audit_sums`             |

A queue is a list that is linked through the records of what waits. In the event loop it runs through `visits` from
`queue_head` to `queue_tail` of a task; in the scan through pieces of a task's arrivals.
"""
