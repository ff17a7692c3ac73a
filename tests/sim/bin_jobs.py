"""The job of tests of moves in steps: a source and a sink in front of an operator whose key groups (bins) move."""

from __future__ import annotations

from typing import Any


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
