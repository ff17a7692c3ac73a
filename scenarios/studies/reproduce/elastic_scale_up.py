"""Scale-ups: recoveries right after one (second column of table 9, figure 14 of the SPATE paper); delays (figure 12).

The counter of words goes from one task to two when the rate doubles, half an interval before a checkpoint is due, and
fails within half a second of that instant. The paper gives neither interval nor rates: at 20 s, 1,000 and then 2,000
events/s one mechanism carries all its numbers. What each method has lost then:

- SPATE takes a checkpoint with the scale-up (`fault_tolerance.adjustment.checkpoint = "new"`), so that half an interval
  at the doubled rate is replayed, by two tasks.
- R+SM goes back to the checkpoint before the scale-up, from which the new tasks had their state.
- SC goes back to that checkpoint and to the one task that it was of, and scales again, for which it pays the restart
  once more. So it is simulated as a job that still has one task.

The recovery lasts until the point of failure, as in the first column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Any, Literal

import numpy as np

from models.records.tables import NEVER
from models.scenario.reading import scenario_with
from models.scenario.scenario import Scenario
from scenarios.files.scenario import read_scenario, resolve
from scenarios.studies.reproduce.claims import Finding
from scenarios.studies.reproduce.elastic_runs import JITTER_S, RESTART_S, ROLLBACK_S
from sim.engine import simulate

ScaledMethod = Literal["SPATE", "R+SM", "SC"]
METHODS: tuple[ScaledMethod, ...] = ("SC", "R+SM", "SPATE")  # from the slowest on
T_S = 20.0
INTERVALS_S = (10.0, 15.0, 20.0)  # of figure 14; at 25 and 30 s a task that replays falls behind for minutes
_GROUPS, _STATE_BYTES = 32, 1_000_000
_AROUND_S = 5.0
PRINTED: Mapping[ScaledMethod, tuple[str, float]] = {
    "SC": ("scaled-sc", 13.878),
    "R+SM": ("scaled-rsm", 6.939),
    "SPATE": ("scaled-spate", 4.957),
}
_ROLLED_BACK = "the splitter, which is slower than the counter, is rolled back as well and processes all once more"

_TWICE = "SC is simulated as one task that pays the restart twice, which sets it apart from the others"


@dataclass(frozen=True)
class Rescaled:
    """The sentiment job, whose operator is scaled up and down by the reports of its CPU, without a failure."""

    checkpoint: Literal["new", "last"]
    cost_s: float = 5.0

    @property
    def label(self) -> str:
        """The beginning of the file's name."""
        return f"sentiment-{self.checkpoint}"

    def scenario(self) -> Scenario:
        """Return the scenario of the library, which splits this checkpoint."""
        changes = {"fault_tolerance.adjustment": {"checkpoint": self.checkpoint}, "recording.detail": "tuples"}
        return scenario_with(read_scenario(resolve("elastic-sentiment")).scenario, changes)

    def run(self) -> Any:
        """Return when the operator was scaled, to how many tasks, and the largest delay after each time and else [s].

        The delay of a tuple that was created in the second before, or up to five seconds after, belongs to a scaling.
        """
        tables = simulate(self.scenario()).tables
        scaled, deliveries = tables["rescales"], tables["deliveries"]
        at_s = [at / 1e9 for at in scaled["at_ns"].tolist()]
        created_s = deliveries["created_ns"] / 1e9
        later_s = (deliveries["delivered_ns"] - deliveries["created_ns"]) / 1e9
        near = [(created_s >= at - 1) & (created_s < at + _AROUND_S) for at in at_s]
        rest = ~np.logical_or.reduce(near) & (created_s > _AROUND_S) if near else created_s > _AROUND_S
        return {
            "at_s": at_s,
            "tasks": scaled["after"].tolist(),
            "delays_s": [float(later_s[one].max()) for one in near],
            "else_s": float(later_s[rest].max()),
        }


@dataclass(frozen=True)
class Scaled:
    """One failure of the counter after it was scaled up."""

    method: ScaledMethod
    seed: int
    interval_s: float = T_S

    @property
    def label(self) -> str:
        """The beginning of the file's name."""
        return f"scaled-{self.method.lower()}-{self.interval_s:.0f}-{self.seed}"

    @property
    def cost_s(self) -> float:
        """About how much CPU time it takes."""
        return 0.05 * self.interval_s

    @property
    def scaled_s(self) -> float:
        """When the rate doubles: half an interval before a checkpoint, and after the first ones."""
        return 2.5 * self.interval_s

    @property
    def crash_s(self) -> float:
        """When the host dies: anywhere in the slice around the end of the interval."""
        return 3 * self.interval_s + float(np.random.default_rng(self.seed).uniform(-0.5, 0.5))

    def scenario(self) -> Scenario:
        """Return `elastic-word-count`, changed to what is asked for; one host with a free slot stands by."""
        tolerance: dict[str, object] = {"store": "remote", "snapshots": {"mode": "asynchronous", "pause": "0.8 ms"}}
        interval, half = f"{self.interval_s} s", f"{self.interval_s / 2} s"
        restart_s, protocol = RESTART_S, "direct"
        if self.method == "SPATE":
            tolerance |= {"method": "elastic-upstream-backup", "interval": half, "trimming": {"every": half}}
            tolerance |= {"adjustment": {"checkpoint": "new"}}
            protocol = "oap"
        elif self.method == "R+SM":
            tolerance |= {"method": "state-management", "interval": interval}
        else:
            tolerance |= {"method": "synchronous-checkpoints", "interval": interval}
            restart_s += RESTART_S + ROLLBACK_S
        events: dict[str, object] = {
            "crash": {"at": f"{self.crash_s:.6f} s", "kind": "host-failure", "host": "server-2"}
        }
        if self.method != "SC":
            up = {"at": f"{self.scaled_s} s", "kind": "rescale", "operator": "count", "parallelism": 2}
            events["up"] = up | {"protocol": protocol}
        steps = [{"at": "0 s", "rate": "1000 /s"}, {"at": f"{self.scaled_s} s", "rate": "2000 /s"}]
        changes: dict[str, object] = {
            "seed": self.seed,
            "workload.sentences.rate": {"steps": steps},
            "operators.count.key_groups": _GROUPS,
            "operators.count.state": {"model": "fixed", "bytes": f"{_STATE_BYTES // _GROUPS} B"},
            # Key groups are written side by side: as before, a checkpoint can be used a second after it was taken.
            "operators.count.serialise": f"{_STATE_BYTES / _GROUPS} B/s",
            "hosts.server.count": 5 if self.method == "SC" else 6,
            "hosts.server.slots": 1,
            "duration": f"{self.crash_s + 2.5 * self.interval_s:.3f} s",
            "fault_tolerance": tolerance,
            "recovery.restart": {"distribution": "lognormal", "mean": f"{restart_s} s", "cv": JITTER_S / restart_s},
            "events": events,
            "recording.detail": "tuples",
        }
        return scenario_with(read_scenario(resolve("elastic-word-count")).scenario, changes)

    def run(self) -> Any:
        """Return the time until the point of failure [s]; detection takes none here.

        With two tasks, one of which lives, that is when all is processed that was replayed to the other. Where the
        whole job is rolled back, what its operators send anew is no replay: then it is when the first tuple is
        answered that came after the failure.
        """
        tables = simulate(self.scenario()).tables
        (failed,) = tables["failures"]["failed_ns"].tolist()
        if self.method == "SC":
            deliveries = tables["deliveries"]
            after = deliveries["delivered_ns"][deliveries["created_ns"] >= failed]
            return {"recovery_s": (int(after.min()) - failed) / 1e9 if after.size else None}
        replayed = tables["recoveries"]["replayed_ns"]
        over = replayed.size and not (replayed == NEVER).any()
        return {"recovery_s": (int(replayed.max()) - failed) / 1e9 if over else None}


RESCALED = (Rescaled("new"), Rescaled("last"))


def scaled_pieces(seeds: int, few: int) -> list[Scaled]:
    """Return the runs: of each method all seeds at one interval, and few at those of figure 14."""
    made = [Scaled(method, seed) for method in METHODS for seed in range(seeds)]
    return made + [Scaled(method, seed, at) for method in METHODS for at in INTERVALS_S for seed in range(few)]


def spikes(new: Mapping[str, Any], last: Mapping[str, Any] | None = None) -> Finding:
    """Return the claim on figure 12: two short spikes of the delay, one when the job is scaled up, one down.

    `last`: what becomes of it where the last checkpoint is split.
    """
    shown = " and ".join(
        f"{delay_s:.2f} s at {at_s:.0f} s (to {tasks:.0f} tasks)"
        for delay_s, at_s, tasks in zip(new["delays_s"], new["at_s"], new["tasks"], strict=True)
    )
    two = len(new["delays_s"]) == 2 and new["tasks"][0] > new["tasks"][1]
    short = all(new["else_s"] < delay_s < 1 for delay_s in new["delays_s"])
    printed = f"; with the last checkpoint, as printed, {max(last['delays_s']):.1f} s" if last else ""
    return Finding(f"{shown}, else {new['else_s']:.2f} s at most{printed}", two and short)


def findings_after_scale_up(found: Mapping[Scaled, float]) -> dict[str, Finding]:
    """Return the claims on the second column of table 9, from the times of recovery [s]."""
    own = {method: _mean(found, method, T_S) for method in METHODS}
    made = {}
    for method, (claim, printed) in PRINTED.items():
        near = abs(own[method] / printed - 1) <= 0.1
        cause = "" if near else _ROLLED_BACK if method == "SC" else "the fit does not carry it"
        change = 100 * (own[method] / printed - 1)
        note = f"; {_TWICE}" if method == "SC" else ""
        made[claim] = Finding(f"{own[method]:.3f} s ({change:+.1f} %){note}", near, cause, own[method])
    slow, fast = own["SC"] / own["R+SM"], own["SPATE"] / own["R+SM"]
    near = abs(slow - 2) <= 0.15 and abs(fast - 0.71) <= 0.06
    made["scaled-ratios"] = Finding(f"{slow:.3f} and {fast:.3f}; {_TWICE}", near, "" if near else _ROLLED_BACK)
    saved = 1 - own["SPATE"] / own["SC"]
    printed_saved = {method: 1 - PRINTED["SPATE"][1] / PRINTED[method][1] for method in ("SC", "R+SM")}
    made["saving-50"] = Finding(
        f"{100 * saved:.0f} % against SC, {100 * (1 - fast):.0f} % against R+SM; 'up to 50 %' of the text contradicts "
        f"table 9, whose numbers give {100 * printed_saved['SC']:.0f} % and {100 * printed_saved['R+SM']:.0f} %; "
        f"{_TWICE}",
        saved > 0.5,
        value=saved,
    )
    return made


def _mean(found: Mapping[Scaled, float], method: ScaledMethod, interval_s: float) -> float:
    """Return the mean over all seeds that were tried."""
    return mean(time for run, time in found.items() if (run.method, run.interval_s) == (method, interval_s))


def by_interval(found: Mapping[Scaled, float]) -> dict[str, list[float]]:
    """Return the mean times of recovery at the intervals of figure 14 [s]."""
    return {method: [_mean(found, method, at) for at in INTERVALS_S] for method in METHODS}


def are_ordered(lines: Mapping[str, Sequence[float]]) -> bool:
    """Return whether recoveries grow with the interval, and SC takes longest, then R+SM, at each."""
    rising = all(one < other for line in lines.values() for one, other in pairwise(line))
    columns = zip(*(lines[method] for method in METHODS), strict=True)
    return rising and all(one > other for column in columns for one, other in pairwise(column))
