"""The experiment cpa-replay, tuple by tuple: one key group moves with more or less to replay.

20 tasks send 8,000 tuples/s to 20 key groups on 20 hosts; one group moves to the host that holds its checkpoint. Closed
forms: docs/explanation/protocols.md; values: "checkpoint-assisted" in docs/explanation/claims.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from sim.engine import prepare, simulate

TUPLE_BYTES, LINK, DISK = 150, 50e6, 30e6
SERVICE_S, LATENCY_S = 1e-4, 1e-3
UPSTREAM, GROUPS = 20, 20
RATE = 148.0  # tuples/s of one key group
STATE_BYTES = RATE * 500 * TUPLE_BYTES  # after 500 s
OUTPUT_BYTES = 1  # of a tuple: outputs that are kept are in the checkpoint, too, and shall hardly count
PER_BYTE_S = 2 / DISK + 1 / LINK  # to write, send and read it
PER_TUPLE_S = TUPLE_BYTES / (UPSTREAM * LINK) + SERVICE_S  # to replay it


def _break_even() -> float:
    """Return how many tuples CPA replays in the time that direct takes.

    Source: the section "When direct is quicker" of `docs/explanation/protocols.md`.
    """
    own = RATE * PER_TUPLE_S  # what direct replays of what comes meanwhile, per time
    state_s = (STATE_BYTES * PER_BYTE_S + 3 * LATENCY_S) * (1 + own) + own * (2 * LATENCY_S + SERVICE_S)
    return state_s / (PER_TUPLE_S - OUTPUT_BYTES * PER_BYTE_S * (1 + own))


BREAK_EVEN = _break_even()


_INPUTS = RunInputs(checkpoint_hosts={("sum", group): f"worker-{(group + 2) % GROUPS}" for group in range(GROUPS)})


@dataclass(frozen=True)
class Moved:
    """The duration of one move, by phase."""

    protocol: str
    replayed: int
    pause_s: float
    completion_s: float


def move(protocol: str, age_s: float, seed: int = 5) -> Moved:
    """Return the move of one key group, `age_s` after its checkpoint was stored."""
    records = simulate(_scenario(protocol, age_s, seed), _INPUTS)
    table = {name: column.tolist() for name, column in records.tables["migrations"].items()}
    # Exactly one move: anything else is an error of the experiment.
    (row,) = ({name: column[k] for name, column in table.items()} for k in range(len(table["protocol"])))
    return Moved(
        row["protocol"],
        row["replayed"],
        (row["resumed_ns"] - row["paused_ns"]) / 1e9,
        (row["completed_ns"] - row["requested_ns"]) / 1e9,
    )


def compile_for(on_compile: Callable[[float], None]) -> None:
    """Compile for this machine what moves need; `on_compile` gets the share that is done."""
    prepare(_scenario("cpa", 1.0, 0), _INPUTS, on_compile)


def _scenario(protocol: str, age_s: float, seed: int) -> Scenario:
    # The age of the checkpoint is what the experiment varies: another one in between would reset it.
    interval_s = age_s + 15.0  # and the move comes before the second checkpoint
    return scenario_from(
        {
            "format": 1,
            "seed": seed,
            "duration": f"{interval_s + 2 * age_s + 8.0:g} s",
            "workload": {
                "in": {
                    "rate": f"{RATE * GROUPS:g} /s",
                    "keys": {"distribution": "uniform", "count": 4000},
                    "tuple": f"{TUPLE_BYTES} B",
                }
            },
            "operators": {
                "in": {"kind": "source", "parallelism": UPSTREAM},
                "sum": _summing(),
                "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
            },
            "hosts": {
                "input": {"count": UPSTREAM, "network": f"{LINK:g} B/s"},
                "worker": {"count": GROUPS, "network": f"{LINK:g} B/s"},
                "end": {},
            },
            "placement": {"operators": {"in": "input", "sum": "worker", "out": "end"}},
            "network": {"latency": f"{LATENCY_S:g} s", "sharing": "fifo"},  # as the closed forms have it
            "fault_tolerance": {"method": "checkpoint", "interval": f"{interval_s:g} s", "staggered": False},
            "recording": {"detail": "histograms"},
            "events": {
                "move": {
                    "kind": "migrate",
                    "at": f"{interval_s + age_s:g} s",
                    "operator": "sum",
                    "key_group": 2,
                    "host": "worker-4",
                    "protocol": protocol,
                }
            },
        }
    )


def _summing() -> dict[str, Any]:
    return {
        "kind": "aggregate",
        "inputs": {"in": "key"},
        "parallelism": GROUPS,
        "key_groups": GROUPS,
        "service": {"distribution": "deterministic", "value": f"{SERVICE_S:g} s"},
        "serialise": f"{DISK:g} B/s",
        "deserialise": f"{DISK:g} B/s",
        "state": {"model": "fixed", "bytes": f"{STATE_BYTES:g} B"},
        "output": {"tuple": f"{OUTPUT_BYTES} B"},
    }


def replay_s(tuples: int) -> float:
    """Return CPA's latency: the largest part over its link, then all of it, one after the other."""
    return LATENCY_S + tuples * PER_TUPLE_S


def direct_s(kept: int, replayed: int) -> float:
    """Return direct's completion, with so many outputs kept when it began and so many tuples replayed at its end."""
    size = STATE_BYTES + kept * OUTPUT_BYTES
    return size * PER_BYTE_S + 4 * LATENCY_S + replay_s(replayed)
