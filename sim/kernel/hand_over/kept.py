"""Kept outputs of a scan as nodes and pairs of the event loop."""

from __future__ import annotations

import numpy as np

from sim.kernel.event_loop import hash_tables, pools
from sim.kernel.event_loop.buffers import NODE, NODES
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.hash_tables import PAIR
from sim.kernel.hand_over.lists import chained_by, runs
from sim.kernel.scan.entities import LOG_CHUNK
from sim.kernel.scan.state import ScanState
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.pointer import State, records

LOGGED = np.dtype([("sender", "i8"), ("receiver", "i8"), ("n", "i8"), ("visit", "i8")])


def logged_in(scan: ScanState) -> np.ndarray:
    """Return (sender, receiver, number among those that came, NONE) of all in the logs, by receiver and number."""
    saved = scan.saved
    counts = saved["arrived"] - saved["trimmed"]
    found = np.zeros(int(counts.sum()), LOGGED)
    found["receiver"], found["visit"] = np.repeat(np.arange(counts.size), counts), NONE
    senders = np.empty(found.size, np.int64)
    _read_logs(scan, senders)
    found["sender"], found["n"] = senders, np.repeat(saved["trimmed"], counts) + runs(found["receiver"])
    return found


@kernel
def _read_logs(scan: State, senders: np.ndarray) -> None:
    """Write who has sent what came to each partition and is not forgotten, in the order in which it came."""
    found = 0
    for partition in range(scan.saved.shape[0]):
        u = scan.saved[partition]
        piece, place = u.log_first, u.trimmed - u.log_number * LOG_CHUNK
        for _ in range(u.arrived - u.trimmed):
            while place >= LOG_CHUNK:
                piece = scan.log_next[piece]
                place -= LOG_CHUNK
            senders[found] = scan.log[piece * LOG_CHUNK + place].sender
            found += 1
            place += 1


def with_nodes(loop: State, visits: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Make nodes and pairs of entries that stand by pair, in order of sending; return the unknown of each pair."""
    new = np.ones(entries.size, np.bool_)
    new[1:] = (np.diff(entries["sender"]) != 0) | (np.diff(entries["receiver"]) != 0)
    begins = np.flatnonzero(new)
    counts = np.diff(np.append(begins, entries.size))
    pieces = -(-counts // NODES)
    first = (np.cumsum(pieces) - pieces) * NODES
    inside = np.arange(entries.size) - np.repeat(begins, counts)
    node = np.repeat(first, counts) + inside
    nodes = records(int(pieces.sum()) * NODES, NODE)
    nodes["pos"] = NONE
    loop.piece_next = np.arange(1, int(pieces.sum()) + 1, dtype=np.int32)
    loop.piece_next[np.cumsum(pieces) - 1] = NONE
    known = entries["visit"] != NONE
    for name in ("id", "created", "key"):
        nodes[name][node[known]] = visits[name][entries["visit"][known]]
    nodes["pos"][node[~known]] = entries["n"][~known]
    visits["node"][entries["visit"][known]] = node[known]
    loop.nodes = nodes
    pairs = np.zeros(max(1, 2 * begins.size), PAIR)
    own = pairs[: begins.size]
    own["sender"], own["receiver"] = entries["sender"][begins], entries["receiver"][begins]
    own["end_seq"], own["first"], own["live"], own["last"] = counts, first, first, first + counts - 1
    own["next_out"] = own["next_in"] = NONE
    numbers = np.arange(begins.size)
    for link, head, by in (("next_out", "out_pair", "sender"), ("next_in", "in_pair", "receiver")):
        order = np.lexsort((numbers, own[by]))
        heads, _ = chained_by(own[link], numbers[order], own[by][order])
        loop.partitions[head][own[by][order][heads]] = order[heads]
    index = np.full(pools.power(2 * pairs.size), NONE, np.int32)
    hash_tables.rehash_pairs(pairs, begins.size, index)
    loop.pairs, loop.pair_index = pairs, index
    loop.tables["pairs"] = begins.size
    return np.bincount(np.repeat(numbers, counts)[~known], minlength=begins.size)
