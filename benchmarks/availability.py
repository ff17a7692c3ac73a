"""Measure the cost of exact and sampled availability: CPU time of this process, and ratios to a plain loop over runs.

    .venv/bin/python benchmarks/availability.py [--repeats 5]

The placement is drawn as `placement` says: 100 queries of about four operators, whose primaries are on 2.7 hosts of 100
on average, four of five operators with a replica. CPU time counts what this process does, so that others on the machine
disturb little; import and compilation are left out and named apart.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

P = (0.0025, 0.005, 0.01, 0.02, 0.03)


def placement(seed: int, n_hosts: int = 100, n_queries: int = 100, alone: float = 0.2) -> Any:
    """Queries on hosts: the primaries of a query on up to three hosts, replicas anywhere, a share `alone` without."""
    from models.reliability.queries import Queries  # noqa: PLC0415

    rng = np.random.default_rng(seed)
    instances: list[tuple[int, ...]] = []
    operators = []
    for _ in range(n_queries):
        near, row = rng.choice(n_hosts, 3, replace=False), []
        for _ in range(int(rng.integers(3, 6))):
            primary, replica = int(rng.choice(near)), int(rng.integers(n_hosts))
            row.append(len(instances))
            instances.append((primary,) if primary == replica or rng.random() < alone else (primary, replica))
        operators.append(tuple(row))
    return Queries(n_hosts, tuple(instances), tuple(operators))


def cpu_s(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The least CPU time of some repetitions, and what the last gave."""
    times, found = [], None
    for _ in range(repeats):
        start = time.process_time()
        found = work()
        times.append(time.process_time() - start)
    return min(times), found


def plain_runs(queries: Any, p: float, runs: int) -> float:
    """Share of broken queries by a plain loop, as one would write it first."""
    rng, broken = np.random.default_rng(1), 0
    for _ in range(runs):
        down = set(np.flatnonzero(rng.random(queries.n_hosts) < p).tolist())
        for operators in queries.operators:
            broken += any(all(host in down for host in queries.instances[op]) for op in operators)
    return broken / runs / queries.n_queries


def exact(repeats: int) -> None:
    """Exact figures of all queries, of "some is broken", and of the law of their number."""
    from models.reliability.exact import some_broken, unavailability  # noqa: PLC0415
    from models.reliability.law import broken_law  # noqa: PLC0415
    from models.reliability.queries import Failures, equal_hosts  # noqa: PLC0415

    queries = placement(1)
    failures = equal_hosts(P, 100)
    unequal = Failures(np.array(P)[:, None] * np.random.default_rng(2).uniform(0.5, 1.5, 100))
    racks = tuple(tuple(range(k, k + 10)) for k in range(0, 100, 10))
    shocks = Failures(failures.down, racks, np.full((5, 10), 1e-4))
    print(f"100 queries, {len(queries.instances)} operators, 100 hosts, 5 values of p; CPU time")
    for name, what in (("equal hosts", failures), ("unequal hosts", unequal), ("10 racks with shocks", shocks)):
        each, found = cpu_s(lambda what=what: unavailability(queries, what), repeats)  # type: ignore[misc]
        aim = " (aim: 10)" if what is failures else ""
        print(f"  each query, {name}: {1e3 * each:.1f} ms{aim}; {dict(Counter(found.methods))}")
        joint, some = cpu_s(lambda what=what: some_broken(queries, what), repeats)  # type: ignore[misc]
        print(f"  some broken, {name}: {1e3 * joint:.1f} ms; {some.methods[0]}")
    some_s, some = cpu_s(lambda: some_broken(placement(1, alone=0.0), failures), 1)
    wide = ", ".join(f"{100 * x:.1f}" for x in (some.high / some.low - 1)[:, 0].tolist())
    print(f"  some broken, all operators replicated: {some_s:.1f} s; {some.methods[0]}, {wide} % apart")
    law_s, law = cpu_s(lambda: broken_law(queries, failures), repeats)
    print(f"  law of the number, equal hosts: {1e3 * law_s:.0f} ms; open at p = 0.0025: {law.open[0]:.1e}")


def sampling(repeats: int) -> None:
    """Runs per second of all samplers, and intervals of what is rare."""
    from models.reliability.exact import mean_broken, unavailability  # noqa: PLC0415
    from models.reliability.queries import Queries, equal_hosts  # noqa: PLC0415
    from sim.sampling.importance_sampling import stratified, weighted  # noqa: PLC0415
    from sim.sampling.plain import sampled  # noqa: PLC0415

    queries, samplers = placement(1), (sampled, stratified, weighted)
    start = time.process_time()
    for sample in samplers:
        sample(queries, equal_hosts(0.02, 100), runs=1)
    print(f"import and first run of the samplers: {time.process_time() - start:.1f} s of CPU time")
    for p in P:
        failures = equal_hosts(p, 100)
        value = float(mean_broken(queries, unavailability(queries, failures))[0][0])
        plain_s, _ = cpu_s(lambda p=p: plain_runs(queries, p, 200), 1)  # type: ignore[misc]
        line = f"  p = {p}: plain loop {200 / plain_s:,.0f} runs/s"
        variances = []
        for sample, runs in zip(samplers, (4_000_000, 200_000, 200_000), strict=True):
            spent, found = cpu_s(lambda s=sample, f=failures, n=runs: s(queries, f, runs=n), repeats)  # type: ignore[misc]
            low, high = found.mean.interval
            variances.append((high - low) ** 2 * found.runs)
            line += f"; {found.method} {found.runs / spent / 1e6:.1f} M/s"
            assert abs(found.mean.value - value) < 2 * (high - low)
        print(line + f"; variance per run / strata {variances[0] / variances[1]:,.0f}")
    pairs = Queries(100, tuple((k, k + 1) for k in range(0, 100, 2)), tuple((k,) for k in range(50)))
    failures = equal_hosts(3e-5, 100)
    value = float(unavailability(pairs, failures).low[0, 0])
    for sample in samplers[1:]:
        spent, found = cpu_s(lambda s=sample: s(pairs, failures, runs=1_000_000), 1)  # type: ignore[misc]
        half = (found.mean.interval[1] - found.mean.interval[0]) / 2
        print(f"  nine nines ({value:.1e}) by {found.method}: +- {100 * half / value:.1f} % in {spent:.2f} s")


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    exact(given.repeats)
    sampling(given.repeats)


if __name__ == "__main__":
    main()
