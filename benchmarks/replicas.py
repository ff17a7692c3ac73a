"""Measure plans of replicas, sizes, availability and fleets beside what one would write first; ratios in one run.

    .venv/bin/python benchmarks/replicas.py [SECTION ...] [--scale 1] [--repeats 3]

The sections are plans, proofs, size, availability and fleet; all without.

`plans`: queries from templates, 100 CPUs of load, primaries that run, replicas on hosts of their own, p = 0.02. Beside
each search stands a MILP solved by HiGHS: which operators get replicas, to first order in p, placed by first fit; and
as many of them as a target or a front takes. `proofs`: deployments of five or six operators on five hosts beside a
plain loop over all plans, timed on some of these, and forty equal operators with a budget of ten. `size` stands beside
a grid of intervals for every plan, `availability` beside a loop over drawn states, `fleet` beside a SimPy process
for each host and a look at all queries after each event. CPU time of this process, the least of some repetitions;
rivals take turns. What both find is compared, and the run fails where they disagree.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

P = 0.02
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "sizing.toml"


def cpu_s(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The least CPU time of some repetitions, and what the last gave."""
    times, found = [], None
    for _ in range(max(1, repeats)):
        start = time.process_time()
        found = work()
        times.append(time.process_time() - start)
    return min(times), found


# -- plans


def workload(load: float, seed: int = 1) -> Any:
    """A problem: primaries that run, half of the load spare on hosts that take replicas alone."""
    from models.queries.description import query_set_from  # noqa: PLC0415
    from optimizer.replicas.placing import place_primaries  # noqa: PLC0415
    from scenarios.queries.files import loaded  # noqa: PLC0415
    from scenarios.queries.replicas import Options, problem_of  # noqa: PLC0415

    hosts = {"count": round(1.2 * load) + 1, "spare": max(2, round(0.52 * load))}
    described = {"templates": {"load": load, "seed": seed}, "hosts": hosts, "replicas": {"budget": load / 2}, "p": P}
    posed = problem_of(loaded(query_set_from(described)), Options())
    start = place_primaries(posed)
    assert start.whole
    return replace(posed, primary=np.array([hosts[0] for hosts in start.instances]))


def first_order(posed: Any, budget: float) -> tuple[tuple[int, ...], ...]:
    """The plan of a MILP: a query survives a host if all that it has there has replicas; these go by first fit."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415
    from scipy.sparse import coo_array  # noqa: PLC0415

    n = posed.n_operators
    covers: dict[tuple[int, int], list[int]] = {}
    for query, needed in enumerate(posed.operators):
        for op in needed:
            covers.setdefault((query, int(posed.primaries[op])), []).append(op)
    rows = [(n + k, op) for k, members in enumerate(covers.values()) for op in members]
    values = np.concatenate((np.ones(len(rows)), -np.ones(len(rows)), posed.load))
    at = (
        np.concatenate((np.arange(len(rows)), np.arange(len(rows)), np.full(n, len(rows)))),
        np.concatenate(([k for k, _ in rows], [op for _, op in rows], np.arange(n))),
    )
    matrix = coo_array((values, at), shape=(len(rows) + 1, n + len(covers)))
    worth = np.concatenate((np.zeros(n), [-posed.shares[query] * P for query, _ in covers]))
    most = np.append(np.zeros(len(rows)), budget)
    found = milp(
        worth,
        constraints=LinearConstraint(matrix, -np.inf, most),
        bounds=Bounds(0, 1),
        integrality=np.concatenate((np.ones(n), np.zeros(len(covers)))),
        options={"time_limit": 60.0, "mip_rel_gap": 1e-4},
    )
    chosen = np.flatnonzero(found.x[:n] > 0.5).tolist() if found.x is not None else []
    return first_fit(posed, chosen)


def first_fit(posed: Any, chosen: list[int]) -> tuple[tuple[int, ...], ...]:
    """Replicas of these operators, the heaviest first, each on the first host with room."""
    instances = [(int(host),) for host in posed.primaries]
    room = posed.host_cpu - np.bincount(posed.primaries, weights=posed.load, minlength=posed.n_hosts)
    for op in sorted(chosen, key=lambda op: -posed.load[op]):
        for host in np.flatnonzero(posed.replica_hosts & (room >= posed.load[op])).tolist():
            if host != instances[op][0]:
                instances[op] = (*instances[op], host)
                room[host] -= posed.load[op]
                break
    return tuple(instances)


def plans(scale: float, repeats: int) -> None:
    """Heuristics, the best plan, a target and a front, each beside the MILP."""
    from optimizer.replicas import plan  # noqa: PLC0415
    from optimizer.replicas.optimise import cheapest, front, most_available  # noqa: PLC0415
    from scenarios.queries.replicas import noise_of  # noqa: PLC0415

    posed = workload(max(4.0, 100 * scale))

    def milp_broken(budget: float) -> float:
        return float(posed.broken(first_order(posed, budget))[0] @ posed.shares)

    print(f"{posed.n_queries} queries, {posed.n_operators} operators, {posed.n_hosts} hosts, p = {P}")
    rival_s, rival = cpu_s(lambda: milp_broken(posed.budget), 1)
    line(f"MILP by HiGHS, to first order: {100 * rival:.4f} % broken, no bound", rival_s, rival_s)
    for name in ("degree", "product", "gain"):
        noise = noise_of(posed.n_operators, 1)
        spent, made = cpu_s(lambda name=name, noise=noise: plan(posed, by=name, noise=noise), repeats)  # type: ignore[misc]
        line(f"heuristic, {name}: {100 * made.objective:.4f} % broken, no bound", spent, rival_s)
    spent, best = cpu_s(lambda: most_available(posed), 1)
    assert best.bound <= min(best.objective, rival) * (1 + 1e-9)
    line(f"--optimise: {100 * best.objective:.4f} % broken, none below {100 * best.bound:.4f} %", spent, rival_s)
    target = 1 - 1.2 * best.objective
    spent, made = cpu_s(lambda: cheapest(posed, target), 1)
    rival_s, budget = cpu_s(lambda: bisected(milp_broken, 1 - target, posed.capacity), 1)
    assert made.bound <= budget * (1 + 1e-9)
    line(f"--target: {made.objective:.4g} CPUs, none below {made.bound:.4g}; MILPs {budget:.4g}", spent, rival_s)
    spent, points = cpu_s(lambda: front(posed, 6), 1)
    budgets = [one.budget for one in points]
    rival_s, rivals = cpu_s(lambda: [milp_broken(one) for one in budgets], 1)
    assert all(one.plan.bound <= other * (1 + 1e-9) for one, other in zip(points, rivals, strict=True))
    better = sum(one.plan.objective <= other * (1 + 1e-12) for one, other in zip(points, rivals, strict=True))
    line(f"--front 6: {len(points)} plans, {better} as good as the MILP's or better", spent, rival_s)


def bisected(broken: Callable[[float], float], allowed: float, most: float, steps: int = 8) -> float:
    """The least budget of eight steps with which the MILP's plan is good enough; the most, where none is."""
    low, high = 0.0, most
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if broken(middle) <= allowed else (middle, high)
    return high


def line(said: str, spent: float, rival_s: float) -> None:
    """One result: CPU time, and by how much less it is than the rival's."""
    print(f"  {said}; {spent:.3g} s, {rival_s / max(spent, 1e-9):,.2g} x")


# -- proofs


def small(seed: int) -> Any:
    """A deployment of five or six operators on five hosts."""
    from models.planning.replicas import ReplicaProblem  # noqa: PLC0415

    draw = np.random.default_rng(seed)
    n = int(draw.integers(5, 7))
    sizes = draw.integers(2, 5, size=int(draw.integers(2, 5))).tolist()
    return ReplicaProblem(
        load=np.round(draw.uniform(0.1, 0.5, n), 2),
        operators=tuple(tuple(sorted(draw.choice(n, size, replace=False).tolist())) for size in sizes),
        edges=np.empty((0, 2), dtype=np.int64),
        host_cpu=np.full(5, 1.0),
        down=np.full((1, 5), float(draw.choice([0.01, 0.02, 0.05]))),
        budget=round(float(draw.uniform(0.2, 1.2)), 2),
    )


def forty(size: int, a_host: int, hosts: int) -> Any:
    """Forty equal operators, so many to a host, twenty queries, and a budget of ten replicas."""
    from models.planning.replicas import ReplicaProblem  # noqa: PLC0415

    draw = np.random.default_rng(1)
    return ReplicaProblem(
        load=np.ones(40),
        operators=tuple(tuple(sorted(draw.choice(40, size, replace=False).tolist())) for _ in range(20)),
        edges=np.empty((0, 2), dtype=np.int64),
        host_cpu=np.full(hosts, float(a_host)),
        down=np.full((1, hosts), 0.01),
        budget=10.0,
    )


def by_loop_s(posed: Any, tried: int) -> float:
    """Return what a plain loop over all plans would take, from the first of them."""
    each = [(h, *rest) for h in range(5) for rest in [(), *((o,) for o in range(5) if o != h)]]

    def loop() -> float:
        some = islice(product(each, repeat=posed.n_operators), tried)
        return min(float(posed.broken(made)[0] @ posed.shares) for made in some if posed.violations(made) is not None)

    spent, _ = cpu_s(loop, 1)
    return spent / tried * len(each) ** posed.n_operators


def proofs(scale: float, repeats: int) -> None:
    """Small problems, which are all proven, and bounds of forty equal operators."""
    from optimizer.replicas.optimise import most_available  # noqa: PLC0415

    posed = [small(seed) for seed in range(max(2, round(50 * scale)))]
    made = [cpu_s(lambda one=one: most_available(one), 1) for one in posed]  # type: ignore[misc]
    spent = [each for each, _ in made]
    proven = sum(best.status.value == "optimal" for _, best in made)
    rival_s = sum(by_loop_s(one, 20) for one in posed)
    said = f"{len(posed)} deployments of 5 or 6 operators: {proven} proven, the slowest in {max(spent):.2g} s"
    line(f"{said}; a plain loop takes {rival_s:.2g} s", sum(spent), rival_s)
    for size, a_host, hosts in ((2, 5, 10), (3, 2, 30), (4, 1, 60)):
        one = forty(size, a_host, hosts)
        took, best = cpu_s(lambda one=one: most_available(one), repeats)  # type: ignore[misc]
        said = f"forty equal operators, {size} to a query, {a_host} to a host: {100 * best.objective:.4f} % broken"
        line(f"{said}, gap {100 * best.gap:.2f} %", took, took)


# -- size


def size(scale: float, repeats: int) -> None:
    """The cheapest system, beside 400 intervals tried with every plan."""
    from optimizer.sizing import solve  # noqa: PLC0415
    from optimizer.sizing.feasible_interval import figures  # noqa: PLC0415
    from scenarios.planning.sizing import read_sizing  # noqa: PLC0415

    posed = read_sizing(EXAMPLE)[0]
    count = max(8, round(400 * scale))

    def grid() -> Any:
        for one in posed.plans():
            limits = posed.intervals(one) if posed.spare(one) > 0 else None
            if limits is None:
                continue
            for interval_s in np.geomspace(limits[0], min(limits[1], 3600.0), count).tolist():
                if figures(posed, one, interval_s).unavailability <= posed.allowed:
                    return one
        return None

    rival_s, by_grid = cpu_s(grid, 1)
    spent, found = cpu_s(lambda: solve(posed, curve=False), repeats)
    assert by_grid is None or posed.cost(by_grid) >= found.objective * (1 - 1e-12)
    same = by_grid is not None and by_grid == found.chosen.plan
    line(
        f"size: {found.chosen.plan.text}, proven; a grid of {count} {'agrees' if same else 'misses it'}", spent, rival_s
    )


# -- availability


def drawn(n_hosts: int, n_queries: int, seed: int = 1) -> Any:
    """Queries on hosts, as in `benchmarks/availability.py`."""
    from availability import placement  # noqa: PLC0415 - a neighbour of this script

    return placement(seed, n_hosts, n_queries)


def availability(scale: float, repeats: int) -> None:
    """All queries exactly, and sampled, beside a plain loop; and nine nines."""
    from availability import plain_runs  # noqa: PLC0415

    from models.reliability.exact import mean_broken, unavailability  # noqa: PLC0415
    from models.reliability.queries import Queries, equal_hosts  # noqa: PLC0415
    from sim.sampling.importance_sampling import stratified  # noqa: PLC0415
    from sim.sampling.plain import sampled  # noqa: PLC0415

    queries, settings = drawn(100, 100), (0.0025, 0.005, 0.01, 0.02, 0.03)
    failures, at = equal_hosts(settings, 100), equal_hosts(P, 100)
    runs, many = max(20, round(300 * scale)), max(4096, round(8_000_000 * scale))
    sampled(queries, at, runs=1)
    stratified(queries, at, runs=1)  # compiled
    plain_s, by_loop = cpu_s(lambda: plain_runs(queries, P, runs), 1)
    exact_s, each = cpu_s(lambda: unavailability(queries, failures), 5 * repeats)
    value = float(mean_broken(queries, each)[0][3])
    assert abs(by_loop - value) < 0.5 * value + 5 / runs
    # What the loop needs for a relative error of 1 % with 95 %, from the variance of one run, times its time for a run.
    spent, found = cpu_s(lambda: sampled(queries, at, runs=many), repeats)
    half = (found.mean.interval[1] - found.mean.interval[0]) / 2
    needed = found.runs * (half / (0.01 * value)) ** 2
    print(
        f"100 queries, {len(queries.instances)} operators, 100 hosts; a plain loop makes {runs / plain_s:,.0f} runs/s"
    )
    loop_s = needed * plain_s / runs
    line(f"exact, 5 values of p; the loop takes {loop_s:.3g} s to 1 % at p = {P} alone", exact_s, 5 * loop_s)
    print(f"  sampled: {found.runs / spent / 1e6:.3g} million runs/s, {found.runs / spent / (runs / plain_s):,.0f} x")
    pairs = Queries(100, tuple((k, k + 1) for k in range(0, 100, 2)), tuple((k,) for k in range(50)))
    nine = float(unavailability(pairs, equal_hosts(3e-5, 100)).low[0, 0])
    spent, rare = cpu_s(lambda: stratified(pairs, equal_hosts(3e-5, 100), runs=max(4096, round(1e6 * scale))), repeats)
    half = (rare.mean.interval[1] - rare.mean.interval[0]) / 2
    assert rare.mean.interval[0] <= nine * 1.001
    loop_s = plain_s / runs * 1.96**2 * (1 - nine) / (50 * nine * (half / nine) ** 2)  # 50 independent queries
    print(f"  nine nines ({nine:.1e}) by strata: to {100 * half / nine:.1f} % in {spent:.2g} s, {loop_s / spent:.1e} x")


# -- fleets


def fleet(scale: float, repeats: int) -> None:
    """Ten years of hosts that fail, by intersecting and by events, beside plain SimPy and a loop over a heap."""
    from models.fleet.rules import fleet_from  # noqa: PLC0415
    from models.fleet.system import system_of  # noqa: PLC0415
    from sim.fleet.engine import simulate_fleet  # noqa: PLC0415

    queries, years = drawn(100, 100), 10 * scale
    system = system_of(
        fleet_from(
            {
                "hosts": [f"h{k}" for k in range(100)],
                "duration": f"{round(365 * 86_400 * years)} s",
                "times": {"mttf": "9 d", "mttr": "1 d"},
                "operators": {f"o{k}": [f"h{h}" for h in hosts] for k, hosts in enumerate(queries.instances)},
                "queries": {f"q{k}": [f"o{op}" for op in ops] for k, ops in enumerate(queries.operators)},
            }
        )
    )
    rivals = {"plain SimPy": plain_simpy, "a heap and a look at all queries": plain_heap}
    times = {name: cpu_s(lambda run=run: run(queries, years), 1) for name, run in rivals.items()}  # type: ignore[misc]
    slow_s = times["plain SimPy"][0]
    print(f"100 hosts, 100 queries, {years:g} years, MTTF 9 days, MTTR 1 day")
    for name, (spent, share) in times.items():
        line(f"{name}: {100 * share:.3f} % broken", spent, slow_s)
    for method in ("merged", "events"):
        spent, made = cpu_s(lambda m=method: simulate_fleet(system, method=m), repeats)  # type: ignore[misc]
        broken = sum(row[2] - row[1] for row in made.rows["outages"]) / made.end_ns / 100
        assert abs(broken / times["plain SimPy"][1] - 1) < 0.15 / years**0.5 + 0.01
        line(f"{method}: {100 * broken:.3f} % broken, with all rows", spent, slow_s)


def _looker(queries: Any) -> Callable[[set[int]], int]:
    return lambda down: sum(
        any(all(host in down for host in queries.instances[op]) for op in ops) for ops in queries.operators
    )


def plain_simpy(queries: Any, years: float) -> float:
    """Share of broken queries: a process for each host, and a look at all queries when one changes."""
    import simpy  # noqa: PLC0415

    env, rng, down = simpy.Environment(), np.random.default_rng(2), set()
    look, broken, since, total = _looker(queries), 0, 0.0, 0.0

    def host(number: int) -> Any:
        nonlocal broken, since, total
        while True:
            for mean, change in ((9.0, down.add), (1.0, down.discard)):
                yield env.timeout(rng.exponential(mean))
                change(number)
                total, since = total + broken * (env.now - since), env.now
                broken = look(down)

    for number in range(queries.n_hosts):
        env.process(host(number))
    env.run(until=365 * years)
    return (total + broken * (365 * years - since)) / (365 * years) / queries.n_queries


def plain_heap(queries: Any, years: float) -> float:
    """The same by a heap of instants, without processes."""
    rng, down, look = np.random.default_rng(3), set(), _looker(queries)
    heap = [(float(rng.exponential(9.0)), number) for number in range(queries.n_hosts)]
    heapq.heapify(heap)
    broken, since, total, end = 0, 0.0, 0.0, 365 * years
    while heap[0][0] < end:
        now, number = heapq.heappop(heap)
        total, since = total + broken * (now - since), now
        down.symmetric_difference_update((number,))
        broken = look(down)
        heapq.heappush(heap, (now + float(rng.exponential(1.0 if number in down else 9.0)), number))
    return (total + broken * (end - since)) / end / queries.n_queries


SECTIONS = {"plans": plans, "proofs": proofs, "size": size, "availability": availability, "fleet": fleet}


def main() -> None:
    """Print the sections that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    for name in given.sections or SECTIONS:
        SECTIONS[name](given.scale, given.repeats)


if __name__ == "__main__":
    main()
