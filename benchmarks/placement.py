"""Measure placements: colours, hosts, value, their bounds, time, memory, and a generic solver beside ours.

    .venv/bin/python benchmarks/placement.py [planted] [large] [packing] [value] [--limit 60] [--seeds 1] [--no-generic]

A planted problem is made from a placement: on each host the same number of instances, of so many colours, that take a
given share of both resources, cut at random; instances of an operator are on different hosts. "Planted" is its number
of colours, best fit what it places. The generic solver is CP-SAT on the whole program of `optimizer/placement/small.py`
with one worker; it is told the planted number of colours, and only asked for some placement. Memory is the peak of the
process so far, generic solver included.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from models.planning.placement import Placement
from optimizer.placement import fitted, solve
from optimizer.placement.small import decide, whole

SLACKS = (0.25, 0.05)
_SCALE = 10_000


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The answer, and processor seconds."""
    began = time.process_time()
    return work(), time.process_time() - began


def cut(draw: np.random.Generator, hosts: int, each: int, slack: float) -> np.ndarray:
    """Loads (hosts, each) in ten thousandths of a host that add up to 1 - slack on each."""
    total = round((1 - slack) * _SCALE)
    found = np.floor(draw.dirichlet(np.full(each, 3.0), hosts) * total).astype(np.int64)
    found[:, 0] += total - found.sum(axis=1)
    return found


def planted(hosts: int, each: int, most: int, slack: float, seed: int, colours: int | None) -> Placement:
    """`each` instances on each host, of at most `most` of the colours; None makes each operator its own colour."""
    draw = np.random.default_rng(seed)
    loads = [cut(draw, hosts, each, slack).ravel() for _ in range(2)]
    host = np.repeat(np.arange(hosts), each)
    colour = np.zeros(len(host), dtype=np.int64)
    for h in range(hosts if colours is not None else 0):
        some = draw.choice(colours, most, replace=False)
        colour[h * each : (h + 1) * each] = np.concatenate([some, draw.choice(some, each - most)])
    operator = paired(draw, host, colour)
    mixed = draw.permutation(len(host))
    return Placement(
        loads[0][mixed] / _SCALE,
        np.ones(hosts),
        network=loads[1][mixed] / _SCALE,
        host_network=np.ones(hosts),
        operator=operator[mixed],
        colour=None if colours is None else colour[mixed],
    )


def paired(draw: np.random.Generator, host: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """Operators of two instances of one colour on different hosts, as far as there are partners."""
    operator, number = np.full(len(host), -1), 0
    for k in np.unique(colour):
        waiting: list[int] = []
        for i in draw.permutation(np.flatnonzero(colour == k)).tolist():
            partner = next((j for j in waiting if host[j] != host[i]), None)
            if partner is None:
                waiting.append(i)
                continue
            waiting.remove(partner)
            operator[[i, partner]] = number
            number += 1
    alone = np.flatnonzero(operator < 0)
    operator[alone] = number + np.arange(len(alone))
    return operator


def line(name: str, problem: Placement, limit_s: float, note: str = "", generic: int | None = None) -> None:
    """Print one case; `generic` is the number of colours that CP-SAT is told, None does not ask it."""
    plan, cpu = timed(lambda: solve(problem, time_limit_s=limit_s))
    simple = fitted(problem, "best-fit")
    hosts = "" if plan.hosts_bound is None else f"hosts {plan.hosts} (bound {plan.hosts_bound})  "
    text = f"{name:<34} {plan.status.value:<9} {_shown(plan.objective)} (bound {_shown(plan.bound)})  {hosts}"
    text += (
        f"cpu {cpu:6.2f} s  best fit {_shown(simple.objective)}{f', {simple.unplaced} out' if simple.unplaced else ''}"
    )
    if generic is not None:
        part = whole(problem, "any", generic, None)
        deadline = time.monotonic() + limit_s
        found, other = timed(lambda: decide(problem, part, most_s=limit_s, deadline=deadline))
        text += f"  generic {found.status.value}  cpu {other:6.2f} s"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    struck = "  clock struck" if "time limit struck" in plan.note else ""
    print(f"{text}  {memory:5.0f} MB  {note}{struck}", flush=True)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def small_planted(limit_s: float, seeds: int, generic: bool) -> None:
    """100 hosts, 300 instances."""
    for slack in SLACKS:
        for most, colours in ((3, None), (2, 20), (2, 100), (1, 20)):
            for seed in range(seeds):
                problem = planted(100, 3, most, slack, seed, colours)
                name = f"100 x 300, {colours or 'operator'} colours, {slack:.0%}"
                line(name, problem, limit_s, f"planted {most}", most if generic else None)


def large_planted(limit_s: float, seeds: int, generic: bool) -> None:
    """1,000 hosts, 5,000 instances: for the generic solver five million variables, so it is not asked."""
    for slack in SLACKS:
        for most, colours in ((5, None), (2, 200), (2, 1000)):
            for seed in range(seeds):
                problem = planted(1000, 5, most, slack, seed, colours)
                name = f"1,000 x 5,000, {colours or 'operator'} colours, {slack:.0%}"
                line(name, problem, limit_s, f"planted {most}")


def packing(limit_s: float, seeds: int, generic: bool) -> None:
    """Bin packing: uniform sizes in 20 .. 100 in rooms of 150, and triples that fill theirs (Falkenauer, 1996)."""
    for n in (120, 250, 500, 1000):
        for seed in range(seeds):
            sizes = np.random.default_rng(seed + n).integers(20, 101, n)
            problem = Placement(sizes, np.full(n // 2 + 5, 150), goal="hosts")
            line(f"uniform, {n}", problem, limit_s, f"load {math.ceil(sizes.sum() / 150)}")
    for n in (60, 120, 249):
        for seed in range(seeds):
            draw = np.random.default_rng(seed + n)
            first = draw.integers(380, 490, n // 3)
            second = np.array([draw.integers(250, (1000 - a) // 2) for a in first.tolist()])
            sizes = np.concatenate([first, second, 1000 - first - second])
            line(f"triples, {n}", Placement(sizes, np.full(n // 2, 1000), goal="hosts"), limit_s, f"planted {n // 3}")


def value(limit_s: float, seeds: int, generic: bool) -> None:
    """Multiple knapsack with room for half of all load, without and with colours."""
    for n, hosts in ((50, 5), (200, 10), (1000, 50)):
        for most in (None, 3):
            for seed in range(seeds):
                draw = np.random.default_rng(seed + n)
                worth, load = draw.integers(1, 100, n), draw.integers(10, 100, n)
                room, colour = np.full(hosts, load.sum() // (2 * hosts)), draw.integers(0, 8, n)
                problem = Placement(load, room, goal="value", value=worth, colour=colour, max_colours=most)
                line(f"value, {n} in {hosts}, colours {most or 'any'}", problem, limit_s)


SECTIONS = {"planted": small_planted, "large": large_planted, "packing": packing, "value": value}


def main() -> None:
    """Print the sections asked for, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each answer")
    parser.add_argument("--seeds", type=int, default=1, help="problems of each kind")
    parser.add_argument("--no-generic", action="store_true", help="leave the generic solver out")
    given = parser.parse_args()
    for name in given.sections or SECTIONS:
        SECTIONS[name](given.limit, given.seeds, not given.no_generic)


if __name__ == "__main__":
    main()
