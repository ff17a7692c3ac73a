"""Move key groups of NEXMark's queries 3, 5, 7 and 8 in "Megaphone" (Hoffmann et al., 2019), with their own state.

The queries are those of the library, in the sizes of the paper: 250,000 events/s, 4,096 bins on 16 workers, and windows
of an hour and of 12 h in 60 and 547 s. Their state comes by what they do: joins keep persons and auctions until 800 s,
sliding windows the bids of 60 s. A quarter of it moves away at half of the time, and back at its end, which is what
counts. `bin_moves` has the strategies, the costs, and the closed forms, for the state that they have by formula.

Most records have no output of their own, so that the latency is that of an answer: of a record from when it comes to
its worker until it is served, and of a window from its end until its last output is at the sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.runs.reconfigurations import reconfigurations
from models.records.tables import NEVER, RunRecords
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.units import to_ns
from scenarios.studies.reproduce.bin_moves import (
    LINK,
    MACHINES,
    SERVICE_S,
    WORKERS,
    BinMove,
    Strategy,
    longest_of_slots,
    waiting,
)
from sim.engine import simulate

EVENTS_PER_S = 250_000.0
MAP_SPEED, TICK_S = 0.3e9, 1e-3  # hash maps of structs; the input ticks each millisecond
_FREE_S = 1e-9  # service of what routes records
_CONTROL = 4  # messages, one after the other, between two steps that drain


def _source(share: float, name: str) -> dict[str, Any]:
    """Return the workload of a source with that share of the events."""
    rate = f"{share * EVENTS_PER_S!r} /s"
    return {"rate": rate, "arrivals": "deterministic", "keys": {"distribution": "nexmark", "field": name}}


def _filter(source: str, selectivity: float) -> dict[str, Any]:
    service = {"distribution": "deterministic", "value": f"{_FREE_S!r} s"}
    return {"kind": "filter", "inputs": {source: "forward"}, "selectivity": selectivity, "service": service}


@dataclass(frozen=True)
class _Query:
    """One query: what comes, the operator whose bins move, what is before it, and when they move back.

    `share`: records per event into that operator. `bytes`: its state then by formula. `pane_s`: between two ends of
    windows; 0 where none ends. `behind`: whether each worker serves what windows give. `length_s` is that of a window.
    """

    share: float
    bytes: float
    back_s: float
    resolution: int
    workload: Mapping[str, Any]
    bins: Mapping[str, Any]
    before: Mapping[str, Any] = field(default_factory=dict)
    pane_s: float = 0.0
    length_s: float = 0.0
    behind: bool = False


_BIDS = {"bids": _source(0.92, "bid.auction")}
_QUERIES = {
    # Half of the persons, and the last auction of one category of each seller; nobody is forgotten.
    "q3": _Query(
        share=0.022,
        bytes=1.87 * EVENTS_PER_S * 800,
        back_s=800.0,
        resolution=5,
        workload={"persons": _source(0.02, "person.id"), "auctions": _source(0.06, "auction.seller")},
        before={"states": _filter("persons", 0.5), "category": _filter("auctions", 0.2)},
        bins={
            "kind": "join",
            "inputs": {"states": "key", "category": "key"},
            "state": {"model": "per-key", "bytes": {"states": "154 B", "category": "112 B"}},
        },
        length_s=3600.0,
    ),
    # The bids of an hour, which takes 60 s; at the end of a minute each worker looks at all auctions in it.
    "q5": _Query(
        share=0.92,
        bytes=48 * 0.92 * EVENTS_PER_S * 60,
        back_s=70.0,
        resolution=10,
        workload=_BIDS,
        bins={"kind": "aggregate", "inputs": {"bids": "key"}},
        pane_s=1.0,
        length_s=60.0,
        behind=True,
    ),
    # The harness keeps a value of each bin and window, 80 of them after 800 s; bins move as a window ends.
    "q7": _Query(
        share=0.92,
        bytes=4096 * 16.0 * 80,
        back_s=20.0,
        resolution=1,
        workload=_BIDS,
        bins={"kind": "aggregate", "inputs": {"bids": "key"}, "state": {"model": "fixed", "bytes": "1280 B"}},
        pane_s=10.0,
        length_s=10.0,
    ),
    # The harness takes auctions for persons, three for each, of 16 B; nobody is forgotten. 12 h take 547 s.
    "q8": _Query(
        share=0.08,
        bytes=16 * 0.06 * EVENTS_PER_S * 800,
        back_s=800.0,
        resolution=10,
        workload={"persons": _source(0.02, "person.id"), "auctions": _source(0.06, "auction.seller")},
        bins={
            "kind": "join",
            "inputs": {"persons": "key", "auctions": "key"},
            "state": {"model": "per-key", "bytes": {"persons": "48 B", "auctions": "0 B"}},
        },
        length_s=547.0,
    ),
}
REAL = tuple(_QUERIES)
_FLUID = 4  # times as many records in one, beside as many more steps


@dataclass(frozen=True)
class QueryMove(BinMove):
    """The migration of a query; `sooner`: bins move after such a part of the time, and windows are as much shorter.

    `bin_bytes` and `rate_per_s` are those of the query, by formula: `query_move` makes one.
    """

    query: str = ""
    sooner: float = 1.0

    @property
    def label(self) -> str:
        """Return the beginning of the file's name."""
        return f"{self.query}-{self.strategy}-{self.stands_for}-{round(self.back_s)}"

    @property
    def cost_s(self) -> float:
        """Return about how much CPU time it takes."""
        outputs = 4.0 if self.pane_s else 1.0  # of windows
        records = outputs * sum(EVENTS_PER_S * share for share in (self._made.share, 0.06)) * self._end_s
        return 0.3 + 0.6e-6 * records / self.stands_for + 3e-3 * self.steps

    @property
    def _made(self) -> _Query:
        return _QUERIES[self.query]

    @property
    def pane_s(self) -> float:
        """Return the time between two ends of windows; 0 where none ends."""
        return self._made.pane_s

    @property
    def stands_for(self) -> int:
        """Return the number of records that one simulated record stands for."""
        coarser = _FLUID if self.strategy == "fluid" else 1
        return self.resolution or self._made.resolution * coarser

    @property
    def back_s(self) -> float:
        """Return the instant at which the bins are asked to go back."""
        return self._made.back_s * self.sooner

    @property
    def _steady_s(self) -> float:
        """Return the time before they go back in which the latency is looked at, of panes in which some end."""
        return max(5.0 * self.sooner, self.pane_s)

    @property
    def _end_s(self) -> float:
        """Return the end of the run: all have moved, by the form and all that is said between steps."""
        return self.back_s + 1.2 * self.duration_s + 1.2 * _CONTROL * self.phi_s * self.steps + 0.2

    def scenario(self) -> Scenario:
        """Return the scenario."""
        made, disk = self._made, f"{self.speed!r} B/s"
        length = {"length": f"{made.length_s * self.sooner!r} s"}
        slide = {"slide": f"{self.pane_s!r} s"} if made.behind else {}
        panes: dict[str, Any] = {"window": length | slide}
        if made.behind:
            panes["state"] = {"model": "window", "bytes": "48 B", **length}
        if self.pane_s:
            panes["output"] = {"tuple": "1 B"}  # by key and not by bin: all together have the size of one of each bin
        service = {"distribution": "deterministic", "value": f"{SERVICE_S!r} s"}
        behind = {"kind": "map", "inputs": {"bins": "forward"}, "parallelism": WORKERS, "service": service}
        tasks = {f"bins-{k}": f"machine-{k * MACHINES // WORKERS}" for k in range(WORKERS)}
        if made.behind:
            tasks |= {f"highest-{k}": tasks[f"bins-{k}"] for k in range(WORKERS)}
        reconfigure = {"kind": "reconfigure", "operator": "bins"}
        back = {"strategy": self.strategy, "plan": "back", "next": self.next}
        back |= {"gap": "drain"} if self.gap == "drain" else {}
        return scenario_from(
            {
                "seed": 1,
                "duration": f"{self._end_s!r} s",
                "resolution": self.stands_for,
                "workload": {**made.workload},
                "operators": {
                    **{one: {"kind": "source"} for one in made.workload},
                    **made.before,
                    "bins": {
                        **made.bins,
                        **panes,
                        "parallelism": WORKERS,
                        "key_groups": self.bins,
                        "service": service,
                        "serialise": disk,
                        "deserialise": disk,
                    },
                    **({"highest": behind | {"output": {"tuple": "1 B"}}} if made.behind else {}),
                    "out": {"kind": "sink", "inputs": {"highest" if made.behind else "bins": "shuffle"}},
                },
                "hosts": {"load": {}, "machine": {"count": MACHINES, "network": f"{LINK!r} B/s"}},
                "network": {"latency": f"{self.phi_s!r} s", "sharing": "fifo"},
                "placement": {
                    "operators": dict.fromkeys((*made.workload, *made.before, "out"), "load"),
                    "tasks": tasks,
                },
                "fault_tolerance": {"method": "none"},
                "recording": {"detail": "tuples"},
                "limits": {"memory": "8 GB"},
                "events": {
                    "there": {"at": f"{self.back_s / 2 - 1!r} s", "strategy": "all-at-once", **reconfigure},
                    "back": {"at": f"{self.back_s!r} s", **reconfigure, **back},
                },
            }
        )

    def run(self) -> dict[str, Any]:
        """Return what the way back took, the longest latency before it, and how many records waited [s, B]."""
        found = simulate(*self._prepared())
        back = reconfigurations([found])[1]
        assert back.begun_s is not None
        born_ns, latency_s = self._answers(found)
        begun_ns = to_ns(back.begun_s)
        least_s = float(latency_s.min())  # a record of an idle job takes this long
        back_ns = to_ns(self.back_s)  # where a window ends as bins begin to move; the one before is without a move
        before = latency_s[(born_ns >= back_ns - to_ns(self._steady_s)) & (born_ns < back_ns)]
        slots_ns = begun_ns + (1e9 * self.slots_s).astype(np.int64)
        return {
            "duration_s": back.duration_s,
            "least_s": least_s,
            "longest_s": float(latency_s[born_ns >= back_ns].max()) - least_s,
            "extra_bytes": None,
            "resolution": found.resolution,
            "queue": waiting(found, back.begun_s, back.begun_s + (back.duration_s or 0.0)),
            "steps": back.steps,
            "before_s": float(before.max()) - least_s,
            "latency_s": longest_of_slots(born_ns, latency_s, slots_ns),
            "moved_bytes": back.bytes,
        }

    def _answers(self, found: RunRecords) -> tuple[np.ndarray, np.ndarray]:
        """Return when records came and windows ended [ns], and how long each then took until it was answered [s]."""
        visits = found.tables["visits"]
        own = (visits["operator"] == found.operators.index("bins")) & (visits["end_ns"] != NEVER)
        born_ns, ended_ns = visits["arrival_ns"][own], visits["end_ns"][own] + 2 * to_ns(self.phi_s)
        if self.pane_s:
            at_ns, pane_ns = found.tables["deliveries"]["delivered_ns"], to_ns(self.pane_s)
            born_ns = np.concatenate([born_ns, at_ns // pane_ns * pane_ns])
            ended_ns = np.concatenate([ended_ns, at_ns])
        return born_ns, (ended_ns - born_ns) / 1e9


def query_move(name: str, strategy: Strategy, *, resolution: int = 0, sooner: float = 1.0) -> QueryMove:
    """Return the migration of a query with its own state, in which each record may be simulated, or many in one."""
    made = _QUERIES[name]
    return QueryMove(
        strategy,
        sooner * made.bytes / 4096,
        rate_per_s=made.share * EVENTS_PER_S,
        speed=MAP_SPEED,
        phi_s=TICK_S,
        resolution=resolution,
        query=name,
        sooner=sooner,
    )
