"""The scan: a compiled data plane for runs in which every task is a server of its own and no host fails.

It goes operator by operator, a span of the run at a time. `span` does one span of one operator: `order` sorts
arrivals, `links` keeps the tuples that wait from one span to the next, `send` and `straight` hand on the outputs.
`event_time` lets watermarks pass, `windows` has what they end, and `recent` counts states of the last time.
`state` says which module owns which record and array. Functions call the record of a tuple `e`, of a server `t`, of a
queue `q`, of a box or a source `b`, and of what is saved of a partition `u`.
"""
