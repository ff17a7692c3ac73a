"""One run on two kernels: what the scan and the event loop hand over to each other between two of their spans.

`to_loop` and `to_scan` translate the state at an instant before which all is done and at which nothing is yet. `plane`
decides when. All of it is Python on whole arrays, as a run hands over a few times, but for `windows`. `event_time` does
watermarks and timers.

While key groups move in steps the scan has the run, and lends tuples to the event loop (`loans`, `lending`,
`returning`, which are compiled: there are thousands of loans); `borrowing` decides when.
"""
