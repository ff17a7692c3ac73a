"""The runs behind the claims of "elastic upstream backup" (SPATE, 2019): what is counted, and what a method takes.

Constants that were fitted to the paper's tables stand here, each with its name: the restart (r) with its jitter, what a
rollback of the whole job adds (s), pauses of checkpoints, what an ack costs, and which share of its input a method
writes to checkpoints. The services c and c_1 stand in `elastic-word-count` of the library. A piece is one run, or two,
and says what it found as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from models import display
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_with
from models.scenario.scenario import Scenario
from scenarios.files.scenario import read_scenario, resolve
from scenarios.studies.reproduce.words import even_series, text_series
from sim.engine import simulate

Method = Literal["AR", "SPATE", "R+SM", "SC", "UB", "SB"]
METHODS: Mapping[Method, str] = {  # of `fault_tolerance.method`
    "AR": "active-replication",
    "SPATE": "elastic-upstream-backup",
    "R+SM": "state-management",
    "SC": "synchronous-checkpoints",
    "UB": "upstream-backup",
    "SB": "source-backup",
}
PERIOD_S = 300  # of which messages are counted: five minutes
MIB = 2**20
ACK, EVENT = 32, 172  # bytes
HOPS = 3  # that carry records
T_S = 5.0  # between two checkpoints; half of it with SPATE, fitted
_CRASH_S = 20.0  # the host dies within half a second of the end of an interval, fitted; not before this one
RESTART_S, ROLLBACK_S, JITTER_S = 1.146, 0.277, 0.08  # r, s, jitter of r, fitted
_WINDOW_S = 30.0
_AFTER_S = 20.0  # of a run, after the failure
_SHARES: Mapping[Method, float] = {
    "SC": 0.45,
    "R+SM": 0.375,
}  # of the input of a task that its checkpoints write, fitted to the traffic
_ACK_S = 0.012  # each end of an ack takes its task so long: 24 ms at both, fitted to UB, SB and table 8
_PAUSE_S = 0.0054  # of SPATE's checkpoint, for each second since the last one: 27 ms at 5 s, fitted to table 9
_PAUSES_S: Mapping[Method, float] = {
    "SC": 0.157,
    "R+SM": 0.136,
}  # of a checkpoint, buffers and acks included: fitted to table 9
_SKEW_RATE, _SKEW_S, _SKEW_GROUPS, _SKEW_T_S = 2000, 45, 16, 10.0  # of words of a text
_LARGE = {  # pauses of a checkpoint, and bytes/s of state in it: fitted, so that 2 GB take 0.2 and 0.05 s
    "synchronous": {"pause": "157 ms", "copy": "46.5 GB/s"},
    "asynchronous": {"pause": "50 ms"},
}


def _line(
    operators: Mapping[str, Mapping[str, Any]],
    *,
    rate: int,
    duration_s: float,
    tolerance: Mapping[str, Any],
    detail: str,
    sharing: str = "fifo",
) -> Scenario:
    """Return operators one behind the other, each task on a host of its own, with evenly spaced arrivals.

    A host dies when all is counted, so that the run is one in which hosts may fail.
    """
    raw = {
        "duration": f"{duration_s} s",
        "workload": {
            "source": {
                "rate": f"{rate} /s",
                "arrivals": "deterministic",
                "tuple": f"{EVENT} B",
                "keys": {"distribution": "uniform", "count": 1000},
            }
        },
        "operators": operators,
        "hosts": {
            name: {"count": operator.get("parallelism", 1), "network": "1 Gbit/s"}
            for name, operator in operators.items()
        },
        "network": {"latency": "0.1 ms", "sharing": sharing},
        "placement": {"operators": {name: name for name in operators}},
        "fault_tolerance": tolerance,
        "events": {"end": {"at": f"{duration_s - 0.1} s", "kind": "host-failure", "host": "source-0"}},
        "recording": {"detail": detail},
    }
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def _constant(time_ms: float) -> dict[str, Any]:
    return {"service": {"distribution": "deterministic", "value": f"{time_ms} ms"}}


@dataclass(frozen=True)
class Traffic:
    """Five minutes of a chain whose tasks pass on all that comes, at an even rate: messages, and outputs that wait."""

    parallelism: int
    rate: int  # of the source [1/s]
    every_s: int = 5
    hops: int = HOPS

    @property
    def label(self) -> str:
        """The beginning of the file's name."""
        return f"acks-{self.hops}-hops-{self.parallelism}-tasks-{self.rate}-every-{self.every_s}"

    @property
    def cost_s(self) -> float:
        """About how much CPU time it takes."""
        return 0.5 + self.rate * PERIOD_S * self.hops * 0.7e-6

    def scenario(self) -> Scenario:
        """Return the scenario."""
        operators: dict[str, Any] = {"source": {"kind": "source", "parallelism": self.parallelism}}
        above = "source"
        for hop in range(1, self.hops + 1):
            name = f"hop{hop}"
            operators[name] = {"inputs": {above: "shuffle"}, "parallelism": self.parallelism}
            operators[name] |= {"kind": "map", **_constant(0.01)} if hop < self.hops else {"kind": "sink"}
            above = name
        tolerance = {
            "method": METHODS["SPATE"],
            "store": "remote",
            "trimming": {"every": f"{self.every_s} s", "ack": f"{ACK} B"},
        }
        return _line(operators, rate=self.rate, duration_s=PERIOD_S + 1, tolerance=tolerance, detail="histograms")

    def run(self) -> Any:
        """Return acks, messages with records, and the most bytes that the source keeps."""
        found = simulate(self.scenario())
        sent, own = found.tables["messages"], found.tables["buffers"]
        until = sent["second_ns"] < PERIOD_S * 10**9
        rounds = sent["second_ns"] <= PERIOD_S * 10**9  # the last one is that at five minutes
        source = own["task"] < self.parallelism
        by_sample = [own["kept_bytes"][source & (own["at_ns"] == at)].sum() for at in np.unique(own["at_ns"])]
        return {
            "acks": int(sent["count"][rounds & (sent["kind"] == "ack")].sum()),
            "records": int(sent["count"][until & np.isin(sent["kind"], ("data", "local"))].sum()),
            "kept": int(max(by_sample)),
        }


@dataclass(frozen=True)
class Shipped:
    """Five minutes of a chain whose last operator emits little: the bytes that a method adds to those of records.

    The three hops of G1 carry records. A written share is one of the input of one task, so that jobs with checkpoints
    have one hop.
    """

    method: Method
    cost_s: float = 2.0

    @property
    def label(self) -> str:
        """The beginning of the file's name."""
        return f"bytes-{self.method.lower()}"

    def scenario(self, method: str) -> Scenario:
        """Return the scenario with a method of recovery."""
        written = _SHARES.get(self.method)
        inner = ("filter", "window", "distinct") if written is None else ("distinct",)
        operators: dict[str, Any] = {"source": {"kind": "source"}}
        above = "source"
        for name in inner:
            operators[name] = {"kind": "map", "inputs": {above: "shuffle"}, **_constant(0.01)}
            above = name
        entry = f"{(written or 0.01) * EVENT} B"
        operators[above] |= {"kind": "aggregate", "window": {"length": "5 s"}, "output": {"tuple": "1 B"}}
        operators[above] |= {"inputs": {inner[-2] if len(inner) > 1 else "source": "key"}}
        operators[above] |= {"state": {"model": "per-tuple", "bytes": entry}, "selectivity": 0.001}
        operators["sum"] = {"kind": "sink", "inputs": {above: "shuffle"}}
        tolerance: dict[str, Any] = {"method": method}
        if written is not None:
            tolerance |= {"store": "remote", "interval": f"{T_S} s"}
        return _line(operators, rate=1000, duration_s=PERIOD_S + 1, tolerance=tolerance, detail="histograms")

    def run(self) -> Any:
        """Return the bytes that are sent with the method, and not without one."""
        each = [self._bytes(name) for name in (METHODS[self.method], "none")]
        return {"bytes": each[0] - each[1]}

    def _bytes(self, method: str) -> int:
        sent = simulate(self.scenario(method)).tables["messages"]
        # A checkpoint at five minutes is the sixtieth.
        until = sent["second_ns"] < PERIOD_S * 10**9
        until |= (sent["second_ns"] == PERIOD_S * 10**9) & (sent["kind"] == "checkpoint")
        return int(sent["bytes"][until].sum())


@dataclass(frozen=True)
class Delayed:
    """The slices in which a method takes checkpoints, or sends acks: by how much a tuple of them is later.

    A line as G1's, once with the method and once without any. Checkpoints and rounds of acks come at the same time, as
    the paper's trimming interval is that of both.
    """

    method: Method
    every_s: int = 5
    parallelism: int = 1

    @property
    def label(self) -> str:
        """The beginning of the file's name."""
        return f"later-{self.method.lower()}-every-{self.every_s}-{self.parallelism}-tasks"

    @property
    def rate(self) -> int:
        """Tuples of the source per second."""
        return max(1000, 200 * self.parallelism)

    @property
    def duration_s(self) -> int:
        """Simulated time: six rounds, or three."""
        return (6 if self.parallelism == 1 else 3) * self.every_s + 2

    @property
    def cost_s(self) -> float:
        """About how much CPU time it takes."""
        return 0.2 + self.rate * self.duration_s * 8e-6

    def scenario(self, tolerance: Mapping[str, Any]) -> Scenario:
        """Return the scenario with this fault tolerance."""
        operators: dict[str, Any] = {"source": {"kind": "source", "parallelism": self.parallelism}}
        shared = {"parallelism": self.parallelism, **_constant(0.1)}
        operators["filter"] = {"kind": "map", "inputs": {"source": "shuffle"}, **shared}
        operators["window"] = {"kind": "map", "inputs": {"filter": "shuffle"}, **shared}
        state = {"state": {"model": "fixed", "bytes": "1 MB"}}
        operators["distinct"] = {"kind": "aggregate", "inputs": {"window": "key"}, **shared, **state}
        operators["sum"] = {"kind": "sink", "inputs": {"distinct": "shuffle"}}
        # Uploads share the links evenly, so that pauses and acks alone delay records.
        return _line(
            operators,
            rate=self.rate,
            duration_s=self.duration_s,
            tolerance=tolerance,
            detail="tuples",
            sharing="fair",
        )

    def tolerance(self) -> dict[str, Any]:
        """Return the fault tolerance that delays."""
        made: dict[str, Any] = {"method": METHODS[self.method]}
        if self.method in (*_PAUSES_S, "SPATE"):
            made |= {"store": "remote", "interval": f"{self.every_s} s"}
        if self.method in _PAUSES_S:
            made["snapshots"] = {"pause": f"{_PAUSES_S[self.method]} s"}
        if self.method == "SPATE":
            made["trimming"] = {"every": f"{self.every_s} s", "step": "1 ms", "work": f"{_ACK_S} s"}
            made["snapshots"] = {"mode": "asynchronous", "pause": f"{_PAUSE_S * self.every_s} s"}
        return made

    def run(self) -> Any:
        """Return the longest delay of a tuple of such a slice, mean of the slices [s]."""
        (created, late), (others, without) = (self._deliveries(how) for how in (self.tolerance(), {"method": "none"}))
        count = min(created.size, others.size)
        assert (created[:count] == others[:count]).all()
        later, seconds = late[:count] - without[:count], created[:count] // 10**9
        ends = range(self.every_s, self.duration_s - 1, self.every_s)
        return {"later_s": float(np.mean([later[seconds == second].max() for second in ends])) / 1e9}

    def _deliveries(self, tolerance: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return when each tuple was created, rising, and when it was delivered."""
        table = simulate(self.scenario(tolerance)).tables["deliveries"]
        order = np.argsort(table["created_ns"], kind="stable")
        return table["created_ns"][order], table["delivered_ns"][order]


@dataclass(frozen=True)
class Recovered:
    """One failure of the counter of words."""

    method: Method
    seed: int
    rate: int = 1000
    interval_s: float = T_S

    @property
    def label(self) -> str:
        """The beginning of the file's name."""
        return f"words-{self.method.lower()}-{self.rate}-{self.interval_s:.0f}-{self.seed}"

    @property
    def cost_s(self) -> float:
        """About how much CPU time it takes."""
        return 0.4 * self.rate / 1000

    @property
    def crash_s(self) -> float:
        """When the host dies: anywhere in the slice around the end of an interval."""
        from_s = _WINDOW_S + T_S if self.method in ("UB", "SB") else _CRASH_S
        end_s = self.interval_s * np.ceil(from_s / self.interval_s)
        return float(end_s + np.random.default_rng(self.seed).uniform(-0.5, 0.5))

    def scenario(self) -> Scenario:
        """Return the scenario of the library, changed to what is asked for."""
        restart_s = RESTART_S + (ROLLBACK_S if self.method == "SC" else 0.0)
        changes: dict[str, object] = {}
        if self.method in ("UB", "SB"):
            changes["operators.count.state"] = {"model": "window", "bytes": "10 B", "length": f"{_WINDOW_S} s"}
        law = {"distribution": "lognormal", "mean": f"{restart_s} s", "cv": JITTER_S / restart_s}
        changes |= {
            "seed": self.seed,
            "workload.sentences.rate": f"{self.rate} /s",
            "duration": f"{self.crash_s + _AFTER_S:.3f} s",
            "fault_tolerance": _tolerance(self.method, self.interval_s),
            "recovery.restart": law,
            "events.crash.at": f"{self.crash_s:.6f} s",
            "recording.detail": "tuples",
        }
        return scenario_with(read_scenario(resolve("elastic-word-count")).scenario, changes)

    def run(self) -> Any:
        """Return the time until the first tuple is answered that came after the failure [s], tuples replayed, and kept.

        All that was replayed up to the point of failure is processed then. Detection takes no time here, as the paper
        leaves it out.
        """
        tables = simulate(self.scenario()).tables
        (failed,) = tables["failures"]["failed_ns"].tolist()
        deliveries = tables["deliveries"]
        after = deliveries["delivered_ns"][deliveries["created_ns"] >= failed]
        return {
            "recovery_s": (int(after.min()) - failed) / 1e9 if after.size else None,
            "replayed": int(tables["recoveries"]["replayed"].sum()),
            "kept": _kept_at_most(tables["samples"], failed),
        }


def _kept_at_most(samples: Mapping[str, np.ndarray], until_ns: int) -> int:
    """Return the most outputs that all tasks keep for a replay at one time before an instant."""
    before = samples["at_ns"] < until_ns
    _, second = np.unique(samples["at_ns"][before], return_inverse=True)
    return int(np.bincount(second, samples["buffered"][before]).max())


def _tolerance(method: Method, interval_s: float) -> dict[str, object]:
    """Return the fault tolerance of a method that takes checkpoints in such intervals."""
    made: dict[str, object] = {"method": METHODS[method]}
    if method == "AR":
        return made
    if method in ("UB", "SB"):
        return made | {"history": {"length": f"{_WINDOW_S} s"}}
    interval = f"{interval_s} s"
    if method == "SPATE":
        interval = f"{interval_s / 2} s"
        made["trimming"] = {"every": interval}
    return made | {"store": "remote", "interval": interval, "snapshots": {"mode": "asynchronous", "pause": "27 ms"}}


@dataclass(frozen=True)
class Skewed:
    """One failure of one of two counters, of words of a text or of keys that are spread evenly.

    What it had is divided between two hosts. Nothing is scaled here: the job has both counters from the start.
    """

    method: Method
    words: bool
    seed: int
    cost_s: float = 0.4

    @property
    def label(self) -> str:
        """The beginning of the file's name."""
        return f"skew-{self.method.lower()}-{'words' if self.words else 'even'}-{self.seed}"

    def scenario(self) -> Scenario:
        """Return the scenario of the library with two counters, and two hosts that stand by."""
        crash_s = 3 * _SKEW_T_S + np.random.default_rng(self.seed).uniform(-0.5, 0.5)
        law = {"distribution": "lognormal", "mean": f"{RESTART_S} s", "cv": JITTER_S / RESTART_S}
        changes: dict[str, object] = {
            "seed": self.seed,
            "duration": f"{_SKEW_S} s",
            "workload.sentences.rate": {"profile": "words", "span": f"{_SKEW_S} s", "mean": f"{_SKEW_RATE} /s"},
            "workload.sentences.keys": {"distribution": "profile"},
            "operators.count.parallelism": 2,
            "operators.count.key_groups": _SKEW_GROUPS,
            "fault_tolerance": _tolerance(self.method, _SKEW_T_S),
            "recovery.restart": law,
            "hosts": {"ends": {"slots": 2}, "splitter": {"slots": 1}, "counter": {"count": 4, "slots": 1}},
            "placement": {"operators": {"sentences": "ends", "split": "splitter", "count": "counter", "out": "ends"}},
            "events.crash.at": f"{crash_s:.6f} s",
            "events.crash.host": "counter-0",
            "recording.detail": "tuples",
        }
        return scenario_with(read_scenario(resolve("elastic-word-count")).scenario, changes)

    def run(self) -> Any:
        """Return the time until all that was sent again is processed [s], and the share of the lost counter."""
        series = (text_series if self.words else even_series)(_SKEW_RATE, _SKEW_S, _SKEW_GROUPS)
        tables = simulate(self.scenario(), RunInputs(rates={"sentences": series})).tables
        (failed,) = tables["failures"]["failed_ns"].tolist()
        lost = tables["recoveries"]["key_group"]
        weights = np.asarray(series.key_weights).sum(axis=1)
        return {
            "recovery_s": (int(tables["recoveries"]["replayed_ns"].max()) - failed) / 1e9,
            "share": float(weights[lost].sum() / weights.sum()),
        }


@dataclass(frozen=True)
class Paused:
    """Ten checkpoints of a large state, over 100,000 events."""

    mode: Literal["synchronous", "asynchronous"]
    gigabytes: float = 2.0
    cost_s: float = 0.5

    @property
    def label(self) -> str:
        """The beginning of the file's name."""
        return f"state-{display.number(self.gigabytes)}-gb-{self.mode}"

    def scenario(self) -> Scenario:
        """Return the scenario of the library with a large state, and without a failure."""
        changes: dict[str, object] = {
            "workload.sentences.rate": "2000 /s",
            "duration": "52 s",
            "operators.count.state": {"model": "fixed", "bytes": f"{self.gigabytes} GB"},
            "operators.count.serialise": None,
            "fault_tolerance": {
                "method": METHODS["SPATE"],
                "store": "remote",
                "remote": "100 GB/s",
                "interval": "5 s",
                "snapshots": _LARGE[self.mode] | {"mode": self.mode},
            },
            "hosts.server.network": None,
            "events": {},
        }
        return scenario_with(read_scenario(resolve("elastic-word-count")).scenario, changes)

    def run(self) -> Any:
        """Return for how long checkpoints have kept the counter from its tuples [s], and how many there were."""
        found = simulate(self.scenario())
        samples, visits = found.tables["samples"], found.tables["visits"]
        counter = found.operators.index("count")
        task = found.task_operator.index(counter)
        at = samples["at_ns"] == 51 * 10**9
        busy = int(samples["busy_ns"][at & (samples["task"] == task)][0])
        served = (visits["operator"] == counter) & (visits["end_ns"] > 0) & (visits["end_ns"] < 51 * 10**9)
        return {
            "paused_s": (busy - int((visits["end_ns"] - visits["start_ns"])[served].sum())) / 1e9,
            "checkpoints": int(found.tables["checkpoints"]["taken_ns"].size),
        }


Piece = Traffic | Shipped | Delayed | Recovered | Skewed | Paused
