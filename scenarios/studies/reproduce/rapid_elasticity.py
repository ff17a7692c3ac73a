"""The claims of "reliable and rapid elasticity" (Shukla and Simmhan, 2017), each beside what comes out here.

Five dataflows and a chain of fifty tasks are rebalanced by DSM, DCR and CCR, to fewer and to more hosts. DSM has acks
as the paper describes them (`literal`). The times of the engine are those of the library's scenarios: two of them, the
start of a worker and the work for a COMMIT, were fitted to the paper's Grid and Linear; all else is predicted. What
hangs on a choice that the paper does not state (when periodic waves begin, how many roots may be pending) is varied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any, Literal

import numpy as np

from analysis.runs.rebalances import rebalances
from models import display, units
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_with
from models.scenario.scenario import Scenario
from scenarios.files.scenario import read_scenario, resolve
from scenarios.studies.reproduce.claims import Finding, said_of_few
from scenarios.studies.reproduce.tasks import TaskRunner
from sim.engine import prepare, simulate

Protocol = Literal["dsm", "dcr", "ccr"]
MICRO = ("linear", "diamond", "star")
FLOWS = (*MICRO, "grid", "traffic")
CHAIN = "chain-50"
PROTOCOLS: tuple[Protocol, ...] = ("ccr", "dcr", "dsm")  # in the order of their restores
_MORE_HOSTS = {"linear": 5, "diamond": 8, "star": 8, "grid": 21, "traffic": 13}  # with a slot each, to scale out
_SEEDS, _FEW = 24, 8  # of a cell, and of a variant
_QUICK_SEEDS, _QUICK_FEW = 4, 2
_OTHER_SEEDS = 1000  # those of runs to more hosts begin here: hosts play no part, so that equal seeds give equal rows
PHASES_S = (0.5, 8.0, 15.0, 22.0)  # of periodic waves; the request is at a multiple of their interval
PENDING = (None, 290, 255, 240, 200)  # roots of the source that are not done
_PENDING_OF_GRID = 240  # with which the paper's Grid recovers; Storm's default is no limit
_CLASSES_S = (40.0, 62.0, 92.0)  # restores of DSM on Grid, by what happens to the wave that meets the restart
_FROM_S, _UNTIL_S = 30.0, 180.0  # of the steady state: from the warm-up to the request
_FIELDS = (
    "drain_s", "command_s", "first_init_s", "restore_s", "last_init_s", "caught_up_s", "recovered_s",
    "stable_mean_s", "lost", "failed", "replayed",
)  # fmt: skip
Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Rebalanced:
    """One run of a dataflow, which is rebalanced once."""

    flow: str
    protocol: Protocol
    out: bool  # to more hosts, not to fewer
    seed: int
    phase_s: float = PHASES_S[0]
    pending: int | None = None
    exact: bool = False  # roots fail exactly a time-out after they were emitted
    covered: bool = False  # acks of tasks wait for COMMIT

    @property
    def label(self) -> str:
        """The beginning of the file's name."""
        return f"rebalance-{self.flow}-{self.protocol}-{'out' if self.out else 'in'}-{self.seed}"

    @property
    def cost_s(self) -> float:
        """About how much CPU time it takes."""
        base = {"grid": 0.3, "traffic": 0.25, CHAIN: 0.6}.get(self.flow, 0.15)
        return base if self.protocol != "dsm" else base * (3.0 if self.pending is None else 2.0)

    def scenario(self) -> Scenario:
        """Return the scenario of the library, changed to what is asked for."""
        changes: dict[str, object] = {"seed": self.seed, "events.move.protocol": self.protocol}
        if self.out:
            changes |= {"hosts.new.count": _MORE_HOSTS[self.flow], "hosts.new.slots": 1}
        if self.protocol == "dsm":
            acker: dict[str, object] = {"timeout": "30 s", "expiry": "exact" if self.exact else "rotating"}
            acker |= {"acks": "covered" if self.covered else "literal"}
            if self.pending is not None:
                acker["pending"] = self.pending
            changes |= {
                "fault_tolerance": {"method": "acker", "guarantee": "at-least-once", "acker": acker},
                "waves.interval": "30 s",
                "waves.phase": units.show(self.phase_s, "s"),
                "waves.step": {"distribution": "uniform", "low": "0 s", "high": "3 s"},
            }
        made = read_scenario(resolve(f"rebalance-{self.flow}")).scenario
        if self.covered:
            # Acks of a task wait where it has state: all between source and sink get one, as Storm's stateful bolts.
            inner = (name for name, operator in made.operators.items() if operator.kind == "map")
            changes |= {f"operators.{name}.state": {"model": "fixed", "bytes": "100 B"} for name in inner}
        return scenario_with(made, changes)

    def run(self) -> Any:
        """Return the fields of the summary of the rebalance, and the rates before it."""
        made = self.scenario()
        found = simulate(made)
        (one,) = rebalances(made, [found])
        rates = dict(zip(("in_per_s", "out_per_s"), _rates(found), strict=True))
        return {name: getattr(one, name) for name in _FIELDS} | rates


def _rates(found: RunRecords) -> tuple[float, float]:
    """Return how many tuples come from the source and to the sink in a second, before the rebalance."""
    source, sinks = 0, found.tables["deliveries"]["delivered_ns"]
    visits = found.tables["visits"]
    first = found.operators.index(next(name for name in found.operators if name != found.operators[source]))
    came = visits["arrival_ns"][visits["operator"] == first]
    span = _UNTIL_S - _FROM_S
    counted = [((one >= _FROM_S * 1e9) & (one < _UNTIL_S * 1e9)).sum() / span for one in (came, sinks)]
    return float(counted[0]), float(counted[1])


@dataclass(frozen=True)
class Cell:
    """Runs that differ by their seed only."""

    values: tuple[Values, ...]

    def of(self, name: str) -> list[float]:
        """Return the values of a field, of those runs that came so far."""
        return [float(value) for one in self.values if (value := one[name]) is not None]

    def median(self, name: str) -> float:
        """Return the median of a field; NaN where no run came so far."""
        return median(self.of(name) or [float("nan")])

    def text(self, name: str, unit: float = 1.0, form: str = ".1f") -> str:
        """Return median [10th, 90th percentile] of a field, in this unit."""
        values = np.array(self.of(name)) / unit
        if not values.size:
            return "none"
        low, middle, high = (format(float(np.percentile(values, q)), form) for q in (10, 50, 90))
        return f"{middle} [{low}, {high}]"


_Key = tuple[str, Protocol, bool]
Cells = Mapping[_Key, Cell]


@dataclass(frozen=True)
class Results:
    """All runs: the cells of the paper, and what is varied."""

    cells: Cells
    phases: Mapping[tuple[str, float], Cell]  # by dataflow and phase
    pending: Mapping[tuple[int | None, bool], Cell]  # of Grid, by limit and exact expiry
    covered: Cell  # of Linear


def findings(runner: TaskRunner, *, quick: bool) -> Mapping[str, Finding]:
    """Return claim -> verdict."""
    return findings_of(results(runner, quick=quick))


def results(runner: TaskRunner, *, quick: bool) -> Results:
    """Return all runs."""
    seeds, few = (_QUICK_SEEDS, _QUICK_FEW) if quick else (_SEEDS, _FEW)
    keys: list[_Key] = [(flow, protocol, out) for flow in FLOWS for protocol in PROTOCOLS for out in (False, True)]
    keys += [(CHAIN, protocol, False) for protocol in ("dcr", "ccr")]
    asked: dict[object, list[Rebalanced]] = {key: [_run(key, seed) for seed in range(seeds)] for key in keys}
    phases = [(flow, phase_s) for flow in ("linear", "grid") for phase_s in PHASES_S]
    asked |= {
        ("phase", *key): [replace(_run((key[0], "dsm", False), seed), phase_s=key[1]) for seed in range(few)]
        for key in phases
    }
    asked["covered"] = [Rebalanced("linear", "dsm", False, seed, covered=True) for seed in range(few)]
    made = _made(runner, asked)
    cells = {key: made[key] for key in keys}
    slow = _slow_seeds(cells["grid", "dsm", False])[:few] or list(range(few))
    limits = [(limit, exact) for limit in PENDING for exact in (False, True)]
    varied: dict[object, list[Rebalanced]] = {
        key: [Rebalanced("grid", "dsm", False, seed, pending=key[0], exact=key[1]) for seed in slow] for key in limits
    }
    pending = _made(runner, varied)
    return Results(
        cells=cells,
        phases={key: made["phase", *key] for key in phases},
        pending={key: pending[key] for key in limits},
        covered=made["covered"],
    )


def _run(key: _Key, seed: int) -> Rebalanced:
    flow, protocol, out = key
    limit = _PENDING_OF_GRID if (flow, protocol) == ("grid", "dsm") else None
    return Rebalanced(flow, protocol, out, seed + (_OTHER_SEEDS if out else 0), pending=limit)


def _slow_seeds(grid: Cell) -> list[int]:
    """Return the seeds, from 0, with a restore of the slowest class."""
    restores = [one["restore_s"] for one in grid.values]
    return [seed for seed, at in enumerate(restores) if at is not None and _class_of(at) == _CLASSES_S[-1]]


def _made(runner: TaskRunner, asked: Mapping[object, Sequence[Rebalanced]]) -> dict[object, Cell]:
    # Cells have runs in common: each is made once.
    pieces = list(dict.fromkeys(one for runs in asked.values() for one in runs))
    done = dict(zip(pieces, runner.make("rebalancing dataflows", pieces, _compile), strict=True))
    return {key: Cell(tuple(done[one] for one in runs)) for key, runs in asked.items()}


def _compile(on_compile: Callable[[float], None]) -> None:
    prepare(Rebalanced("linear", "dsm", False, 0).scenario(), RunInputs(), on_compile)


def findings_of(found: Results) -> dict[str, Finding]:
    """Return claim -> verdict, from the runs."""
    cells = found.cells
    verdicts = {
        **_definitions(cells),
        **_restores(found),
        **_drains(cells),
        **_ccr(cells),
        **_stable(cells),
        **_replays(found),
        **_in_and_out(cells),
    }
    return said_of_few(verdicts, len(cells["grid", "dsm", False].values), _SEEDS)


# -- what is put in


def _definitions(cells: Cells) -> dict[str, Finding]:
    grid = cells["grid", "ccr", False]
    rates = grid.median("in_per_s"), grid.median("out_per_s")
    command_s = {value for cell in cells.values() for value in cell.of("command_s")}
    store = Rebalanced("grid", "ccr", False, 0).scenario().state_store
    store_ms = 2000 * store.per_tuple_s * 1e3
    longest, shortest = max(command_s), min(command_s)
    return {
        "steady": Finding(
            f"{rates[0]:.2f} in, {rates[1]:.2f} out", abs(rates[0] / 8 - 1) <= 0.02 and abs(rates[1] / 32 - 1) <= 0.02
        ),
        "rebalance": Finding(f"{median(command_s):.2f} s", shortest > 7.26 - 0.005 and longest < 7.26 + 0.005),
        "store": Finding(f"{store_ms:.0f} ms", abs(store_ms - 100) < 1e-9),
    }


# -- restores


def _restores(found: Results) -> dict[str, Finding]:
    cells, grid = found.cells, {name: found.cells["grid", name, False] for name in PROTOCOLS}
    dcr, ccr = grid["dcr"].median("restore_s"), grid["ccr"].median("restore_s")
    shares = Counter(map(_class_of, grid["dsm"].of("restore_s")))
    told = ", ".join(f"{count} about {name} s" if name else f"{count} elsewhere" for name, count in _sorted(shares))
    orders = {
        (flow, out): [cells[flow, name, out].median("restore_s") for name in PROTOCOLS]
        for flow in FLOWS
        for out in (False, True)
    }
    out_of_order = [f"{flow} {'out' if out else 'in'}" for (flow, out), own in orders.items() if sorted(own) != own]
    inits = [cells["grid", name, True] for name in ("dcr", "ccr")]
    near = zip(inits, (31.0, 17.0), strict=True)
    return {
        "restore-dcr-grid": Finding(f"{grid['dcr'].text('restore_s')} s", abs(dcr / 41 - 1) <= 0.1, value=dcr),
        "restore-ccr-grid": Finding(f"{grid['ccr'].text('restore_s')} s", 14 <= ccr <= 21, value=ccr),
        "restore-dsm-grid": Finding(
            f"{told} of {len(grid['dsm'].values)} seeds: by the worker that the wave 30.5 s after the request meets",
            set(shares) <= {*_CLASSES_S},
            "" if set(shares) <= {*_CLASSES_S} else "a wave that is lost in the kill is noticed at other ticks",
        ),
        "restore-order": Finding(
            f"in {len(orders) - len(out_of_order)} of {len(orders)}: CCR {_range(orders, 0)}, "
            f"DCR {_range(orders, 1)}, DSM {_range(orders, 2)} s",
            not out_of_order,
            f"not {', '.join(out_of_order)}" if out_of_order else "",
        ),
        "dsm-jumps": _jumps(found),
        "first-init": Finding(
            ", ".join(
                f"{name} {cell.text('first_init_s')} s" for name, cell in zip(("DCR", "CCR"), inits, strict=True)
            ),
            all(abs(cell.median("first_init_s") - paper) <= 5 for cell, paper in near),
        ),
    }


def _class_of(restore_s: float) -> float:
    """Return the class of a restore of DSM on Grid; 0 for one that is in none."""
    return next((one for one in _CLASSES_S if abs(restore_s / one - 1) <= 0.1), 0.0)


def _sorted(shares: Counter[float]) -> Iterator[tuple[str, int]]:
    return ((f"{one:.0f}" if one else "", shares[one]) for one in sorted(shares, reverse=True))


def _range(orders: Mapping[Any, Sequence[float]], place: int) -> str:
    values = [own[place] for own in orders.values()]
    return f"{min(values):.1f} to {max(values):.1f}"


def _jumps(found: Results) -> Finding:
    """Return the claim that restores of DSM grow in steps of the time-out, by what becomes of the waves.

    The first class is that of a wave which finds a task up and not initialised: it is given up at once. The others are
    those of waves that are lost, and noticed at a tick. Grid's 40 s are the first, and wait for its last worker.
    """
    linear = {phase_s: found.phases["linear", phase_s].median("restore_s") for phase_s in PHASES_S}
    grid = found.cells["grid", "dsm", False].of("restore_s")
    slow = [value for value in grid if _class_of(value) == _CLASSES_S[-1]]
    classes = [linear[PHASES_S[0]], linear[PHASES_S[1]], *([median(slow)] if slow else [])]
    steps = [later - earlier for earlier, later in pairwise(classes)]
    by_phase = ", ".join(f"{display.number(one)} s: {value:.0f} s" for one, value in linear.items())
    text = f"classes of {', '.join(f'{one:.0f}' for one in classes)} s; Linear by phase of the waves: {by_phase}"
    holds = len(steps) > 1 and all(27 <= step <= 33 for step in steps)
    return Finding(text, holds, "" if holds else f"steps of {', '.join(f'{step:.0f}' for step in steps)} s")


# -- drains and captures


def _drains(cells: Cells) -> dict[str, Finding]:
    chain = [cells[CHAIN, name, False].median("drain_s") * 1e3 for name in ("dcr", "ccr")]
    apart = chain[0] - chain[1]
    return {
        "drain-linear": _drain(cells, "linear", False, (420, 910), (150, 510)),
        "drain-grid-in": _drain(cells, "grid", False, (1100, 1900), (350, 600)),
        "drain-grid-out": _drain(cells, "grid", True, (1100, 1900), (350, 600)),
        "drain-chain": Finding(f"{apart:,.0f} ms", 4300 <= apart <= 5200, value=apart),
    }


_IN_TURN = "tuples go to instances at random here, and in turn in Storm, which queues less"


def _drain(cells: Cells, flow: str, out: bool, dcr: tuple[int, int], ccr: tuple[int, int]) -> Finding:
    own = {name: cells[flow, name, out] for name in ("dcr", "ccr")}
    found = {name: cell.median("drain_s") * 1e3 for name, cell in own.items()}
    holds = dcr[0] <= found["dcr"] <= dcr[1] and ccr[0] <= found["ccr"] <= ccr[1] and found["dcr"] > found["ccr"]
    text = ", ".join(f"{name.upper()} {cell.text('drain_s', 1e-3, ',.0f')} ms" for name, cell in own.items())
    return Finding(text, holds, "" if holds else _IN_TURN)


# -- CCR, and what is stable when


def _ccr(cells: Cells) -> dict[str, Finding]:
    own = {(flow, out): cells[flow, "ccr", out] for flow in FLOWS for out in (False, True)}
    first = {key: float(np.percentile(cell.of("restore_s"), 90)) for key, cell in own.items()}
    late = {key: max(cell.of("caught_up_s")) for key, cell in own.items()}
    stable = {key: cell.median("stable_mean_s") for key, cell in own.items()}
    return {
        "ccr-first": _at_most(first, 27, "90th percentiles"),
        "ccr-caught-up": _at_most(late, 50, "the latest"),
        "ccr-stable": _at_most(stable, 150, "medians"),
    }


def _at_most(values: Mapping[tuple[str, bool], float], limit_s: float, what: str) -> Finding:
    (flow, out), most = max(values.items(), key=lambda one: one[1])
    text = f"{what} {min(values.values()):.1f} to {most:.1f} s ({flow}, {'out' if out else 'in'})"
    over = [f"{name} {'out' if to else 'in'}" for (name, to), value in values.items() if not value < limit_s]
    return Finding(text, not over, f"not {', '.join(over)}" if over else "", value=most)


def _stable(cells: Cells) -> dict[str, Finding]:
    dcr, dsm = (cells["grid", name, False] for name in ("dcr", "dsm"))
    restores, at = dsm.of("restore_s"), dsm.median("stable_mean_s")
    near = abs(dcr.median("stable_mean_s") / 140 - 1) <= 0.1
    stable = {(flow, name): cells[flow, name, False].median("stable_mean_s") for flow in MICRO for name in PROTOCOLS}
    later = {key: stable[key[0], "dsm"] - stable[key] for key in stable if key[1] != "dsm"}
    within = all(20 <= one <= 60 for one in later.values())
    settled = len(dsm.of("stable_mean_s"))
    return {
        "dcr-stable": Finding(f"{dcr.text('stable_mean_s', form='.0f')} s", near, "" if near else _IN_TURN),
        "dsm-stable": Finding(
            f"{dsm.text('stable_mean_s', form='.0f')} s in {settled} of {len(dsm.values)} seeds, "
            f"restores of {min(restores):.0f} to {max(restores):.0f} s",
            abs(at / 300 - 1) <= 0.1,
            "work is conserved: 91 s without output at 8 /s, worked off at 10 /s, are not over before 5 x 91 = 455 s",
        ),
        "dsm-later": Finding(
            f"by {min(later.values()):.0f} to {max(later.values()):.0f} s",
            within,
            "" if within else "not all 20 to 60 s",
        ),
    }


# -- replays


def _replays(found: Results) -> dict[str, Finding]:
    cells = found.cells
    calm = [cell for (_, name, _), cell in cells.items() if name != "dsm"]
    lost = sum(sum(cell.of("lost")) for cell in calm)
    diamond, grid = cells["diamond", "dsm", True], cells["grid", "dsm", False]
    few = diamond.median("replayed")
    slow = len(_slow_seeds(grid))
    many = min(found.pending[None, False].of("replayed"))
    total = [cells[flow, "dsm", False].median("recovered_s") for flow in ("linear", "grid")]
    return {
        "no-replay": Finding(f"{lost:.0f} lost in {sum(len(cell.values) for cell in calm)} runs", lost == 0),
        "replay-diamond": Finding(f"{diamond.text('replayed', form='.0f')}", abs(few / 112 - 1) <= 0.2, value=few),
        "replay-grid": Finding(
            f"without a limit of pending roots, as in Storm, at least {many:,.0f} in the {slow} seeds with a restore "
            f"of 92 s; {_by_limit(found)}",
            slow > 0 and many > 5 * few,
            "" if slow and many > 5 * few else "no seed with a restore of 92 s" if not slow else "few replays",
        ),
        "dsm-total": Finding(
            f"{total[0]:.0f} and {total[1]:.0f} s; acks that wait for COMMIT: {_covered(found)}", total[0] < total[1]
        ),
    }


def _by_limit(found: Results) -> str:
    """Return the median replays of Grid by the limit of pending roots, and how often it was stable again."""
    texts = []
    for (limit, exact), cell in found.pending.items():
        settled = len(cell.of("stable_mean_s"))
        name = f"{limit or 'no limit'}{', exact' if exact else ''}"
        texts.append(f"{name}: {cell.median('replayed'):,.0f}, stable in {settled}/{len(cell.values)}")
    return "; ".join(texts)


def _covered(found: Results) -> str:
    """Return what becomes of Linear where acks wait for COMMIT and pending roots have no limit."""
    cell = found.covered
    return (
        f"{cell.text('replayed', form=',.0f')} replays on Linear, stable in {len(cell.of('stable_mean_s'))} of "
        f"{len(cell.values)} seeds"
    )


# -- in and out


def _in_and_out(cells: Cells) -> dict[str, Finding]:
    restores = {key: cell.median("restore_s") for key, cell in cells.items()}
    apart = {
        (flow, name): abs(restores[flow, name, True] / restores[flow, name, False] - 1)
        for flow in FLOWS
        for name in PROTOCOLS
    }
    (flow, name), most = max(apart.items(), key=lambda one: one[1])
    return {
        "in-vs-out": Finding(
            f"medians of restores at most {100 * most:.0f} % apart ({flow}, {name.upper()})",
            most <= 0.15,
            "" if most <= 0.15 else "hosts play no part: the median lies in one class of restores or another by chance",
        )
    }
