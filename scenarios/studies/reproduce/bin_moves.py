"""The migration under test of "Megaphone" (Hoffmann et al., 2019): a quarter of the state moves away and back.

16 workers on 4 machines, one process of 4 on each. The first half of the bins of every second worker goes to the
workers between them, which are on other machines, and then back; the way back is what counts. It begins with uneven
load: 1.5 shares at even workers, 0.5 at odd ones. The way there has no load, since nothing of it is looked at.

Costs: a worker is one thread that serves records and writes and reads states; machines have a link for each direction,
first in, first out. Sources and what routes records take no time. A simulated record stands for several: `resolution`
of the scenario, whose error is in `docs/explanation/claims.md`.

The closed forms are those of `docs/explanation/claims.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from analysis.runs.memory import host_memory
from analysis.runs.reconfigurations import latencies_of_born, reconfigurations
from analysis.runs.summary import clipped
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.units import to_ns
from scenarios.planning.reconfiguration import optimised_steps
from sim.engine import prepare, simulate

WORKERS, MACHINES = 16, 4
_PAIRS = WORKERS // 2
SERVICE_S = 0.5e-6  # of a record
LINK = 1.25e9  # B/s of a machine, in each direction
_STEADY_S = 1.0  # of load before the bins go back
_SOURCES, _KEYS = 4, 1_000_000
_RECORDS = 300_000  # that are simulated in a run; more, where a step would be short beside the service of one
_SLOTS, _SHOWN_BEFORE, _SHOWN_AFTER = 72, 0.2, 1.24  # of figures over time: how many, and parts of the longest duration
_STEP_SHARE = 200  # a step is at least so many times as long
_RECORD_S, _STEP_S = 3e-6, 10e-3  # CPU time of a simulated record, and of a step

Strategy = Literal["all-at-once", "fluid", "optimised"]


@dataclass(frozen=True)
class BinMove:
    """One migration: how much state, by which strategy, beside which load; `bin_bytes` is the state of a bin.

    `gap` is what follows a step: nothing, or draining of the queues. `speed`: at which states are written and read
    [B/s]. `phi_s`: the latency, of all that is said of frontiers too.
    """

    strategy: Strategy
    bin_bytes: float
    bins: int = 4096
    rate_per_s: float = 4e6
    gap: Literal["none", "drain"] = "drain"
    next: Literal["now", "lag"] = "now"
    speed: float = 1e9
    phi_s: float = 0.5e-3
    resolution: int = 0  # 0: by the length of the run and of its steps

    @property
    def label(self) -> str:
        """Return the beginning of the file's name."""
        sizes = f"{self.bins}-{round(self.bin_bytes)}-{round(self.rate_per_s)}"
        coarse = f"-{self.resolution}" if self.resolution else ""
        return f"bins-{self.strategy}-{sizes}-{self.gap}-{self.next}{coarse}"

    @property
    def cost_s(self) -> float:
        """Return about how much CPU time it takes."""
        return 0.3 + _RECORD_S * self.rate_per_s * self._loaded_s / self.stands_for + _STEP_S * self.steps

    # -- closed forms

    @property
    def moved(self) -> int:
        """Return the number of bins that move."""
        return self.bins // 4

    @property
    def pairs(self) -> int:
        """Return the number of disjoint pairs of workers between which they move."""
        return min(_PAIRS, self.moved)

    @property
    def steps(self) -> int:
        """Return the number of steps."""
        return {"all-at-once": 1, "fluid": self.moved, "optimised": self.moved // self.pairs}[self.strategy]

    def utilisation(self, shares: float) -> float:
        """Return the load of a worker with so many shares."""
        return self.rate_per_s / WORKERS * SERVICE_S * shares

    @property
    def step_s(self) -> float:
        """Return the length of a step of one bin from each sender, without the latency: closed form 1."""
        senders = 1 if self.strategy == "fluid" else 2
        return self.bin_bytes * (2 / self.speed + senders / LINK)

    @property
    def whole_s(self) -> float:
        """Return latency and duration of all at once: closed form 2."""
        return self.moved / self.pairs * self.bin_bytes * (2 / self.speed + 2 / LINK) + 2 * self.phi_s

    @property
    def duration_s(self) -> float:
        """Return the duration: closed forms 2 and 3, with the load of the busiest worker on average."""
        if self.strategy == "all-at-once":
            return self.whole_s
        return self.steps * (self.step_s + 2 * self.phi_s) / (1 - self.utilisation(1.25))

    @property
    def longest_s(self) -> float:
        """Return the longest latency: closed forms 2 and 4; steps drain, or follow each other by `lag`."""
        if self.strategy == "all-at-once":
            return self.whole_s
        drained = self.step_s + 2 * self.phi_s
        return drained if self.gap != "none" else drained / (1 - self.utilisation(1.5)) + self.step_s

    @property
    def extra_bytes(self) -> float:
        """Return the bytes beside its states that a machine with two senders and two receivers holds: closed form 6."""
        assert self.strategy != "fluid"
        return 4 * 2 * self.bin_bytes * self.moved / self.pairs / self.steps

    # -- the run

    @property
    def _loaded_s(self) -> float:
        """Return the time with load: before, during, and until queues are empty."""
        busy = min(self.utilisation(1.5), 0.9)
        messages_s = 8 * self.phi_s * self.steps  # of all that is said in a step, which no form has
        return self._steady_s + 1.2 * self.duration_s + messages_s + 1.5 * self.longest_s * busy / (1 - busy) + 0.5

    @property
    def stands_for(self) -> int:
        """Return the number of records that one simulated record stands for."""
        if self.resolution:
            return self.resolution
        wanted = math.ceil(self.rate_per_s * self._loaded_s / _RECORDS)
        coarsest = (self.step_s + 2 * self.phi_s) / (_STEP_SHARE * SERVICE_S)
        return max(1, min(wanted, int(coarsest)))

    @property
    def begin_s(self) -> float:
        """Return the instant at which load begins: all bins are there."""
        return 0.2 + 1.05 * self.whole_s

    @property
    def back_s(self) -> float:
        """Return the instant at which the bins are asked to go back."""
        return self.begin_s + self._steady_s

    @property
    def _steady_s(self) -> float:
        """Return the time with load before the bins go back."""
        return _STEADY_S

    @property
    def slots_s(self) -> np.ndarray:
        """Return the edges of slots of time (n + 1,), from the begin of the way back on: the same of all strategies."""
        longest = max(replace(self, strategy=one).duration_s for one in ("all-at-once", "optimised"))
        return np.linspace(-min(_SHOWN_BEFORE * longest, self._steady_s), _SHOWN_AFTER * longest, _SLOTS + 1)

    def scenario(self) -> Scenario:
        """Return the scenario."""
        disk = f"{self.speed!r} B/s"
        back: dict[str, Any] = {"strategy": self.strategy, "plan": "back", "next": self.next}
        back |= {"gap": "drain"} if self.gap == "drain" else {}
        return scenario_from(
            {
                "seed": 1,
                "duration": f"{self.begin_s + self._loaded_s!r} s",
                "resolution": self.stands_for,
                "workload": {"records": self._load()},
                "operators": {
                    "records": {"kind": "source", "parallelism": _SOURCES},
                    "bins": {
                        "kind": "aggregate",
                        "inputs": {"records": "key"},
                        "parallelism": WORKERS,
                        "key_groups": self.bins,
                        "service": {"distribution": "deterministic", "value": f"{SERVICE_S!r} s"},
                        "state": {"model": "fixed", "bytes": f"{self.bin_bytes!r} B"},
                        "serialise": disk,
                        "deserialise": disk,
                    },
                    "out": {"kind": "sink", "inputs": {"bins": "shuffle"}},
                },
                "hosts": {"load": {}, "machine": {"count": MACHINES, "network": f"{LINK!r} B/s"}},
                "network": {"latency": f"{self.phi_s!r} s", "sharing": "fifo"},
                "placement": {
                    "operators": dict.fromkeys(("records", "out"), "load"),
                    "tasks": {f"bins-{k}": f"machine-{k * MACHINES // WORKERS}" for k in range(WORKERS)},
                },
                "fault_tolerance": {"method": "none"},
                "recording": {"detail": "tuples", "memory": True},
                "limits": {"memory": "8 GB"},
                "events": {
                    "there": {"at": "0.1 s", "kind": "reconfigure", "operator": "bins", "strategy": "all-at-once"},
                    "back": {"at": f"{self.back_s!r} s", "kind": "reconfigure", "operator": "bins", **back},
                },
            }
        )

    def _load(self) -> dict[str, Any]:
        """Return the workload of the source: evenly spaced from the begin on."""
        steps = [{"at": "0 s", "rate": "0 /s"}, {"at": f"{self.begin_s!r} s", "rate": f"{self.rate_per_s!r} /s"}]
        keys = {"distribution": "uniform", "count": _KEYS}
        return {"rate": {"steps": steps}, "arrivals": "deterministic", "keys": keys, "tuple": "8 B"}

    def run(self) -> dict[str, Any]:
        """Return what the way back took, the longest latency before it, and how many records waited [s, B]."""
        found = simulate(*self._prepared())
        back = reconfigurations([found])[1]
        assert back.begun_s is not None
        before = latencies_of_born(found, to_ns(self.begin_s + self._steady_s / 4), to_ns(self.back_s)) / 1e9
        during = latencies_of_born(found, to_ns(back.begun_s), found.duration_ns) / 1e9
        slots_ns = to_ns(back.begun_s) + (1e9 * self.slots_s).astype(np.int64)
        # A record of an idle job takes this long: the closed forms are about what comes on top.
        least_s = float(before.min())
        return {
            "duration_s": back.duration_s,
            "least_s": least_s,
            "longest_s": float(during.max()) - least_s,
            "extra_bytes": back.extra_bytes,
            "resolution": found.resolution,
            "queue": waiting(found, back.begun_s, back.begun_s + (back.duration_s or 0.0)),
            "steps": back.steps,
            "before_s": float(before.max()) - least_s,
            "latency_s": _longest(found, slots_ns),
            "moved_bytes": back.bytes,
            "held_bytes": _most_held(found, slots_ns),
            "growth": float(before[-before.size // 5 :].mean() / before[: before.size // 5].mean()),
        }

    def prepare(self, on_compile: Callable[[float], None]) -> None:
        """Compile for this machine what runs need; `on_compile` gets the share that is done."""
        prepare(*self._prepared(), on_compile)

    def _prepared(self) -> tuple[Scenario, RunInputs]:
        made = self.scenario()
        return made, RunInputs(steps=optimised_steps(made, {}))


def waiting(found: RunRecords, begin_s: float, end_s: float) -> float | None:
    """Return how many records waited at all workers on average between two instants; None where there is no time."""
    if end_s <= begin_s:
        return None
    rows, low, high = found.tables["visits"], to_ns(begin_s), to_ns(end_s)
    own = rows["operator"] == found.operators.index("bins")
    return clipped(rows["arrival_ns"][own], rows["start_ns"][own], low, high) * found.resolution / (high - low)


def _longest(found: RunRecords, slots_ns: np.ndarray) -> list[float | None]:
    """Return the longest latency [s] of what was born in each slot of time; None where nothing was."""
    table = found.tables["deliveries"]
    return longest_of_slots(table["created_ns"], (table["delivered_ns"] - table["created_ns"]) / 1e9, slots_ns)


def longest_of_slots(born_ns: np.ndarray, latency_s: np.ndarray, slots_ns: np.ndarray) -> list[float | None]:
    """Return the longest latency [s] of what was born in each slot of time, by its edges; None where nothing was."""
    slot = np.searchsorted(slots_ns, born_ns, "right") - 1
    own = (slot >= 0) & (slot < slots_ns.size - 1)
    most = np.zeros(slots_ns.size - 1)
    np.maximum.at(most, slot[own], latency_s[own])
    return [one or None for one in most.tolist()]


def _most_held(found: RunRecords, slots_ns: np.ndarray) -> list[float]:
    """Return the most that the tasks of a machine held in each slot of time [B]."""
    held = host_memory(found)
    most = held.values.max(axis=0)
    first = np.maximum(np.searchsorted(held.at_ns, slots_ns[:-1], "right") - 1, 0)
    last = np.searchsorted(held.at_ns, slots_ns[1:], "left")
    return [float(most[a : max(b, a + 1)].max()) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
