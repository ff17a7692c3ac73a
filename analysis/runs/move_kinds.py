"""Which moves were assisted: those to a host that held the key group's checkpoint when they were asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from models.records.tables import NEVER, RunRecords

ASSISTED, DIRECT = "assisted", "direct"
_REMOTE = -1

_Held = Mapping[tuple[int, int], list[tuple[int, int]]]


def move_kinds(one: RunRecords) -> list[str]:
    """ASSISTED or DIRECT for each row of `migrations`, whatever the protocol was.

    A checkpoint is at a host from the instant at which it is stored there; after a move that was completed it is where
    the key group came from; it is lost with its host. Every host can have the one in the remote store. It is the state
    just before the request that counts.
    """
    table = one.tables["migrations"]
    rows = zip(*(table[name].tolist() for name in ("operator", "key_group", "target", "requested_ns")), strict=True)
    held = _held(one)
    failures = [*zip(*(one.tables["failures"][name].tolist() for name in ("host", "failed_ns")), strict=True)]
    found = []
    for operator, group, target, at_ns in rows:
        known = held.get((operator, group), [])
        before = bisect_left(known, (at_ns, _REMOTE)) - 1
        since_ns, checkpoint_host = known[before] if before >= 0 else (NEVER, None)
        lost = any(host == checkpoint_host and since_ns < failed_ns < at_ns for host, failed_ns in failures)
        found.append(ASSISTED if checkpoint_host in (target, _REMOTE) and not lost else DIRECT)
    return found


def _held(one: RunRecords) -> _Held:
    """(operator, key group) -> instants [ns], rising, and who holds the checkpoint from then on."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    stored, moved = one.tables["checkpoints"], one.tables["migrations"]
    remote = bool((stored["checkpoint_host"] == _REMOTE).any())
    for names, table in ((("stored_ns", "checkpoint_host"), stored), (("completed_ns", "origin"), moved)):
        if remote and table is moved:
            continue  # the store keeps it
        for operator, group, at_ns, host in zip(
            *(table[name].tolist() for name in ("operator", "key_group", *names)), strict=True
        ):
            if at_ns != NEVER:
                found.setdefault((operator, group), []).append((at_ns, host))
    return {who: sorted(rows) for who, rows in found.items()}
