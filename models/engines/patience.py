"""How long a watcher waits for the heartbeats of a host before the host counts as dead."""

from __future__ import annotations


def patience_s(heartbeat_s: float, timeout_s: float, failed_calls: int | None, silent: bool) -> float:
    """Return the time from the last heartbeat of a host to when it counts as dead [s].

    That is the time-out, or so many refused calls in a row, whichever is earlier. A silent host refuses none, and
    without `failed_calls`, or with 0, none counts.

    >>> patience_s(10.0, 50.0, 2, silent=False), patience_s(10.0, 50.0, 2, silent=True)
    (20.0, 50.0)
    """
    return timeout_s if silent or not failed_calls else min(timeout_s, failed_calls * heartbeat_s)
