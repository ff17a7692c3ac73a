"""The job of tests of moves in steps: a source and a sink in front of an operator whose key groups (bins) move.

And what a step takes: the oracle of plans without symmetry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.planning.reconfiguration import BinMove


def bin_job(
    events: dict[str, Any], *, src: dict[str, Any], op: dict[str, Any], hosts: dict[str, Any], **changes: Any
) -> dict[str, Any]:
    """The job with these events `reconfigure`. `src`: its workload; `op`: keys of the operator; `hosts`: its hosts."""
    return {
        "workload": {"src": src},
        "operators": {
            "src": {"kind": "source"},
            "op": {"kind": "aggregate", "inputs": {"src": "key"}, **op},
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"front": {}, "h": hosts},
        "placement": {"operators": {"src": "front", "op": "h", "out": "front"}},
        "fault_tolerance": {"method": "none"},
        "events": {name: {"kind": "reconfigure", "operator": "op"} | event for name, event in events.items()},
    } | changes


@dataclass(frozen=True)
class StepTimes:
    """What one key group takes [ns]: to be written, sent and read; and the latency."""

    write_ns: int
    send_ns: int
    read_ns: int
    latency_ns: int

    def step_ns(self, moves: Sequence[BinMove], hosts: int, together: bool = True) -> int:
        """How long a step of any moves takes, of tasks that have nothing else to do, each on host `task % hosts`.

        A task writes, and reads, one state after the other, and the link of a host sends so. Key groups of one pair of
        tasks go `together`, or one by one. Within a host a state needs no link. From the time of the step on, of which
        tasks hear a latency later.
        """
        pairs = [(one.source, one.target) for one in moves]
        carries = list(Counter(pairs).items()) if together else [(one, 1) for one in pairs]
        free: Counter[tuple[str, int]] = Counter()  # when who writes, sends or reads can go on

        def done(what: str, number: int, at_ns: int, takes_ns: int) -> int:
            free[what, number] = max(free[what, number], at_ns) + takes_ns
            return free[what, number]

        written = [(done("write", one[0], self.latency_ns, n * self.write_ns), *one, n) for one, n in carries]
        come = []
        for at_ns, source, target, n in sorted(written):  # at one instant by their tasks
            away = source % hosts != target % hosts
            sent_ns = done("send", source % hosts, at_ns, n * self.send_ns) + self.latency_ns if away else at_ns
            come.append((sent_ns, target, n))
        return max(done("read", target, at_ns, n * self.read_ns) for at_ns, target, n in sorted(come))
