"""The claims of "checkpoint-assisted migration" (Madsen and Zhou, CIKM 2015), each beside what comes out here.

Four experiments: the replay of one move (tuple by tuple), load that shifts from one operator to another, a year of
flights (both at the level of rates), and the allocation that exhaustive search could not do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from models.correlation import pearson
from models.planning.checkpoint_allocation import CheckpointAllocation
from models.planning.solution import Status
from optimizer.checkpoint_allocation import solve
from scenarios.studies.reproduce import anti_correlated, replay
from scenarios.studies.reproduce.airline import POLICIES, Outcome, experiment
from scenarios.studies.reproduce.claims import Finding
from scenarios.studies.reproduce.flight_rates import WINDOW_S, Airline, FloatArray, flights, loads
from scenarios.studies.reproduce.tasks import TaskRunner
from sim.scaling.adaptation import Prefer

GROUPS = (16, 32, 48)
_QUICK, _FULL = (8, 1), (24, 4)  # seeds and sets of copies
_AGES_S = (1.5, 7.0, 20.0, 34.0, 68.0, 135.0)
_QUICK_AGES_S = (1.5, 7.0, 34.0, 80.0)
_SAVED_S = 1.0  # what a direct move costs at least, whatever the state: the condition of the claim about savings


def findings(runner: TaskRunner, *, quick: bool) -> Mapping[str, Finding]:
    """Return claim -> verdict."""
    ages = _QUICK_AGES_S if quick else _AGES_S
    # Moves and years in one call: pieces of both kinds fill the workers until the end.
    moves = [Move(protocol, age) for protocol in ("cpa", "cpal", "direct") for age in ages]
    cells = _cells(quick)
    years = [one for cell in cells.values() for one in cell]
    made = runner.make("moving key groups", [*moves, *years], replay.compile_for)
    moved = {(move.protocol, move.age_s): replay.Moved(*one) for move, one in zip(moves, made, strict=False)}
    outcomes = _outcomes(cells, made[len(moves) :])
    return _exhaustive() | _anti_correlated() | _replay(moved, ages) | _airline(outcomes, quick)


# -- exhaustive


def _exhaustive() -> dict[str, Finding]:
    """Return the claim on exhaustive search: 20 hosts, 7 checkpoints, capacities that couple them."""
    rng = np.random.default_rng(20)
    load = rng.uniform(0.5, 1.5, 7)
    made = CheckpointAllocation(
        cost=rng.uniform(-1, 1, (7, 20)) * load[:, None], load=load, capacity=np.full(20, 1.2 * load.max())
    )
    began = time.perf_counter()
    plan = solve(made, method="exact")
    took = time.perf_counter() - began
    ours = f"{plan.status} in {'less than 1 s' if took < 1 else f'{took:.1f} s'}"
    return {"exhaustive": Finding(ours, plan.status is Status.OPTIMAL and took < 1)}


# -- load that shifts


def _anti_correlated() -> dict[str, Finding]:
    """Return the claims on load that shifts: the share of usable checkpoints must be the paper's at every load."""
    found = {}
    for name, allocation, paper in (
        ("anti-optimised", "optimised", 1.0),
        ("anti-even", "even", 0.5),
        ("anti-worst", "worst", 0.0),
    ):
        shares = [anti_correlated.run(allocation, work).usable_share for work in (0.2, 0.4, 0.7)]  # type: ignore[arg-type]
        found[name] = Finding(f"{100 * shares[0]:.0f} %", all(share == paper for share in shares))
    return found


# -- one move


@dataclass(frozen=True)
class Move:
    """One move, so long after its checkpoint."""

    protocol: str
    age_s: float

    @property
    def label(self) -> str:
        return f"replay-{self.protocol}-{self.age_s:g}"

    @property
    def cost_s(self) -> float:
        return 0.2 + 0.0235 * self.age_s

    def run(self) -> Any:
        return astuple(replay.move(self.protocol, self.age_s))


def _replay(moves: Mapping[tuple[str, float], replay.Moved], ages: Sequence[float]) -> dict[str, Finding]:
    """Return the claims on one move: pauses and completion times against the closed forms and each other."""
    cpa, cpal, direct = ([moves[name, age] for age in ages] for name in ("cpa", "cpal", "direct"))
    # The greatest relative error against the closed form, over all ages.
    off = max(abs(one.pause_s / replay.replay_s(one.replayed) - 1) for one in cpa)
    pauses = [one.pause_s for one in cpal]
    # With little to replay fixed latencies decide, which the claim is not about.
    large = [(a, b) for a, b in zip(cpa, cpal, strict=True) if a.replayed >= 3000]
    ratios = [b.completion_s / a.completion_s for a, b in large]
    grows = all(one.completion_s < other.completion_s for one, other in pairwise(cpal))
    return {
        "replay-cpa": Finding(
            f"at most {100 * off:.2f} % off l + R (m/(U B) + p), R to {cpa[-1].replayed:,}", off < 0.02
        ),
        "replay-cpal-latency": Finding(
            f"{1e3 * max(pauses):.2g} ms at the most",
            max(pauses) < 0.01 and max(pauses) - min(pauses) <= 0.1 * max(pauses),
        ),
        "replay-cpal-completion": Finding(
            f"{min(ratios):.3f} to {max(ratios):.3f} times CPA's, {'growing' if grows else 'not growing'}",
            1.0 <= min(ratios) <= max(ratios) <= 1.1 and grows,
        ),
        "replay-direct": _direct(cpa, cpal, direct),
    }


_Moves = Sequence[replay.Moved]


def _direct(cpa: _Moves, cpal: _Moves, direct: _Moves) -> Finding:
    """Return the claim on direct moves: beside their closed form, and both other protocols beside them."""
    # As many outputs are kept as CPA has to replay at that age.
    closing = [replay.direct_s(a.replayed, one.replayed) for a, one in zip(cpa, direct, strict=True)]
    apart = max(abs(one.completion_s / form - 1) for one, form in zip(direct, closing, strict=True))
    even = {"CPA": _crossing(cpa, direct), "CPAL": _crossing(cpal, direct)}
    sides = all(_changes_sides(one, direct) for one in (cpa, cpal))
    near = all(abs(one / replay.BREAK_EVEN - 1) < 0.1 for one in even.values())
    crossings = ", ".join(f"{name} {one:,.0f}" for name, one in even.items())
    return Finding(
        f"at most {100 * apart:.2f} % off the closed form; break-even at {crossings} tuples, by the form "
        f"{replay.BREAK_EVEN:,.0f}; {'below before it, above beyond' if sides else 'not on both sides of it'}",
        apart < 0.03 and near and sides,
    )


def _changes_sides(one: _Moves, direct: _Moves) -> bool:
    """Return whether a protocol is faster than direct with less to replay than at the break-even, else slower."""
    found = {
        (a.replayed > replay.BREAK_EVEN, a.completion_s > b.completion_s) for a, b in zip(one, direct, strict=True)
    }
    return found == {(False, False), (True, True)}


def _crossing(one: Sequence[replay.Moved], other: Sequence[replay.Moved]) -> float:
    """Return how many tuples to replay make the first slower than the second, on a line between measured points."""
    gaps = [(a.replayed, a.completion_s - b.completion_s) for a, b in zip(one, other, strict=True)]
    for (before, low), (after, high) in pairwise(gaps):
        if low < 0 <= high:
            return before + (after - before) * -low / (high - low)
    return float("nan")


# -- a year of flights


@dataclass(frozen=True)
class Year:
    """One year of a setting under some policies, all with the same loads."""

    setting: Airline
    policies: tuple[str, ...]
    seed: int
    prefer: Prefer = "sufficient"

    @property
    def label(self) -> str:
        return f"airline-{self.setting.key_groups}-{self.seed}"

    @property
    def cost_s(self) -> float:
        solved = any(name != "even" for name in self.policies)
        return self.setting.key_groups * (0.0022 if solved else 0.0009)

    def run(self) -> Any:
        chosen = {name: POLICIES[name] for name in self.policies}
        found = experiment(self.setting, flights(_file()), chosen, range(self.seed, self.seed + 1), self.prefer)
        return {name: astuple(outcome) for name, (outcome,) in found.items()}


def _file() -> Path:
    return Path(str(resources.files("scenarios") / "data" / "flights_nyc_2017.parquet"))


_Key = tuple[int, int | str]  # key groups, and which set of copies or variant


_POLICIES = ("baseline", "even", "optimised", "literal")


def _cells(quick: bool) -> dict[_Key, list[Year]]:
    """Return (key groups, copies or variant) -> the years to run; `quick` takes fewer seeds and one set of copies."""
    seeds, salts = _QUICK if quick else _FULL
    few = range(min(seeds, 8))
    cells: dict[_Key, list[Year]] = {
        (groups, salt): [Year(Airline(groups, salt=salt), _POLICIES, seed) for seed in range(seeds)]
        for groups in GROUPS
        for salt in range(salts)
    }
    asked: tuple[Prefer, ...] = ("quarter", "usable")
    cells |= {
        (groups, prefer): [Year(Airline(groups), ("even",), seed, prefer) for seed in few]
        for groups in GROUPS
        for prefer in asked
    }
    return cells | {
        (groups, "raw"): [Year(Airline(groups, copies=1), ("optimised",), seed) for seed in few] for groups in GROUPS
    }


def _outcomes(cells: Mapping[_Key, Sequence[Year]], results: Sequence[Any]) -> dict[_Key, dict[str, list[Outcome]]]:
    """Return for each cell: policy -> an outcome for each seed."""
    # Results are in the order in which `findings` listed the years.
    made = iter(results)
    found: dict[_Key, dict[str, list[Outcome]]] = {}
    for key, years in cells.items():
        own = [next(made) for _ in years]
        found[key] = {name: [Outcome(*one[name]) for one in own] for name in years[0].policies}
    return found


def _airline(outcomes: Mapping[_Key, Mapping[str, Sequence[Outcome]]], quick: bool) -> dict[str, Finding]:
    """Return the claims on a year of flights; outcomes of all sets of copies are pooled."""
    salts = _QUICK[1] if quick else _FULL[1]
    of = {
        (policy, groups): [one for salt in range(salts) for one in outcomes[groups, salt][policy]]
        for policy in _POLICIES
        for groups in GROUPS
    }
    found = _shares(of)
    found |= _even_share_rises(of, outcomes)
    found |= _saved(of, outcomes)
    return found | _correlation()


_Of = Mapping[tuple[str, int], Sequence[Outcome]]


def _share(outcomes: Sequence[Outcome]) -> float:
    return fmean(one.share for one in outcomes)


def _usable(outcomes: Sequence[Outcome]) -> float:
    """Return the usable share, pooled over runs: each counts by its groups on overloaded hosts."""
    return sum(one.usable for one in outcomes) / max(1, sum(one.groups for one in outcomes))


def _triple(values: Sequence[float], form: str = ".2f") -> str:
    return " / ".join(format(value, form) for value in values)


def _shares(of: _Of) -> dict[str, Finding]:
    """Return the claims about shares of assisted moves and usable checkpoints."""
    share = {
        policy: [_share(of[policy, groups]) for groups in GROUPS]
        for policy in ("baseline", "even", "optimised", "literal")
    }
    usable = {policy: [_usable(of[policy, groups]) for groups in GROUPS] for policy in share}
    apart = max(abs(one - other) for one, other in zip(share["even"], share["baseline"], strict=True))
    gain = [one / other for one, other in zip(share["optimised"], share["even"], strict=True)]
    more = [one / other for one, other in zip(usable["optimised"], usable["even"], strict=True)]
    literal = [one / other for one, other in zip(share["literal"], share["even"], strict=True)]
    flat = max(usable["even"]) - min(usable["even"])
    rises = {name: all(a < b for values in (share[name], usable[name]) for a, b in pairwise(values)) for name in share}
    rising = rises["optimised"]
    return {
        "airline-even-baseline": Finding(
            f"even {_triple(share['even'])}, baseline {_triple(share['baseline'])}", apart <= 0.10
        ),
        "airline-share": Finding(
            f"{_triple(gain, '.1f')} x (correlations below 0.2 as they are: {_triple(literal, '.1f')} x)",
            all(1.5 <= one <= 3 for one in gain[1:]),
            "K = 16 only with ties or maintenance" if gain[0] < 1.5 else "",
        ),
        "airline-useable": Finding(f"{_triple(more, '.1f')} x", all(2 <= one <= 4 for one in more[1:])),
        "airline-rise": Finding(
            f"share {_triple(share['optimised'])}, usable {_triple(usable['optimised'])}; "
            f"correlations below 0.2 as they are: {_triple(share['literal'])}, {_triple(usable['literal'])}, "
            + ("rising, too" if rises["literal"] else "not rising"),
            rising,
        ),
        "airline-even-flat": Finding(_triple(usable["even"]), flat <= 0.16),
    }


def _even_share_rises(of: _Of, outcomes: Mapping[_Key, Mapping[str, Sequence[Outcome]]]) -> dict[str, Finding]:
    """Return the claim that the share of even allocation rises with the key groups, under three orders of asking."""
    plain = [_share(of["even", groups]) for groups in GROUPS]
    asked = {
        prefer: [_share(outcomes[groups, prefer]["even"]) for groups in GROUPS] for prefer in ("quarter", "usable")
    }
    holds = all(a < b for a, b in pairwise(plain))
    text = "; ".join(
        [_triple(plain), f"quarter asked first {_triple(asked['quarter'])}", f"all {_triple(asked['usable'])}"]
    )
    cause = "a manager that orders groups by load alone; one that asks first which checkpoints are usable makes it rise"
    return {"airline-even-share-rise": Finding(text, holds, "" if holds else cause)}


def _saved(of: _Of, outcomes: Mapping[_Key, Mapping[str, Sequence[Outcome]]]) -> dict[str, Finding]:
    """Return latency that assisted moves save, where a direct one costs a second whatever its state."""
    counts = [fmean(one.assisted for one in of["optimised", groups]) for groups in GROUPS]
    raw = [fmean(one.assisted for one in outcomes[groups, "raw"]["optimised"]) for groups in GROUPS]
    holds = all(a < b for a, b in pairwise(counts))
    text = f"{_triple([_SAVED_S * one for one in counts], '.1f')} s at 1 s a move"
    text += f"; one copy of the volume {_triple(raw, '.0f')} s"
    cause = "only where a direct move costs as much however small its state: with 1/K of the state the sum falls"
    return {"airline-saved": Finding(text, holds, cause)}


def _correlation() -> dict[str, Finding]:
    """Return the correlation of the operators' totals, in windows of 8 s."""
    setting = Airline(profile="event", utilisation=0.72)
    load = loads(setting, flights(_file()), 0)
    totals: FloatArray = load.reshape(4, setting.key_groups, -1).sum(axis=1)
    r = pearson(totals)
    cause = f"the share of delayed flights is not stable (means of {WINDOW_S} s)"
    return {
        "airline-correlation": Finding(
            f"1-3 {r[0, 2]:.2f}, 1-2 {r[0, 1]:.2f}",
            bool(r[0, 2] >= 0.8 and r[0, 1] >= 0.8),
            cause if r[0, 1] < 0.8 else "",
        )
    }
